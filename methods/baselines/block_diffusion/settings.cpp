// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings block_diffusion(
    {.method = "block_diffusion",
     .refused = {llada},
     .settings = {{"block_dynamic", sdar, {{"threshold", 0.5}}},
                  {"block_static", sdar, {{"remasking", "low_confidence_static"}, {"steps", 4}}},
                  {"block_sequential", sdar, {{"remasking", "sequential"}, {"steps", 4}}},
                  {"block_hf", sdar, {{"loop", "hf"}, {"threshold", 0.5}}},
                  {"block_moe", llada2_moe, {{"threshold", 0.5}}},
                  {"block_shifted", llama, {{"threshold", 0.5}}},
                  {"block_shifted_hf", llama, {{"loop", "hf"}, {"threshold", 0.5}}}}});

}  // namespace
}  // namespace unmask
