// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of recorded programs in the sandbox: hostile ones, which must end with their verdict, and
// answers to HumanEval and MBPP, whose verdict must be the official harness's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/golden_result.h"

namespace unmask {

// sandbox/programs.jsonl, scorers/humaneval.jsonl and scorers/mbpp.jsonl below the folder, plain or
// as .gz; a missing one is not listed. The tests of the answers come from the official files below
// `data`, then DIRECTORY/data and DIRECTORY/../data.
golden_results replay_programs(const std::filesystem::path& directory,
                               std::vector<std::filesystem::path> data);

}  // namespace unmask
