// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings ada_dlm(
    {.method = "ada_dlm",
     .refused = {model_family::sdar, model_family::qwen3},
     .settings = {{"ada_sequence", model_family::llada, {{"k", 0.3}}},
                  {"ada_dream", model_family::dream, {{"k", 0.3}}},
                  {"ada_block",
                   model_family::llada,
                   {{"scope", std::string("block")}, {"block_length", eight}, {"k", 0.4}}},
                  {"ada_dream_block_refresh",
                   model_family::dream,
                   {{"scope", std::string("block")},
                    {"block_length", eight},
                    {"block_history", std::string("running")},
                    {"cache_steps", std::int64_t{3}},
                    {"refresh_prompt", true}}},
                  {"ada_ffn_only",
                   model_family::dream,
                   {{"execution", std::string("ffn_only")}, {"k", 0.3}},
                   "",
                   layer_recording::never},
                  {"ada_manhattan_tiers",
                   model_family::llada,
                   {{"metric", std::string("manhattan")},
                    {"centroid", std::string("tier_mean")},
                    {"k_basis", std::string("active")},
                    {"first_history", std::string("replicate")},
                    {"history", std::int64_t{5}}}},
                  {"ada_mask_input",
                   model_family::llada,
                   {{"frozen_input", std::string("mask")}, {"temperature", 0.5}}},
                  {"ada_quota_capped",
                   model_family::llada,
                   {{"limit_to_quota", true}, {"steps", eight}, {"ranked", std::string("region")}}},
                  {"ada_threshold",
                   model_family::llada,
                   {{"rule", std::string("threshold")}, {"threshold", 0.4}},
                   "",
                   layer_recording::seldom}}});

}  // namespace
}  // namespace unmask
