// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings delayed_cache(
    {.method = "delayed_cache",
     .refused = {model_family::dream},
     .settings = {{"dc", model_family::sdar, {{"threshold", 0.5}}},
                  {"dc_moe", model_family::llada2_moe, {{"threshold", 0.5}}},
                  {"dc_shifted", model_family::llama, {{"threshold", 0.5}}},
                  {"dc_hf", model_family::sdar, {{"threshold", 0.3}}, "hf"}}});

const register_settings delayed_cache_plus(
    {.method = "delayed_cache_plus",
     .refused = {model_family::qwen3},
     .settings = {{"dcp", model_family::sdar, {{"threshold", 0.5}}},
                  {"dcp_moe", model_family::llada2_moe, {{"threshold", 0.5}}},
                  {"dcp_shifted", model_family::llama, {{"threshold", 0.5}}},
                  {"dcp_hf", model_family::sdar, {{"threshold", 0.3}}, "hf"},
                  {"dcp_bf16",
                   model_family::sdar,
                   {{"threshold", 0.5}, {"confidence_dtype", std::string("bfloat16")}}}}});

const register_settings focus(
    {.method = "focus",
     .refused = {model_family::llada},
     .settings = {
         {"focus", model_family::sdar, {{"threshold", 0.5}}},
         {"focus_shifted", model_family::llama, {{"threshold", 0.5}}},
         {"focus_moe", model_family::llada2_moe, {{"threshold", 0.5}}},
         {"focus_block16",
          model_family::sdar,
          {{"threshold", 0.5}, {"block_length", std::int64_t{16}}}},
         {"focus_block4",
          model_family::sdar,
          {{"threshold", 0.5}, {"block_length", std::int64_t{4}}}},
         {"focus_hf", model_family::sdar, {{"threshold", 0.3}}, "hf"},
         {"focus_sgl", model_family::sdar, {{"threshold", 0.5}}, "sgl"},
         {"focus_paper", model_family::llada2_moe, {{"threshold", 0.5}}, "paper"},
         {"focus_top",
          model_family::sdar,
          {{"selection", std::string("top")}, {"k", std::int64_t{2}}}},
         {"focus_bottom",
          model_family::sdar,
          {{"selection", std::string("bottom")}, {"k", std::int64_t{2}}}},
         {"focus_random",
          model_family::sdar,
          {{"selection", std::string("random")}, {"k", std::int64_t{3}}}},
         {"focus_layer1", model_family::sdar, {{"score", std::string("layer1")}}},
         {"focus_no_context", model_family::sdar, {{"ar_context", false}}},
         {"focus_holes", model_family::sdar, {{"placeholder_integrity", false}}},
         {"focus_plain_dc",
          model_family::sdar,
          {{"freeze_rule", std::string("decided")}, {"average_scope", std::string("request")}}}}});

}  // namespace
}  // namespace unmask
