// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings sparse_blocks(
    {.method = "sparse_blocks",
     .refused = {llada},
     .settings = {
         {"sparse_blocks", sdar, {{"threshold", 0.5}}, "", layer_recording::never},
         {"sparse_blocks_shifted", llama, {{"threshold", 0.5}}, "", layer_recording::never},
         {"sparse_blocks_sequential",
          sdar,
          {{"remasking", "sequential"}, {"retention_ratio", 0.3}},
          "",
          layer_recording::never},
         {"sparse_blocks_moe",
          llada2_moe,
          {{"retention_ratio", 0.2}, {"delay", 0}, {"pooling", "avg"}},
          "",
          layer_recording::never},
         {"sparse_blocks_history",
          sdar,
          {{"candidates", "history"}, {"commit_keys", "kept"}, {"loop", "hf"}, {"pooling", "none"}},
          "",
          layer_recording::never}}});

}  // namespace
}  // namespace unmask
