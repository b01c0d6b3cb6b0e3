// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings dllm_cache({.method = "dllm_cache",
                                    .refused = {model_family::qwen3},
                                    .partial_layers = true,
                                    .settings = {{"dllm_cache_llada",
                                                  model_family::llada,
                                                  {{"block_length", eight},
                                                   {"prompt_interval_kp", std::int64_t{7}},
                                                   {"response_interval_kr", std::int64_t{3}}},
                                                  "",
                                                  layer_recording::never},
                                                 {"dllm_cache_dream",
                                                  model_family::dream,
                                                  {{"prompt_interval_kp", std::int64_t{4}},
                                                   {"response_interval_kr", eight},
                                                   {"transfer_ratio", 0.4}},
                                                  "",
                                                  layer_recording::never},
                                                 {"dllm_cache_no_transfer",
                                                  model_family::llada,
                                                  {{"block_length", eight},
                                                   {"prompt_interval_kp", std::int64_t{6}},
                                                   {"response_interval_kr", std::int64_t{4}},
                                                   {"transfer_ratio", 0.0}},
                                                  "",
                                                  layer_recording::never}}});

}  // namespace
}  // namespace unmask
