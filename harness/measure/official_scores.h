// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The answers to a published benchmark are scored by the benchmark's own libraries, in the Python
// package (`unmask score`) and in processes of its own.
#pragma once

#include <string>
#include <vector>

#include "harness/measure/record.h"
#include "harness/workload/task.h"

namespace unmask {

// What a note begins with where the scores can still be had: `unmask score` on the answers' sample files.
inline constexpr const char* scores_not_run = "NOT RUN: scores: ";

// The answers as lines of lm-eval's sample files (workload/samples.h), by the files' names. `more`: keys
// of every line behind lm-eval's and ours, as JSON values.
std::map<std::string, std::string> sample_files_of(
    const std::vector<scored_answer>& answers, const std::vector<task_item>& items,
    const std::string& date, const std::vector<std::pair<std::string, std::string>>& more);

// Scores those answers whose scorer is not this program's own (is_own_scorer), all in one call of the
// package; the others stay as they are. answers[k].item is its place in `items`. Where the package
// cannot be run, or ends with an error, these answers stay unscored and say why: scores_not_run and the
// reason. An answer that the libraries cannot judge is undecided, with their reason. Never throws
// because of an answer.
void score_officially(std::vector<scored_answer>& answers, const std::vector<task_item>& items);

}  // namespace unmask
