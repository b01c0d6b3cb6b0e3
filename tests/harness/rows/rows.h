// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows and files for the tests of the artifact room, without any model.
#pragma once

#include "harness/rows/statistics.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask::testing_analysis {

using test::message_of;
using testing_experiment::scratch_directory;

// A scored row of `label` whose repetitions took these seconds, 100 output tokens each.
inline result_row row_of(const std::string& label, const std::vector<double>& seconds,
                         std::int64_t batch = 1, const std::string& task = "word_problem") {
  result_row row = testing_experiment::sample_row(label + "/" + std::to_string(batch) + "/" + task);
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
  row.verdict = verdict_kind::pass;
  row.reason = "";
  return row;
}

inline std::filesystem::path write(const std::filesystem::path& file, const std::string& text) {
  write_file(file, text);
  return file;
}

inline bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// An artifact with two scales; the second cannot run anywhere that tests run.
inline const char* const artifact_text = R"(title = "Speed"
[artifact]
paper = "focus"
id = "table_5"
kind = "table"
title = "Speed & redundancy"
[run]
repetitions = 3
[[method]]
name = "vanilla"
models = ["canvas"]
[[method]]
name = "vanilla"
label = "fast"
params.threshold = 0.9
[sweep]
batch_size = [1, 8]
params.steps = [0, 4]
[scale.tiny]
takes = "1 s"
[scale.tiny.run]
batch_size = 2
[[scale.tiny.model]]
path = "tiny"
role = "canvas"
[[scale.tiny.workload]]
file = "tasks.jsonl"
[scale.tiny.sweep]
batch_size = [1, 4]
params.steps = []
[scale.tiny.set]
"method.fast.threshold" = 0.7
"run.repetitions" = 5
[scale.full]
needs = ["memory_gb:64", "gpus:2"]
[[scale.full.model]]
path = "weights:GSAI-ML/LLaDA-8B"
role = "canvas"
[[scale.full.workload]]
benchmark = "gsm8k"
[scale.full.run]
device = "cuda"
)";

}  // namespace unmask::testing_analysis
