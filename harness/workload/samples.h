// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Answers in the form of lm-evaluation-harness's samples_TASK_DATE.jsonl (0.4.8), so that its own
// scorers, and whatever else reads such files, can be run over them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/workload/scorer.h"
#include "harness/workload/task.h"

namespace unmask {

struct answer_sample {
  std::string output;                  // what the model answered, cut at the stop strings
  std::vector<double> loglikelihoods;  // of a choice by likelihood, one per continuation
  std::vector<filtered_answer> filters;
  // Keys of our own behind lm-eval's, values as JSON.
  std::vector<std::pair<std::string, std::string>> more;
};

// One line per filter, joined by newlines: doc_id, doc, target, arguments, resps, filtered_resps,
// filter, metrics, doc_hash, prompt_hash, target_hash, then each metric. item.prompt: the whole text
// that the model was given.
std::string sample_lines(const task_item& item, const answer_sample& sample);

// item.task, or the family where there is none, without what a file's name cannot hold.
std::string sample_file_name(const task_item& item, const std::string& date);

}  // namespace unmask
