// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Replay of recorded likelihoods: the masks that the official code drew, its loss per round and its
// result.
#pragma once

#include <filesystem>
#include <vector>

#include "kernels/backend.h"
#include "tests/goldens/replay/result.h"

namespace unmask {

// Replays likelihood/{llada,dream,dream_encode_pair}.json below the folder, plain or as .gz. Models lie
// in models/NAME, Dream's tokenizer in tokenizers/dream, of `data`, then of DIRECTORY/data,
// DIRECTORY/../data, DIRECTORY/.. and DIRECTORY/../goldens. Losses and results agree within 1e-5
// relative (fp32 arithmetic in another order of summation), token ids exactly. No likelihood/: no
// files.
golden_results replay_likelihood(const std::filesystem::path& directory,
                                 std::vector<std::filesystem::path> data, const backend& backend);

}  // namespace unmask
