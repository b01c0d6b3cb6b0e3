// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a paper claims, as relations between rows that can be checked:
// experiments/claims/PAPER.toml.
//
//   paper
//   [[claim]]  id, statement, source, artifact = FILE, scales = [...], kind, metric, left, right,
//              relation, tolerance, aggregate, along, value, expected, published = {...}, note
//
//   kind       wanted of the 95 % interval I of a quantity (counted ones are exact)
//   ratio      of left/right, against `expected` (default published.value): about: within
//              `tolerance` (default 0.1, relative); >= and <=: beyond expected -+ tolerance
//   ordering   left relation right: of left/right, beyond 1 -+ tolerance; of scores, of
//              left - right, beyond -+ tolerance
//   monotone   neighbours of the left rows sorted by `along`: increasing, decreasing,
//              nondecreasing, nonincreasing, as ordering does
//   threshold  left relation `value`, as ordering does
//   equal      left = right within tolerance (default 0), relative; of scores absolute
//
// A point holds when the whole of I is on the wanted side, fails when the whole of it is not, and
// is undecided when I contains the bound: too few items or repetitions to tell. A value timed once
// is judged as if it could be 10 % off either way.
//
// A point is a pair of rows that agree in everything the selectors do not fix (circumstance_of); where
// the two sides name different metrics and `right` fits the left row, two values of that row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/artifact/selector.h"

namespace unmask {

enum class claim_kind : std::uint8_t { ratio, ordering, monotone, threshold, equal };
enum class claim_aggregate : std::uint8_t { each, mean, max, min };
const char* name_of(claim_kind kind);

struct claim_published {
  double value = 0;
  std::string unit, source;
};

struct paper_claim {
  std::string paper, id, statement, source, note;
  std::filesystem::path artifact;  // the experiment file
  std::vector<std::string> scales;
  claim_kind kind = claim_kind::ordering;
  claim_aggregate aggregate = claim_aggregate::each;
  std::string relation, along;
  row_selector left, right;  // each with its metric filled in
  double tolerance = 0;
  std::optional<double> expected, value;
  std::optional<claim_published> published;
  std::string where;  // FILE:LINE
};

// Usage errors that name file, line and key: unknown or missing keys, a key that its kind does not
// use, an id twice, an artifact or scale that does not exist.
std::vector<paper_claim> parse_claims(const std::string& toml, const std::filesystem::path& file);
// Of one file, or of every TOML file of a directory in order of their names.
std::vector<paper_claim> read_claims(const std::filesystem::path& path);

// All points hold; some do; all are undecided; none holds and some fail; nothing to compare.
enum class claim_verdict : std::uint8_t { reproduced, partly, ambiguous, not_reproduced, not_run };
const char* name_of(claim_verdict verdict);  // "REPRODUCED", "PARTLY", ...

struct claim_result {
  claim_verdict verdict = claim_verdict::not_run;
  std::string reason;  // one line, with the measured number, its interval and n
  std::string scale;
  std::optional<estimate> measured;                 // of the point named in the reason
  std::size_t held = 0, undecided = 0, failed = 0;  // points
  bool tiny_models = false, synthetic = false;
};

// The claim against rows of its artifact. NOT RUN without rows to compare. Usage error when a left
// row has several partners: the selectors must be narrower.
claim_result check_claim(const paper_claim& claim, const std::vector<result_row>& rows,
                         const std::string& scale);

struct checked_claim {
  paper_claim claim;
  claim_result result;
};
// | paper | claim | verdict | measured | published | reason |, then how many of each verdict.
std::string claims_markdown(const std::vector<checked_claim>& claims);
std::string claims_json(const std::vector<checked_claim>& claims);  // an array

}  // namespace unmask
