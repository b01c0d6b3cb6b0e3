// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings ada_dlm(
    {.method = "ada_dlm",
     .refused = {sdar, qwen3},
     .settings = {{"ada_sequence", llada, {{"k", 0.3}}},
                  {"ada_dream", dream, {{"k", 0.3}}},
                  {"ada_block", llada, {{"scope", "block"}, {"block_length", 8}, {"k", 0.4}}},
                  {"ada_dream_block_refresh",
                   dream,
                   {{"scope", "block"},
                    {"block_length", 8},
                    {"block_history", "running"},
                    {"cache_steps", 3},
                    {"refresh_prompt", true}}},
                  {"ada_ffn_only",
                   dream,
                   {{"execution", "ffn_only"}, {"k", 0.3}},
                   "",
                   layer_recording::never},
                  {"ada_manhattan_tiers",
                   llada,
                   {{"metric", "manhattan"},
                    {"centroid", "tier_mean"},
                    {"k_basis", "active"},
                    {"first_history", "replicate"},
                    {"history", 5}}},
                  {"ada_traces",
                   dream,
                   {{"centroid", "trace"}, {"scope", "block"}, {"block_length", 8}, {"k", 0.3}}},
                  {"ada_mask_input", llada, {{"frozen_input", "mask"}, {"temperature", 0.5}}},
                  {"ada_quota_capped",
                   llada,
                   {{"limit_to_quota", true}, {"steps", 8}, {"ranked", "region"}}},
                  {"ada_threshold",
                   llada,
                   {{"rule", "threshold"}, {"threshold", 0.4}},
                   "",
                   layer_recording::seldom}}});

}  // namespace
}  // namespace unmask
