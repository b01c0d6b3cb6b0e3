// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What harness/analysis needs to know of experiment files: an artifact's layout, the claims about it,
// and where its rows lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/analysis/claims.h"
#include "harness/analysis/layout.h"
#include "harness/experiment/needs.h"

namespace unmask {

// Usage errors that name file, line and key.
paper_layout read_layout(const std::filesystem::path& file, const std::string& scale);

std::vector<paper_claim> parse_claims(const std::string& toml, const std::filesystem::path& file);
// Of one file, or of every TOML file of a directory in order of their names.
std::vector<paper_claim> read_claims(const std::filesystem::path& path);

// Keeps the claims that PAPER or PAPER/CLAIM names; none given: all. Usage error with the nearest
// name for one that names nothing.
void keep_claims(std::vector<paper_claim>& claims, const std::vector<std::string>& only);

// A measured run of an artifact: its rows, and the experiment file and scale they came from.
struct artifact_run {
  std::string name;  // "focus_table_5"
  std::filesystem::path file, rows;
  std::string scale;
};
// The runs at or below a path, in natural order: as the run.json beside their rows says, else the rows
// themselves, else (of rows before schema 1.5) their place PAPER/ARTIFACT/SCALE. `artifact` given: the path itself, of that file and scale.
std::vector<artifact_run> runs_below(const std::filesystem::path& path, const std::string& artifact,
                                     const std::string& scale,
                                     const std::filesystem::path& experiments);

// Below an artifact's place: folders such as more/items4_repetitions1 with rows of some of its points.
inline constexpr const char* more_evidence = "more";
std::string folder_of_evidence(std::int64_t items, std::int64_t repetitions);

// The place itself, or below it that of most items (of repetitions, for a claim on times or seeds) with
// a row of each point behind the claim: the rows of one comparison have the same items. What was
// measured for the sake of items alone need not have had the machine for itself, so it tells no times.
std::filesystem::path evidence_for(const paper_claim& claim, const std::filesystem::path& place);

// Each claim against the rows in RESULTS/PAPER/ID/SCALE, at this scale or, where the claim is not for
// it, at the first of its own that has rows. NOT RUN, with what is needed, where there is none, the
// machine lacks something or there are no rows.
std::vector<checked_claim> check_claims(const std::vector<paper_claim>& claims,
                                        const std::filesystem::path& results,
                                        const std::string& scale, const machine_view& machine);

// 4 when a claim is NOT REPRODUCED or only PARTLY; else 0.
int exit_status_of(const std::vector<checked_claim>& claims);

}  // namespace unmask
