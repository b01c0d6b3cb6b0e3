// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings fast_dllm(
    {.method = "fast_dllm",
     .refused = {},
     .settings = {{"fast_dual_threshold", llada, {{"block_length", 8}, {"threshold", 0.4}}},
                  {"fast_prefix_schedule", llada, {{"block_length", 8}, {"cache", "prefix"}}},
                  {"fast_factor", llada, {{"block_length", 8}, {"factor", 1.0}}},
                  {"fast_dream_dual", dream, {{"block_length", 8}}},
                  {"fast_dream_prefix",
                   dream,
                   {{"block_length", 8}, {"cache", "prefix"}, {"threshold", 0.4}}}}});

}  // namespace
}  // namespace unmask
