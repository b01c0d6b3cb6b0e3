// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings delayed_cache({.method = "delayed_cache",
                                       .refused = {dream},
                                       .settings = {{"dc", sdar, {{"threshold", 0.5}}},
                                                    {"dc_moe", llada2_moe, {{"threshold", 0.5}}},
                                                    {"dc_shifted", llama, {{"threshold", 0.5}}},
                                                    {"dc_hf", sdar, {{"threshold", 0.3}}, "hf"},
                                                    {"dc_klass",
                                                     sdar,
                                                     {{"remasking", "klass"},
                                                      {"threshold", 0.15},
                                                      {"kl_threshold", 0.3},
                                                      {"block_length", 8}}}}});

const register_settings delayed_cache_plus(
    {.method = "delayed_cache_plus",
     .refused = {qwen3},
     .settings = {{"dcp", sdar, {{"threshold", 0.5}}},
                  {"dcp_stored", sdar, {{"threshold", 0.5}}, "paper"},
                  {"dcp_moe", llada2_moe, {{"threshold", 0.5}}},
                  {"dcp_shifted", llama, {{"threshold", 0.5}}},
                  {"dcp_hf", sdar, {{"threshold", 0.3}}, "hf"},
                  {"dcp_bf16", sdar, {{"threshold", 0.5}, {"confidence_dtype", "bfloat16"}}}}});

const register_settings focus(
    {.method = "focus",
     .refused = {llada},
     .settings = {
         {"focus", sdar, {{"threshold", 0.5}}},
         {"focus_shifted", llama, {{"threshold", 0.5}}},
         {"focus_moe", llada2_moe, {{"threshold", 0.5}}},
         {"focus_block16", sdar, {{"threshold", 0.5}, {"block_length", 16}}},
         {"focus_block4", sdar, {{"threshold", 0.5}, {"block_length", 4}}},
         {"focus_hf", sdar, {{"threshold", 0.3}}, "hf"},
         {"focus_sgl", sdar, {{"threshold", 0.5}}, "sgl"},
         {"focus_paper", llada2_moe, {{"threshold", 0.5}}, "paper"},
         {"focus_top", sdar, {{"selection", "top"}, {"k", 2}}},
         {"focus_bottom", sdar, {{"selection", "bottom"}, {"k", 2}}},
         {"focus_random", sdar, {{"selection", "random"}, {"k", 3}}},
         {"focus_layer1", sdar, {{"score", "layer1"}}},
         {"focus_no_context", sdar, {{"ar_context", false}}},
         {"focus_holes", sdar, {{"placeholder_integrity", false}}},
         {"focus_plain_dc", sdar, {{"freeze_rule", "decided"}, {"average_scope", "request"}}}}});

}  // namespace
}  // namespace unmask
