// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

parameter_map rule(double confidence, double kl, const parameter_map& more) {
  parameter_map m = {{"confidence_threshold", confidence}, {"kl_threshold", kl}};
  m.insert(more.begin(), more.end());
  return m;
}

const register_settings klass(
    {.method = "klass",
     .refused = {sdar, qwen3},
     .settings = {
         {"klass_blocks", llada, rule(0.15, 0.3, {{"block_length", 8}})},
         {"klass_one", llada, rule(0.15, 0.4, {{"block_length", 8}, {"kl_history", 1}})},
         {"klass_steps", llada,
          rule(0.2, 0.3, {{"block_length", 8}, {"steps", 12}, {"strategy", "min_kl"}})},
         {"klass_surest", llada, rule(0.1, 0.5, {{"block_length", 0}, {"strategy", "max_conf"}})},
         {"klass_dream", dream, rule(0.2, 0.2, {{"kl_history", 1}})}}});

}  // namespace
}  // namespace unmask
