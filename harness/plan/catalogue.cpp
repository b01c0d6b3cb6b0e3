// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/catalogue.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

bool holds_no_experiments(const std::string& folder) {
  for (const char* name : {"models", "data", "published", "claims", "peers"}) {
    if (folder == name) return true;
  }
  return false;
}

void collect(const fs::path& folder, std::vector<fs::path>& files) {
  std::error_code ignored;
  for (const fs::path& entry : entries_of(folder)) {
    if (fs::is_directory(entry, ignored)) {
      if (!holds_no_experiments(entry.filename().string())) collect(entry, files);
    } else if (entry.extension() == ".toml") {
      files.push_back(entry);
    }
  }
}

// Nothing when the file is no artifact.
bool read_entry(artifact_entry& entry, const machine_view& machine) {
  // The default scale may not exist; any scale tells the header and the names of all.
  experiment_spec first;
  try {
    first = read_any_scale(entry.file);
    if (first.artifact.paper.empty()) return false;
    entry.header = first.artifact;
    for (const scale_entry& s : first.scales) {
      const experiment_spec spec = read_spec(entry.file, s.name);
      entry.scales.push_back({s, needs_of(spec), cannot_run(spec, machine)});
    }
    if (entry.scales.empty() && entry.header.not_reproducible.empty()) {
      entry.problem = entry.file.string() + ": an artifact needs [scale.NAME] tables";
    }
  } catch (const error& problem) {
    entry.problem = problem.what();
  }
  return true;
}

}  // namespace

std::string natural_order(const std::string& text) {
  std::string key, digits;
  const auto flush = [&] {
    if (!digits.empty()) key += std::string(10 - std::min<std::size_t>(10, digits.size()), '0');
    key += digits;
    digits.clear();
  };
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      digits += c;
    } else {
      flush();
      key += c;
    }
  }
  flush();
  return key;
}

std::vector<fs::path> files_below(const fs::path& root,
                                  const std::function<bool(const std::string&)>& accept) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && accept(entry.path().filename())) files.push_back(entry.path());
  }
  std::ranges::sort(files, {}, [](const fs::path& f) { return natural_order(f.string()); });
  return files;
}

std::vector<artifact_entry> find_artifacts(const fs::path& root, const machine_view& machine) {
  std::vector<fs::path> files;
  std::error_code failed;
  if (fs::is_regular_file(root, failed)) {
    files.push_back(root);
  } else {
    collect(root, files);
  }
  std::vector<artifact_entry> all;
  for (const fs::path& file : files) {
    artifact_entry entry;
    entry.file = file;
    if (read_entry(entry, machine)) all.push_back(std::move(entry));
  }
  std::ranges::stable_sort(all, {}, [](const artifact_entry& a) {
    return std::pair(a.header.paper, natural_order(a.header.id));
  });
  std::map<std::pair<std::string, std::string>, fs::path> seen;
  for (artifact_entry& a : all) {
    if (a.header.paper.empty()) continue;
    const auto [at, fresh] = seen.emplace(std::pair(a.header.paper, a.header.id), a.file);
    if (!fresh && a.problem.empty()) {
      a.problem = fmt::format("{}: paper '{}' has the artifact '{}' already, in {}",
                              a.file.string(), a.header.paper, a.header.id, at->second.string());
    }
  }
  return all;
}

std::string artifact_listing(const std::vector<artifact_entry>& artifacts) {
  std::size_t wide = 0;
  for (const artifact_entry& a : artifacts) {
    wide = std::max(wide, a.header.paper.size() + a.header.id.size() + 1);
  }
  std::string text;
  for (const artifact_entry& a : artifacts) {
    if (!a.problem.empty()) {
      text += "  BROKEN " + a.problem + "\n";
      continue;
    }
    text += fmt::format("  {:<{}}  {}  ({})\n", a.header.paper + " " + a.header.id, wide,
                        a.header.title, a.file.string());
    if (!a.header.not_reproducible.empty()) {
      text += fmt::format("  {:<{}}  NOT RUN: {}\n", "", wide, a.header.not_reproducible);
    }
    for (const artifact_scale& s : a.scales) {
      const std::string takes = s.entry.takes.empty() ? "" : " (" + s.entry.takes + ")";
      text += fmt::format("  {:<{}}  {:<7}{}{}\n", "", wide, s.entry.name,
                          s.obstacle.empty() ? "runs here" : s.obstacle, takes);
    }
  }
  return text;
}

}  // namespace unmask
