// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of recorded prompts: the official item in, the text that the harness sends out, byte for
// byte.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/golden_result.h"

namespace unmask {

// Replays prompts/*.jsonl and prompts/gsm8k_fewshot_draws.json below the folder, plain or as .gz.
// Items come from the official files below `data` (a folder per dataset), then DIRECTORY/data,
// DIRECTORY/../data and DIRECTORY/longbench_zh; those of ARC and PIQA, where their files are not
// there, from the texts and choices that lm-eval's record of the same item holds. `examples`: folder
// of the written examples. No prompts/: no files.
golden_results replay_prompts(const std::filesystem::path& directory,
                              std::vector<std::filesystem::path> data,
                              const std::filesystem::path& examples);

}  // namespace unmask
