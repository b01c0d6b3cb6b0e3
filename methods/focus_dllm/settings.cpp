// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings focus_dllm({.method = "focus_dllm",
                                    .refused = {},
                                    .settings = {{"focus_dllm",
                                                  llada,
                                                  {{"block_length", 8},
                                                   {"dense_layers", 1},
                                                   {"prompt_block_size", 4},
                                                   {"window", 3},
                                                   {"rho", 2.0}},
                                                  "",
                                                  layer_recording::never},
                                                 {"focus_dllm_random",
                                                  llada,
                                                  {{"block_length", 8},
                                                   {"dense_layers", 1},
                                                   {"prompt_block_size", 4},
                                                   {"selection", "random"}},
                                                  "",
                                                  layer_recording::never},
                                                 {"focus_dllm_dream",
                                                  dream,
                                                  {{"block_length", 8},
                                                   {"dense_layers", 1},
                                                   {"dense_tail_layers", 1},
                                                   {"prompt_block_size", 4}},
                                                  "",
                                                  layer_recording::never}}});

}  // namespace
}  // namespace unmask
