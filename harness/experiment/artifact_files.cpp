// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/artifact_files.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/analysis/store.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"
#include "harness/experiment/catalogue.h"
#include "harness/experiment/overlay.h"
#include "harness/experiment/request.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> scales_of(const fs::path& artifact) {
  return names_in(read_any_scale(artifact).scales, &scale_entry::name);
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
  std::error_code failed;
  std::vector<fs::path> files = {path};
  if (fs::is_directory(path, failed)) files = entries_of(path, ".toml");
  std::vector<paper_claim> all;
  for (const fs::path& file : files) {
    std::ranges::move(parse_claims(toml_text(file, "claims"), file), std::back_inserter(all));
  }
  return all;
}

void keep_claims(std::vector<paper_claim>& claims, const std::vector<std::string>& only) {
  keep_named("paper or claim", only, claims, [](const paper_claim& c) {
    return std::array{c.paper, c.paper + "/" + c.id};
  });
}

std::string folder_of_evidence(std::int64_t items, std::int64_t repetitions) {
  return fmt::format("items{}_repetitions{}", items, repetitions);
}

fs::path evidence_for(const paper_claim& claim, const fs::path& place) {
  std::vector<std::pair<std::int64_t, fs::path>> more;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(place / more_evidence, none)) {
    std::int64_t items = 1, repetitions = 1;
    const std::string name = entry.path().filename().string();
    std::sscanf(name.c_str(), "items%" SCNd64 "_repetitions%" SCNd64, &items, &repetitions);
    const std::int64_t evidence = rests_on_repetitions(claim) ? repetitions : items;
    if (evidence > 1) more.emplace_back(evidence, entry.path());
  }
  if (more.empty()) return place;
  std::ranges::sort(more, std::greater{});
  const std::set<std::string> wanted = names_behind(claim, read_frame({place}));
  const auto covers = [&](const auto& of) {
    return std::ranges::includes(names_behind(claim, read_frame({of.second})), wanted);
  };
  const auto found = std::ranges::find_if(more, covers);
  return wanted.empty() || found == more.end() ? place : found->second;
}

std::vector<artifact_run> runs_below(const fs::path& path, const std::string& artifact,
                                     const std::string& scale, const fs::path& experiments) {
  if (!artifact.empty()) {
    const experiment_spec spec = read_spec(artifact, scale);
    return {{spec.artifact.paper + "_" + spec.artifact.id, artifact, path, spec.scale}};
  }
  std::vector<fs::path> files = {path};
  if (fs::is_directory(path)) {
    files = files_below(path, [](const std::string& name) { return name == "rows.jsonl"; });
    std::erase_if(files, [](const fs::path& f) {
      return f.parent_path().parent_path().filename() == more_evidence;
    });
  }
  std::vector<artifact_run> runs;
  for (const fs::path& rows : files) {
    const fs::path folder = fs::absolute(rows).lexically_normal().parent_path();
    if (fs::exists(folder / manifest_name)) {
      const run_manifest m = read_manifest(folder / manifest_name);
      fs::path file = file_of(m, folder);
      std::error_code none;
      if (!fs::exists(file, none)) file = m.file;  // as the user who ran it named it
      if (!m.paper.empty()) runs.push_back({m.paper + "_" + m.artifact, file, rows, m.scale});
      continue;
    }
    // So does every row since schema 1.5.
    if (const experiment_record e = experiment_of_rows(rows); !e.file.empty()) {
      if (!e.paper.empty()) runs.push_back({e.paper + "_" + e.artifact, e.file, rows, e.scale});
      continue;
    }
    // A campaign's layout, PAPER/ARTIFACT/SCALE, says the same of older ones.
    const std::string id = folder.parent_path().filename();
    const std::string paper = folder.parent_path().parent_path().filename();
    const fs::path file = experiments / paper / (id + ".toml");
    if (fs::exists(file)) runs.push_back({paper + "_" + id, file, rows, folder.filename()});
  }
  return runs;
}

namespace {

bool has_rows(const fs::path& place) {
  std::error_code failed;
  return fs::is_directory(place, failed) && !read_rows(place).rows.empty();
}

// The scale at which a claim is judged: the one asked for, else the first of its own that has rows.
std::string judged_scale(const paper_claim& claim, const fs::path& results, std::string asked) {
  if (std::ranges::find(claim.scales, asked) != claim.scales.end()) return asked;
  for (const std::string& scale : claim.scales) {
    if (std::ranges::all_of(claim.artifacts, [&](const fs::path& artifact) {
          return has_rows(results / output_name(read_spec(artifact, scale)));
        })) {
      return scale;
    }
  }
  return asked;
}

claim_result judged(const paper_claim& claim, const fs::path& results, const std::string& asked,
                    const machine_view& machine) {
  claim_result r;
  const std::string scale = r.scale = judged_scale(claim, results, asked);
  if (std::ranges::find(claim.scales, scale) == claim.scales.end()) {
    r.reason = fmt::format("NOT RUN: cannot be checked at scale {}, only at {}", scale,
                           fmt::join(claim.scales, ", "));
    const std::string lack =
        cannot_run(read_spec(claim.artifacts.front(), claim.scales.front()), machine);
    if (!lack.empty()) r.reason += ", which " + lack.substr(std::string("NOT RUN: ").size());
    return r;
  }
  std::vector<fs::path> places;
  for (const fs::path& artifact : claim.artifacts) {
    const experiment_spec spec = read_spec(artifact, scale);
    const fs::path place = results / output_name(spec);
    if (has_rows(place)) {
      places.push_back(evidence_for(claim, place));
    } else if (r.reason.empty()) {
      r.reason = cannot_run(spec, machine);
      if (r.reason.empty()) {
        r.reason = fmt::format("NOT RUN: no rows in {}; unmask run {} --scale {} -o {}",
                               place.string(), artifact.string(), scale, place.string());
      }
    }
  }
  return r.reason.empty() ? check_claim(claim, read_frame(places), scale) : r;
}

// "; control: STATEMENT: VERDICT, NUMBER" for each control of a claim that did not hold.
std::string controls_of(const paper_claim& claim, const fs::path& results, const std::string& asked,
                        const machine_view& machine) {
  std::string text;
  for (const paper_claim& control : claim.controls) {
    const claim_result r = judged(control, results, asked, machine);
    const std::string says =
        control.statement.substr(0, control.statement.find_last_not_of(".") + 1);
    text += fmt::format("; control: {}: {}", says, name_of(r.judged));
    if (r.measured) text += ", " + estimate_text(*r.measured);
  }
  return text.empty() ? "; no control" : text;
}

}  // namespace

std::vector<checked_claim> check_claims(const std::vector<paper_claim>& claims,
                                        const fs::path& results, const std::string& asked,
                                        const machine_view& machine) {
  std::vector<checked_claim> all;
  for (const paper_claim& claim : claims) {
    claim_result r = judged(claim, results, asked, machine);
    if (r.judged == verdict::not_reproduced || (r.judged == verdict::partly && r.failed > 0)) {
      r.reason += controls_of(claim, results, asked, machine);
    }
    all.push_back({claim, std::move(r)});
  }
  return all;
}

int exit_status_of(const std::vector<checked_claim>& claims) {
  const bool missed = std::ranges::any_of(claims, [](const checked_claim& c) {
    return c.result.judged == verdict::not_reproduced || c.result.judged == verdict::partly;
  });
  return static_cast<int>(missed ? exit_code::not_reproduced : exit_code::ok);
}

}  // namespace unmask
