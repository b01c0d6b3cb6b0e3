// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings vanilla(
    {.method = "vanilla",
     .refused = {sdar, qwen3},
     .settings = {
         {"llada_schedule", llada, {{"block_length", 8}}},
         {"llada_threshold", llada, {{"block_length", 8}, {"threshold", 0.4}}},
         {"llada_factor", llada, {{"block_length", 8}, {"factor", 1.0}}},
         {"llada_gumbel", llada, {{"block_length", 8}, {"temperature", 0.7}}},
         {"llada_random", llada, {{"block_length", 8}, {"remasking", "random"}}},
         {"llada_early_stop", llada, {{"block_length", 8}, {"early_stop", true}}},
         {"dream_entropy", dream, {}},
         {"dream_origin", dream, {{"alg", "origin"}}},
         {"dream_sampled", dream, {{"temperature", 0.6}, {"top_p", 0.9}, {"alg_temp", 0.4}}},
         {"dream_confidence_threshold",
          dream,
          {{"alg", "confidence_threshold"}, {"threshold", 0.4}}}}});

}  // namespace
}  // namespace unmask
