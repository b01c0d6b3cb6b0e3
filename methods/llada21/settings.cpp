// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr auto moe = model_family::llada2_moe;
const parameter_map edits = {
    {"block_length", 8}, {"threshold", 0.3}, {"editing_threshold", 0.15}, {"max_post_steps", 3}};

parameter_map with(const char* name, parameter_value value) {
  parameter_map m = edits;
  m[name] = std::move(value);
  return m;
}

const register_settings llada21(
    {.method = "llada21",
     .refused = {model_family::llada, model_family::dream},
     .settings = {{"llada21_edits", moe, edits},
                  {"llada21_window", moe, with("cache", std::string("none"))},
                  {"llada21_two", moe, with("num_to_transfer", 2)},
                  {"llada21_sdar", model_family::sdar, with("eos_early_stop", true)}}});

}  // namespace
}  // namespace unmask
