// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings focus_dllm({.method = "focus_dllm",
                                    .refused = {},
                                    .settings = {{"focus_dllm",
                                                  model_family::llada,
                                                  {{"block_length", eight},
                                                   {"dense_layers", std::int64_t{1}},
                                                   {"prompt_block_size", std::int64_t{4}},
                                                   {"window", std::int64_t{3}},
                                                   {"rho", 2.0}},
                                                  "",
                                                  layer_recording::never},
                                                 {"focus_dllm_dream",
                                                  model_family::dream,
                                                  {{"block_length", eight},
                                                   {"dense_layers", std::int64_t{1}},
                                                   {"dense_tail_layers", std::int64_t{1}},
                                                   {"prompt_block_size", std::int64_t{4}}},
                                                  "",
                                                  layer_recording::never}}});

}  // namespace
}  // namespace unmask
