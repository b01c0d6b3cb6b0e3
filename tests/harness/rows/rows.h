// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows for tests, without any model.
#pragma once

#include "harness/rows/statistics.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask::fixtures {

// A scored row of `label` whose repetitions took these seconds, 100 output tokens each.
inline result_row row_of(const std::string& label, const std::vector<double>& seconds,
                         std::int64_t batch = 1, const std::string& task = "word_problem") {
  result_row row = sample_row(label + "/" + std::to_string(batch) + "/" + task);
  row.label = label;
  row.method = "vanilla";
  row.variation = "";
  row.workload = {task, "hash of " + task, 10};
  row.model.parameters = 2'000'000;
  row.run.batch_size = batch;
  row.samples.seconds = seconds;
  row.samples.half_width = relative_half_width(seconds);
  row.metrics["output_tokens"] = {100, origin::counted};
  row.metrics["committed"] = {100, origin::counted};
  row.metrics["redundancy"] = {4, origin::counted};
  row.metrics["wall_seconds"] = {mean_of(seconds), origin::measured};
  row.metrics["tokens_per_second"] = {100 / mean_of(seconds), origin::measured};
  row.score = score_record{0.5, 5, 10, 0.24, 0.76};
  row.verdict = row_verdict::pass;
  row.reason = "";
  return row;
}

}  // namespace unmask::fixtures
