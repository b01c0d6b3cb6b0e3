// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

parameter_map nested(const parameter_map& more) {
  parameter_map m = {{"sub_block_length", 4}, {"threshold", 0.3}};
  m.insert(more.begin(), more.end());
  return m;
}

const register_settings fast_dllm_v2(
    {.method = "fast_dllm_v2",
     .refused = {model_family::llada, dream, sdar, qwen3},
     .settings = {{"v2_blocks", qwen2, nested({})},
                  {"v2_cached", qwen2, nested({{"sub_block_cache", true}})},
                  {"v2_whole", llama, nested({{"sub_block_length", 0}, {"sub_block_cache", true}})},
                  {"v2_eval", qwen2, nested({{"loop", "eval"}, {"sub_block_cache", true}})}}});

}  // namespace
}  // namespace unmask
