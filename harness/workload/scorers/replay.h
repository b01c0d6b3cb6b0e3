// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of recorded cases of the official scorers: item and response in, extraction and score out.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/base/golden_result.h"

namespace unmask::scorers {

// Replays scorers/*.jsonl and zh/jieba_cut.jsonl below the folder, plain or as .gz: discrete
// results must be equal, others within 1e-6. Of humaneval and mbpp only the text of the program is
// compared here; verdicts need a sandbox (programs/replay.h). An unknown file in scorers/ is a failure, a missing one is not
// listed. Environment error for a file that cannot be read.
std::vector<golden_result> replay_scorers(const std::filesystem::path& directory);

// Writes the cases of lm-eval's GSM8K, MATH, MMLU and IFEval as our scorers judge them into lm-eval's
// sample files (samples.h) in the folder.
void write_scorer_samples(const std::filesystem::path& directory,
                          const std::filesystem::path& folder);

}  // namespace unmask::scorers
