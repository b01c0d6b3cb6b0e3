// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings ada_blocks(
    {.method = "ada_blocks",
     .refused = {model_family::dream},
     .settings = {{"ada_blocks", model_family::sdar, {}},
                  {"ada_blocks_shifted", model_family::llama, {}},
                  {"ada_blocks_moe", model_family::llada2_moe, {{"k", 0.3}}},
                  {"ada_blocks_tiers",
                   model_family::sdar,
                   {{"centroid", std::string("tier_mean")},
                    {"ranked", std::string("region")},
                    {"temperature", 0.5},
                    {"history", std::int64_t{5}}}},
                  {"ada_blocks_quota",
                   model_family::sdar,
                   {{"limit_to_quota", true},
                    {"steps", std::int64_t{4}},
                    {"k_basis", std::string("active")}}},
                  {"ada_blocks_average", model_family::sdar, {}, "moving-average-control"},
                  {"ada_blocks_threshold",
                   model_family::sdar,
                   {{"threshold", 0.4}, {"first_history", std::string("replicate")}},
                   "threshold-control"}}});

}  // namespace
}  // namespace unmask
