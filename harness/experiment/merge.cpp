// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/merge.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/analysis/json_of.h"
#include "harness/analysis/row.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json_lines.h"
#include "harness/base/process.h"
#include "harness/experiment/request.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What may differ between rows of one machine: how busy it was, and where it put the process.
const std::set<std::string> changing = {"load_average", "memory_available_bytes", "notes"};

struct found_row {
  std::string line;
  std::string file;
  std::string title;
  std::int64_t position = 0;
  bool failed = false;
};

struct gathered {
  std::map<std::string, found_row> rows;     // by point id
  std::map<std::string, json> environments;  // first row's, by where it was read
  std::size_t superseded = 0;
};

bool is_rows_file(const fs::path& path) {
  return path.extension() == ".jsonl" && !path.filename().string().starts_with("samples_");
}

std::vector<fs::path> files_of(const std::vector<fs::path>& sources, const fs::path& output) {
  std::vector<fs::path> files;
  for (const fs::path& source : sources) {
    if (!fs::exists(source)) throw environment_error("there are no rows at " + source.string());
    if (!fs::is_directory(source)) {
      files.push_back(source);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(source)) {
      std::error_code none;
      const bool itself = fs::equivalent(entry.path(), output, none);
      if (is_rows_file(entry.path()) && !itself) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

// The first environment stands for its kind; returns what differs from it, key by key.
std::string difference(const json& a, const json& b) {
  std::string text;
  std::set<std::string> keys;
  for (const auto& item : a.items()) keys.insert(item.key());
  for (const auto& item : b.items()) keys.insert(item.key());
  for (const std::string& key : keys) {
    if (changing.contains(key)) continue;
    const json left = a.value(key, json()), right = b.value(key, json());
    if (left == right) continue;
    text += (text.empty() ? "" : "; ") + key + ": " + left.dump() + " and " + right.dump();
  }
  return text;
}

void add(gathered& all, const std::string& line, const std::string& file) {
  const result_row row = parse_row(line, file);
  found_row found{line, file, row.title, row.position, row.verdict == verdict_kind::failed};
  const auto [at, fresh] = all.rows.try_emplace(row.point_id, found);
  if (!fresh) {
    found_row& before = at->second;
    if (!before.failed && !found.failed) {
      throw usage_error("point " + row.point_id + " was measured to its end twice, in " +
                        before.file + " and in " + file +
                        ": these are no parts of one run; merge them apart");
    }
    ++all.superseded;
    if (before.failed) before = std::move(found);
  }
  json environment = json::parse(row.environment);
  const bool known = std::ranges::any_of(all.environments, [&](const auto& other) {
    return difference(other.second, environment).empty();
  });
  if (!known) all.environments.emplace(file, std::move(environment));
}

void refuse_mixture(const std::map<std::string, json>& environments) {
  if (environments.size() < 2) return;
  const auto first = environments.begin(), second = std::next(first);
  throw usage_error("the rows come from " + std::to_string(environments.size()) +
                    " environments; between " + first->first + " and " + second->first +
                    " differ " + difference(first->second, second->second) +
                    "; --mixed-environments merges them all the same");
}

std::vector<std::string> missing_points(const std::vector<fs::path>& files,
                                        const std::map<std::string, found_row>& rows) {
  std::set<fs::path> manifests;
  for (const fs::path& file : files) {
    if (fs::exists(file.parent_path() / manifest_name)) {
      manifests.insert(file.parent_path() / manifest_name);
    }
  }
  std::vector<std::string> missing;
  for (const fs::path& manifest : manifests) {
    const json read = tree_of<json>(read_file(manifest, std::size_t{64} << 20));
    if (!read.is_object() || !read.contains("plan") || !read["plan"].is_array()) {
      throw environment_error(manifest.string() + ": `plan` is missing");
    }
    for (const json& point : read["plan"]) {
      if (!point.is_object() || !point.contains("id") || !point["id"].is_string()) {
        throw environment_error(manifest.string() + ": a point of `plan` has no `id`");
      }
      const std::string id = point["id"];
      if (!rows.contains(id)) missing.push_back(id);
    }
  }
  return missing;
}

}  // namespace

std::string slurm_script(const array_request& request) {
  if (request.parts.empty()) throw usage_error("a job array needs at least one point to measure");
  std::string text = fmt::format(
      "#!/bin/sh\n#SBATCH --job-name=unmask\n#SBATCH --array=0-{}\n#SBATCH --requeue\n"
      "#SBATCH --open-mode=append\n#SBATCH --output={}\n",
      request.parts.size() - 1, (request.directory / "task-%a.log").string());
  for (const std::string& directive : request.directives) {
    text += "#SBATCH " + directive + "\n";
  }
  text +=
      "# A task continues where it was stopped: points that have a row are not measured again.\n"
      "set -eu\ncase $SLURM_ARRAY_TASK_ID in\n";
  for (std::size_t i = 0; i < request.parts.size(); ++i) {
    text += fmt::format("{}) exec {} ;;\n", i, shell_line(request.parts[i]));
  }
  return text + "esac\n";
}

merge_summary merge_rows(const std::vector<fs::path>& sources, const fs::path& output, bool mixed) {
  const std::vector<fs::path> files = files_of(sources, output);
  gathered all;
  for (const fs::path& file : files) {
    const std::string text = read_file(file, std::size_t{4} << 30);
    // A torn last line, left by a job that was killed, has no newline and is no row.
    const std::size_t whole = text.rfind('\n');
    if (whole == std::string::npos) continue;
    for_each_line(std::string_view(text).substr(0, whole),
                  [&](std::string_view line, std::size_t number) {
                    add(all, std::string(line), file.string() + ":" + std::to_string(number));
                  });
  }
  if (all.rows.empty()) throw usage_error("there is no row to merge");
  if (!mixed) refuse_mixture(all.environments);
  merge_summary summary;
  summary.superseded = all.superseded;
  summary.missing = missing_points(files, all.rows);
  std::vector<const found_row*> ordered;
  for (const auto& [id, row] : all.rows) {
    if (row.failed) summary.unsettled.push_back(id);
    ordered.push_back(&row);
  }
  std::ranges::stable_sort(ordered, [](const found_row* a, const found_row* b) {
    return std::tie(a->title, a->position) < std::tie(b->title, b->position);
  });
  std::string text;
  for (const found_row* row : ordered) text += row->line + "\n";
  replace_file(output, text);
  summary.points = ordered.size();
  return summary;
}

}  // namespace unmask
