// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;
const std::string left_to_right = "left_to_right", prefix_cache = "prefix";

const register_settings freedave(
    {.method = "freedave",
     .refused = {qwen3},
     .settings = {
         {"freedave_blocks", sdar, {{"block_length", 8}}},
         {"freedave_eager", sdar, {{"block_length", 4}, {"draft_steps", 6}, {"eager", true}}},
         {"freedave_threshold", sdar, {{"block_length", 8}, {"threshold", 0.3}}},
         {"freedave_eager_threshold",
          sdar,
          {{"block_length", 8}, {"threshold", 0.3}, {"eager", true}}},
         {"freedave_order", sdar, {{"block_length", 8}, {"order", left_to_right}}},
         {"freedave_two", llada2_moe, {{"block_length", 8}, {"tokens_per_step", 2}}},
         {"freedave_dual", llada, {{"block_length", 8}}},
         {"freedave_prefix", llada, {{"block_length", 8}, {"cache", prefix_cache}}},
         {"freedave_dual_threshold", llada, {{"block_length", 4}, {"threshold", 0.3}}},
         {"freedave_dream", dream, {{"block_length", 8}}},
         {"freedave_dream_prefix", dream, {{"block_length", 4}, {"cache", prefix_cache}}}}});

}  // namespace
}  // namespace unmask
