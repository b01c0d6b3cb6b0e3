// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings block_diffusion(
    {.method = "block_diffusion",
     .refused = {model_family::llada},
     .settings = {
         {"block_dynamic", model_family::sdar, {{"threshold", 0.5}}},
         {"block_static",
          model_family::sdar,
          {{"remasking", std::string("low_confidence_static")}, {"steps", std::int64_t{4}}}},
         {"block_sequential",
          model_family::sdar,
          {{"remasking", std::string("sequential")}, {"steps", std::int64_t{4}}}},
         {"block_hf", model_family::sdar, {{"loop", std::string("hf")}, {"threshold", 0.5}}},
         {"block_moe", model_family::llada2_moe, {{"threshold", 0.5}}},
         {"block_shifted", model_family::llama, {{"threshold", 0.5}}},
         {"block_shifted_hf",
          model_family::llama,
          {{"loop", std::string("hf")}, {"threshold", 0.5}}}}});

}  // namespace
}  // namespace unmask
