// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings dsb(
    {.method = "dsb",
     .refused = {sdar, qwen3},
     .settings = {
         {"dsb_cache", llada, {{"block_length", 8}, {"threshold", 0.4}, {"prefix_window", 4}}},
         {"dsb_suffix",
          llada,
          {{"block_length", 8},
           {"factor", 1.0},
           {"threshold", 0.0},
           {"suffix_window", 5},
           {"prefix_window", 3}}},
         {"dsb_const",
          llada,
          {{"block_length", 8},
           {"threshold", 0.0},
           {"steps", 12},
           {"max_block_length", 10},
           {"cache", "none"}}},
         {"dsb_dream_cache",
          dream,
          {{"block_length", 8}, {"threshold", 0.4}, {"prefix_window", 4}}},
         {"dsb_dream_none", dream, {{"block_length", 8}, {"threshold", 0.4}, {"cache", "none"}}}}});

}  // namespace
}  // namespace unmask
