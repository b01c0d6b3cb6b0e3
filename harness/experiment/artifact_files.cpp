// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/artifact_files.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"
#include "harness/experiment/catalogue.h"
#include "harness/experiment/manifest.h"
#include "harness/experiment/overlay.h"
#include "harness/experiment/request.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> scales_of(const fs::path& artifact) {
  std::vector<std::string> names;
  for (const scale_entry& s : read_any_scale(artifact).scales) names.push_back(s.name);
  return names;
}

}  // namespace

paper_layout read_layout(const fs::path& file, const std::string& scale) {
  const std::string text = toml_text(file, "experiment");
  const experiment_spec spec = parse_spec(text, file, scale);
  const experiment_table read = overlaid_table(text, file, scale);
  paper_layout layout;
  layout.id = spec.artifact.id;
  layout.title = spec.artifact.title;
  layout.scale = spec.scale;
  toml_reader r(read.table, file.string(), "");
  parse_layout(r, layout);
  if (!spec.artifact.published.empty()) layout.published = read_published(spec.artifact.published);
  return layout;
}

std::vector<paper_claim> parse_claims(const std::string& text, const fs::path& file) {
  return parse_claims(text, file, scales_of);
}

std::vector<paper_claim> read_claims(const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".toml") files.push_back(entry.path());
    }
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  std::vector<paper_claim> all;
  for (const fs::path& file : files) {
    std::ranges::move(parse_claims(toml_text(file, "claims"), file), std::back_inserter(all));
  }
  return all;
}

void keep_claims(std::vector<paper_claim>& claims, const std::vector<std::string>& only) {
  std::set<std::string> known;
  for (const paper_claim& c : claims) known.insert({c.paper, c.paper + "/" + c.id});
  for (const std::string& name : only) {
    if (!known.contains(name)) {
      throw usage_error(unknown_name("paper or claim", name, {known.begin(), known.end()}));
    }
  }
  std::erase_if(claims, [&](const paper_claim& c) {
    return !only.empty() && std::ranges::find(only, c.paper) == only.end() &&
           std::ranges::find(only, c.paper + "/" + c.id) == only.end();
  });
}

std::vector<artifact_run> runs_below(const fs::path& path, const std::string& artifact,
                                     const std::string& scale) {
  if (!artifact.empty()) {
    const experiment_spec spec = read_spec(artifact, scale);
    return {{spec.artifact.paper + "_" + spec.artifact.id, artifact, path, spec.scale}};
  }
  std::vector<fs::path> folders;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().filename() == manifest_name) folders.push_back(entry.path().parent_path());
    }
    std::ranges::sort(folders, {}, [](const fs::path& f) { return natural_order(f.string()); });
  } else {
    folders.push_back(path.parent_path());
  }
  std::vector<artifact_run> runs;
  for (const fs::path& folder : folders) {
    if (!fs::exists(folder / manifest_name)) continue;
    const run_manifest m = read_manifest(folder / manifest_name);
    if (m.paper.empty()) continue;
    runs.push_back({m.paper + "_" + m.artifact, m.file,
                    fs::is_directory(path) ? folder : path, m.scale});
  }
  return runs;
}

std::vector<checked_claim> check_claims(const std::vector<paper_claim>& claims,
                                        const fs::path& results, const std::string& scale,
                                        const machine_view& machine) {
  std::vector<checked_claim> all;
  for (const paper_claim& claim : claims) {
    checked_claim checked{claim, {}};
    claim_result& r = checked.result;
    r.scale = scale;
    if (std::ranges::find(claim.scales, scale) == claim.scales.end()) {
      std::string names;
      for (const std::string& s : claim.scales) names += (names.empty() ? "" : ", ") + s;
      r.reason = "NOT RUN: cannot be checked at scale " + scale + ", only at " + names;
      const std::string lack = cannot_run(read_spec(claim.artifact, claim.scales.front()), machine);
      if (!lack.empty()) r.reason += ", which " + lack.substr(std::string("NOT RUN: ").size());
      all.push_back(std::move(checked));
      continue;
    }
    const experiment_spec spec = read_spec(claim.artifact, scale);
    const fs::path place = results / output_name(spec);
    std::error_code failed;
    if (fs::is_directory(place, failed)) {
      const frame rows = read_frame({place});
      r = rows.rows().empty() ? r : check_claim(claim, rows, scale);
    }
    if (r.reason.empty()) {
      r.reason = cannot_run(spec, machine);
      if (r.reason.empty()) {
        r.reason = fmt::format("NOT RUN: no rows in {}; unmask run {} --scale {} -o {}",
                               place.string(), claim.artifact.string(), scale, place.string());
      }
    }
    all.push_back(std::move(checked));
  }
  return all;
}

int exit_status_of(const std::vector<checked_claim>& claims) {
  const bool missed = std::ranges::any_of(claims, [](const checked_claim& c) {
    return c.result.judged == verdict::not_reproduced ||
           c.result.judged == verdict::partly;
  });
  return static_cast<int>(missed ? exit_code::not_reproduced : exit_code::ok);
}

}  // namespace unmask
