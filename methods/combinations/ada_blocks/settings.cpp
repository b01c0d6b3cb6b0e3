// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings ada_blocks(
    {.method = "ada_blocks",
     .refused = {dream},
     .settings = {
         {"ada_blocks", sdar, {}},
         {"ada_blocks_shifted", llama, {}},
         {"ada_blocks_moe", llada2_moe, {{"k", 0.3}}},
         {"ada_blocks_tiers",
          sdar,
          {{"centroid", "tier_mean"}, {"ranked", "region"}, {"temperature", 0.5}, {"history", 5}}},
         {"ada_blocks_quota",
          sdar,
          {{"limit_to_quota", true}, {"steps", 4}, {"k_basis", "active"}}},
         {"ada_blocks_average", sdar, {}, "moving-average-control"},
         {"ada_blocks_threshold",
          sdar,
          {{"threshold", 0.4}, {"first_history", "replicate"}},
          "threshold-control"}}});

}  // namespace
}  // namespace unmask
