// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr auto moe = model_family::llada2_moe;

const register_settings llada2(
    {.method = "llada2",
     .refused = {model_family::llada, model_family::dream},
     .settings = {
         {"llada2_blocks", moe, {{"threshold", 0.3}, {"block_length", 8}}},
         {"llada2_steps", moe, {{"threshold", 0.5}, {"block_length", 8}, {"steps", 3}}},
         {"llada2_window", moe, {{"threshold", 0.3}, {"cache", "none"}, {"block_length", 8}}},
         {"llada2_early", model_family::sdar, {{"threshold", 0.3}, {"eos_early_stop", true}}}}});

}  // namespace
}  // namespace unmask
