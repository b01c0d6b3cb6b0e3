// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

// Counts of the 61 tokens of the tests' models, some of them unseen.
std::string counts() {
  std::string all;
  for (int v = 0; v < 61; ++v) all += (v == 0 ? "" : ",") + std::to_string(v * 37 % 11 * v);
  return all;
}

const register_settings pc_sampler({.method = "pc_sampler",
                                    .refused = {dream, sdar, qwen3},
                                    .settings = {{"pc_flat", llada, {}},
                                                 {"pc_canvas", llada, {{"frequencies", counts()}}},
                                                 {"pc_blocks",
                                                  llada,
                                                  {{"frequencies", counts()},
                                                   {"block_length", 8},
                                                   {"lambda", 0.5},
                                                   {"alpha", 1.5},
                                                   {"tokens_per_step", 2}}}}});

}  // namespace
}  // namespace unmask
