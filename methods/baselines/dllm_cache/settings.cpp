// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings dllm_cache(
    {.method = "dllm_cache",
     .refused = {qwen3},
     .partial_layers = true,
     .settings = {
         {"dllm_cache_llada",
          llada,
          {{"block_length", 8}, {"prompt_interval_kp", 7}, {"response_interval_kr", 3}},
          "",
          layer_recording::never},
         {"dllm_cache_dream",
          dream,
          {{"prompt_interval_kp", 4}, {"response_interval_kr", 8}, {"transfer_ratio", 0.4}},
          "",
          layer_recording::never},
         {"dllm_cache_no_transfer",
          llada,
          {{"block_length", 8},
           {"prompt_interval_kp", 6},
           {"response_interval_kr", 4},
           {"transfer_ratio", 0.0}},
          "",
          layer_recording::never}}});

}  // namespace
}  // namespace unmask
