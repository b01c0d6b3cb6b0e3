// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings fast_dllm(
    {.method = "fast_dllm",
     .refused = {},
     .settings = {
         {"fast_dual_threshold",
          model_family::llada,
          {{"block_length", eight}, {"threshold", 0.4}}},
         {"fast_prefix_schedule",
          model_family::llada,
          {{"block_length", eight}, {"cache", std::string("prefix")}}},
         {"fast_factor", model_family::llada, {{"block_length", eight}, {"factor", 1.0}}},
         {"fast_dream_dual", model_family::dream, {{"block_length", eight}}},
         {"fast_dream_prefix",
          model_family::dream,
          {{"block_length", eight}, {"cache", std::string("prefix")}, {"threshold", 0.4}}}}});

}  // namespace
}  // namespace unmask
