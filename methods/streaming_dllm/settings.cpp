// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

parameter_map in_window(std::int64_t window, double alpha, bool exits) {
  return {{"block_length", 8},
          {"window_size", window},
          {"threshold", 0.4},
          {"confidence_alpha", alpha},
          {"early_exit", exits}};
}

const register_settings streaming_dllm(
    {.method = "streaming_dllm",
     .refused = {dream, sdar, qwen3},
     .settings = {
         {"streaming_window", llada, in_window(5, 0.4, false), "", layer_recording::seldom},
         {"streaming_last", llada, in_window(0, 0.8, false), "", layer_recording::seldom},
         {"streaming_exit", llada, in_window(9, 0.3, true)}}});

}  // namespace
}  // namespace unmask
