// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a paper claims, as relations between rows that can be checked:
// experiments/claims/PAPER.toml.
//
//   paper
//   [[claim]]  id, statement, source, artifact = FILE or artifacts = [FILES], scales = [...], kind,
//              metric, left, right, relation, tolerance, aggregate, along, value, expected, variant,
//              published = {value, unit, source, as}, note
//   [[claim.precondition]]  says, metric, where, relation, value
//   [[control]]  as a claim; of no paper. Claims name theirs: controls = [IDS of controls or claims]
//
// The README of this room says what the keys mean and how each kind is judged. In short: a point is a
// pair of rows that agree in everything the selectors do not fix (circumstance_of); where the sides
// name different metrics and `right` fits the left row, two values of that row. It holds when the
// whole of the 95 % interval of its quantity is on the wanted side, fails when no part of it is, and
// is undecided otherwise: without an interval, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/analysis/estimates.h"
#include "harness/analysis/frame.h"
#include "harness/analysis/text_table.h"
#include "harness/analysis/verdict.h"

namespace unmask {

enum class claim_kind : std::uint8_t { ratio, ordering, monotone, threshold, equal };
enum class claim_aggregate : std::uint8_t { each, mean, max, min };
const char* name_of(claim_kind kind);

struct claim_published {
  double value = 0;
  std::string unit, source;
  // The same in the units of what is measured: a ratio, a difference of scores (of 1), a value.
  // Nothing where they cannot be compared.
  std::optional<double> comparable;
  double rounding = 0;  // half a unit of the last printed digit, in the same units
};

// What must hold of rows in the circumstances of a point for the point to count: in the regime of
// the paper, that is.
struct claim_precondition {
  std::string says;    // "Fast-dLLM decides at most 3 tokens per step"
  row_selector where;  // with its metric
  std::string relation;
  double value = 0;
};

struct paper_claim {
  std::string paper, id, statement, source, note;
  std::vector<std::filesystem::path> artifacts;  // experiment files, whose rows are pooled
  std::string variant;                           // which of several readings is judged
  std::vector<std::string> scales;
  claim_kind kind = claim_kind::ordering;
  claim_aggregate aggregate = claim_aggregate::each;
  std::string relation, along;
  row_selector left, right;  // each with its metric filled in
  double tolerance = 0;
  // Of an ordering that says better or worse: the least difference that counts as one, of scores, or
  // of a ratio from 1. Where the interval excludes it, the statement is not reproduced even if the
  // sign is open.
  double least = 0;
  std::optional<double> expected, value;
  std::optional<claim_published> published;
  std::vector<claim_precondition> preconditions;
  // What must hold here if the set-up can show the statement at all: the same rows with the method, or
  // the part of it, left out; the knob's effect on what it turns; the same probe on a larger model.
  std::vector<paper_claim> controls;
  std::vector<std::string> control_ids;
  std::string where;  // FILE:LINE
};

// The names of an artifact's scales.
using scales_of_artifact =
    std::function<std::vector<std::string>(const std::filesystem::path& artifact)>;

// Usage errors that name file, line and key: unknown or missing keys, a key that its kind does not
// use, an id twice, an artifact or scale that does not exist.
std::vector<paper_claim> parse_claims(const std::string& toml, const std::filesystem::path& file,
                                      const scales_of_artifact& scales_of);

// Whether the published size lies in the interval of what was measured.
enum class published_size : std::uint8_t { not_compared, inside, outside };
const char* name_of(published_size size);  // "", "inside", "outside"

struct claim_result {
  verdict judged = verdict::not_run;
  published_size size = published_size::not_compared;
  std::string reason;  // one line, with the measured number, its interval and n
  std::string scale;
  std::optional<estimate> measured;                 // of the point named in the reason
  std::size_t held = 0, undecided = 0, failed = 0;  // points
  // Of an AMBIGUOUS claim: how many times the evidence of its points would decide all of them as
  // they stand, and evidence of which kind. Infinity: no amount; 0: unknown, nothing has an interval.
  double evidence_factor = 1;
  bool by_repetition = false;     // more repetitions (seeds) rather than more items
  std::size_t out_of_regime = 0;  // points whose precondition does not hold
  bool tiny_models = false;
  bool synthetic = false;  // weights without meaning, or a virtual clock
};

// Selectors of the rows that the claim rests on.
std::vector<row_selector> points_of(const paper_claim& claim);
// Times and capacities grow sure with repetitions and seeds, all else with items.
bool rests_on_repetitions(const paper_claim& claim);
// Names (point_name) of those rows.
std::set<std::string> names_behind(const paper_claim& claim, const frame& rows);

// The claim against rows of its artifact. NOT RUN without rows to compare. Usage error when a left
// row has several partners: the selectors must be narrower.
claim_result check_claim(const paper_claim& claim, const frame& rows, const std::string& scale);

struct checked_claim {
  paper_claim claim;
  claim_result result;
};
text_table claims_table(const std::vector<checked_claim>& claims);  // and how many of each verdict
std::string claims_json(const std::vector<checked_claim>& claims);  // an array

}  // namespace unmask
