// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What one measured pass over a workload leaves behind, and how a row is made from several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/decode/counters.h"
#include "harness/decode/pass_totals.h"
#include "harness/decode/policies.h"
#include "harness/devices/machine_use.h"
#include "harness/model/config.h"
#include "harness/rows/row.h"
#include "harness/workload/scorer.h"

namespace unmask {

struct answer_record {
  std::int64_t prompt_tokens = 0;
  std::int64_t canvas_tokens = 0;    // generated positions laid out for it
  std::vector<std::int32_t> tokens;  // what came out, up to where the method stopped
  sequence_counters work;
  double seconds = 0;              // admission to finish
  double first_block_seconds = 0;  // admission to first decided token
  std::size_t request = 0;         // of a served pass: which arrival it answers
  // The likelihood of each continuation of a choice, and the largest standard error among them.
  std::vector<double> loglikelihoods = {};
  double standard_error = 0;
};

struct pass_record : pass_totals {
  double seconds = 0;
  origin time = origin::measured;  // analytic: a virtual clock
  bool served = false;             // requests arrived; closed-loop latency is not defined
  // On a real clock clients left: which requests are answered depends on the machine.
  bool clients_left = false;
  // On a real clock the method decodes a request by what runs beside it (pace_shape::by_load): another
  // repetition may give other tokens.
  bool answers_vary = false;
  machine_use use;                        // who used the processors meanwhile
  std::map<std::string, metric> metrics;  // of this pass alone; the row has their means
  std::string unmetered;                  // why the ranks of it have no energy together
  topology_record topology;               // of several ranks, as their group says it
  std::vector<answer_record> answers;
};

struct scored_answer : score {
  std::string id, text;
  std::string group;                   // subject or task of a benchmark of several
  std::size_t item = 0;                // its place in the workload, for sample files
  std::vector<double> loglikelihoods;  // of a choice, as lm-eval reports them
};

// The meaning of a model's token ids.
struct token_rules {
  std::int32_t vocabulary = 0;
  std::int32_t mask_id = -1;
  std::vector<std::int32_t> stop_ids;
};

token_rules rules_of(const model_config& model);

// Tokens of an answer up to and including its first stop token.
std::int64_t output_tokens_of(const answer_record& answer, const token_rules& rules);
// Without the stop token.
std::int64_t answer_tokens_of(const answer_record& answer, const token_rules& rules);

// Metrics that are made from a list rather than by hand: the counters (harness/decode/counters.h), the
// totals of a pass (harness/decode/pass_totals.h), and these: `over` / `under`, both metrics of the
// same row; absent where one is, or `under` is 0. results/FORMAT.md documents all.
struct ratio_spec {
  const char *name, *over, *under, *unit, *meaning;
};
const std::vector<ratio_spec>& ratio_list();

// A setting of this point, "alpha = 0.5", and the metric that counts how often it acted.
struct active_knob {
  std::string setting, counter;
};

struct measured_point {
  // Repetitions; their tokens are equal (of requests that both answered, where clients left on a
  // real clock), or the row is INVALID. With answers_vary they may differ.
  std::vector<pass_record> passes;
  std::vector<double> warmup_seconds;
  std::string stop;                   // why the repetitions ended
  std::size_t taken_up = 0;           // of the passes: made by an earlier run that was stopped
  std::vector<scored_answer> scores;  // of the first pass
  // Of each later pass, if answers vary: the row's score is the mean of all passes.
  std::vector<std::vector<scored_answer>> later_scores;
  token_rules rules;
  std::vector<active_knob> knobs;
  std::int32_t first_late_layer = row_traits().first_late_layer();  // of the method
  bool keep_items = false;  // every item's result goes into the row (closed loops only)
};

// Fills in what the device that the row names says of itself; "auto" says nothing.
void describe_device(result_row& row);
// Metrics, score, samples and verdict of `row`, whose other fields are filled.
void measure_row(result_row& row, const measured_point& point);

// The first law a pass breaks, as a sentence; empty when all hold:
//   committed = output up to EOS + decided after EOS + decided beyond the answer
//   no mask and no id outside the vocabulary in an answer; every decision had a row; times and
//   counts are finite and not negative.
std::string broken_law(const pass_record& pass, const token_rules& rules);

}  // namespace unmask
