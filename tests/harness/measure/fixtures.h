// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Answers, passes and a row for tests, without any model.
#pragma once

#include <string>

#include "harness/measure/record.h"
#include "tests/harness/plan/fixtures.h"

namespace unmask::fixtures {

inline const token_rules rules{100, 99, {2}};

// Four tokens, EOS third; six decided on a canvas of eight.
inline answer_record good_answer() {
  answer_record a;
  a.prompt_tokens = 5;
  a.canvas_tokens = 8;
  a.tokens = {7, 8, 2, 2};
  a.seconds = 0.5;
  a.first_block_seconds = 0.25;
  a.work.forwards = 3;
  a.work.denoise_steps = 3;
  a.work.rows = a.work.decode_rows = 24;
  a.work.layer_rows = 48;
  a.work.late_layer_rows = 18;
  a.work.head_rows = 20;
  a.work.committed = 6;
  a.work.flops = 1e6;
  a.work.keys_seen = 100;
  return a;
}

inline pass_record good_pass(double seconds = 1.0, std::size_t answers = 2) {
  pass_record pass;
  pass.seconds = seconds;
  pass.steps = 3;
  pass.peak_kv_bytes = 4096;
  pass.answers.assign(answers, good_answer());
  return pass;
}

inline scored_answer scored(double value) {
  scored_answer s;
  s.scored = true;
  s.value = value;
  s.exact = value == 1;
  return s;
}

inline measured_point good_point() {
  measured_point point;
  point.passes = {good_pass(1.0), good_pass(1.2), good_pass(0.8)};
  point.stop = "max_repetitions";
  point.scores = {scored(1), scored(0)};
  point.rules = rules;
  return point;
}

inline result_row sample_row(const std::string& id = "0123456789abcdef") {
  result_row row;
  row.run_id = "run";
  row.point_id = id;
  row.model = {"tiny", "abc", 1000, "checkpoint", {}, 5};
  row.model.used.format = row.model.used.kv_type = "f32";
  row.workload = {"word_problem", "def", 2};
  row.method = row.label = "vanilla";
  row.params = {{"steps", 8}, {"threshold", 0.5}, {"on", true}, {"order", "a|b"}};
  measure_row(row, good_point());
  return row;
}

}  // namespace unmask::fixtures
