// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings optimus(
    {.method = "optimus",
     .refused = {dream},
     .settings = {
         {"optimus", sdar, {{"threshold", 0.5}, {"chunk", 4}}},
         {"optimus_moe", llada2_moe, {{"threshold", 0.5}, {"chunk", 3}}},
         {"optimus_shifted", llama, {{"threshold", 0.5}, {"chunk", 3}}},
         {"optimus_whole_block", sdar, {}, "prefix_caching"},
         {"optimus_bd32", sdar, {}, "bd32"},
         {"optimus_naive", sdar, {{"policy", "naive"}, {"chunk", 4}}},
         {"optimus_naive_prefix",
          sdar,
          {{"policy", "naive"}, {"chunk", 4}, {"cache_rule", "contiguous_prefix"}}},
         {"optimus_prefix", llada2_moe, {{"chunk", 4}, {"cache_rule", "contiguous_prefix"}}},
         {"optimus_neighbour", sdar, {{"chunk", 4}, {"cache_rule", "right_neighbour"}}},
         {"optimus_obs", sdar, {{"threshold", 0.5}}, "obs"},
         {"optimus_obs_full", sdar, {{"threshold", 0.5}, {"obs_mask", "full"}}, "obs"},
         {"optimus_obs_moe", llada2_moe, {{"threshold", 0.5}}, "obs"},
         {"optimus_stale", sdar, {{"chunk", 4}, {"suffix_visible", "stale"}}},
         {"optimus_refresh", sdar, {{"chunk", 4}, {"final_refresh", true}}},
         {"optimus_fill", sdar, {{"chunk", 5}, {"boundary_fusion", "fill"}}},
         {"optimus_fusion", llada2_moe, {{"chunk", 4}, {"boundary_fusion", "full"}}},
         {"optimus_block32", sdar, {{"chunk", 8}, {"block_length", 32}}},
         {"optimus_late_prompt",
          sdar,
          {{"chunk", 4}, {"prefill_emits", false}, {"prefill_apart", true}}},
         {"optimus_prefix_stop",
          sdar,
          {{"chunk", 4}, {"stop_check", "prefix"}, {"stop", "7,11,23,41"}}}}});

}  // namespace
}  // namespace unmask
