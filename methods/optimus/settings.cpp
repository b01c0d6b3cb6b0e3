// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings optimus(
    {.method = "optimus",
     .refused = {model_family::dream},
     .settings = {
         {"optimus", model_family::sdar, {{"threshold", 0.5}, {"chunk", std::int64_t{4}}}},
         {"optimus_moe",
          model_family::llada2_moe,
          {{"threshold", 0.5}, {"chunk", std::int64_t{3}}}},
         {"optimus_shifted", model_family::llama, {{"threshold", 0.5}, {"chunk", std::int64_t{3}}}},
         {"optimus_whole_block", model_family::sdar, {}, "prefix_caching"},
         {"optimus_bd32", model_family::sdar, {}, "bd32"},
         {"optimus_naive",
          model_family::sdar,
          {{"policy", std::string("naive")}, {"chunk", std::int64_t{4}}}},
         {"optimus_naive_prefix",
          model_family::sdar,
          {{"policy", std::string("naive")},
           {"chunk", std::int64_t{4}},
           {"cache_rule", std::string("contiguous_prefix")}}},
         {"optimus_prefix",
          model_family::llada2_moe,
          {{"chunk", std::int64_t{4}}, {"cache_rule", std::string("contiguous_prefix")}}},
         {"optimus_neighbour",
          model_family::sdar,
          {{"chunk", std::int64_t{4}}, {"cache_rule", std::string("right_neighbour")}}},
         {"optimus_obs", model_family::sdar, {{"threshold", 0.5}}, "obs"},
         {"optimus_obs_full",
          model_family::sdar,
          {{"threshold", 0.5}, {"obs_mask", std::string("full")}},
          "obs"},
         {"optimus_obs_moe", model_family::llada2_moe, {{"threshold", 0.5}}, "obs"},
         {"optimus_stale",
          model_family::sdar,
          {{"chunk", std::int64_t{4}}, {"suffix_visible", std::string("stale")}}},
         {"optimus_refresh",
          model_family::sdar,
          {{"chunk", std::int64_t{4}}, {"final_refresh", true}}},
         {"optimus_fill",
          model_family::sdar,
          {{"chunk", std::int64_t{5}}, {"boundary_fusion", std::string("fill")}}},
         {"optimus_fusion",
          model_family::llada2_moe,
          {{"chunk", std::int64_t{4}}, {"boundary_fusion", std::string("full")}}},
         {"optimus_block32",
          model_family::sdar,
          {{"chunk", std::int64_t{8}}, {"block_length", std::int64_t{32}}}},
         {"optimus_late_prompt",
          model_family::sdar,
          {{"chunk", std::int64_t{4}}, {"prefill_emits", false}, {"prefill_apart", true}}},
         {"optimus_prefix_stop",
          model_family::sdar,
          {{"chunk", std::int64_t{4}},
           {"stop_check", std::string("prefix")},
           {"stop", std::string("7,11,23,41")}}}}});

}  // namespace
}  // namespace unmask
