// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings sparse_blocks(
    {.method = "sparse_blocks",
     .refused = {model_family::llada},
     .settings = {
         {"sparse_blocks", model_family::sdar, {{"threshold", 0.5}}, "", layer_recording::never},
         {"sparse_blocks_shifted",
          model_family::llama,
          {{"threshold", 0.5}},
          "",
          layer_recording::never},
         {"sparse_blocks_sequential",
          model_family::sdar,
          {{"remasking", std::string("sequential")}, {"retention_ratio", 0.3}},
          "",
          layer_recording::never},
         {"sparse_blocks_moe",
          model_family::llada2_moe,
          {{"retention_ratio", 0.2}, {"delay", std::int64_t{0}}, {"pooling", std::string("avg")}},
          "",
          layer_recording::never},
         {"sparse_blocks_history",
          model_family::sdar,
          {{"candidates", std::string("history")},
           {"commit_keys", std::string("kept")},
           {"loop", std::string("hf")},
           {"pooling", std::string("none")}},
          "",
          layer_recording::never}}});

}  // namespace
}  // namespace unmask
