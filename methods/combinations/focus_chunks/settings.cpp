// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings focus_chunks(
    {.method = "focus_chunks",
     .refused = {model_family::llada},
     .settings = {
         {"focus_chunks_chunk8",
          model_family::sdar,
          {{"threshold", 0.4}, {"alpha", 1.0}, {"score", std::string("layer1")}},
          "chunk8"},
         {"focus_chunks_shifted", model_family::llama, {{"threshold", 0.4}}, "chunk8"},
         {"focus_chunks",
          model_family::sdar,
          {{"threshold", 0.5}, {"alpha", 1.0}, {"chunk", std::int64_t{8}}}},
         {"focus_chunks_moe",
          model_family::llada2_moe,
          {{"threshold", 0.3}, {"alpha", 1.0}, {"cache_rule", std::string("right_neighbour")}},
          "bd32"},
         {"focus_chunks_random",
          model_family::sdar,
          {{"selection", std::string("random")},
           {"k", std::int64_t{2}},
           {"policy", std::string("naive")},
           {"chunk", std::int64_t{4}}}},
         {"focus_chunks_obs",
          model_family::sdar,
          {{"threshold", 0.4}, {"alpha", 1.0}, {"out_block", true}},
          "bd32"},
         {"focus_chunks_fusion",
          model_family::sdar,
          {{"threshold", 0.4},
           {"chunk", std::int64_t{6}},
           {"importance_set", std::string("block")},
           {"boundary_fusion", std::string("fill")}}}}});

}  // namespace
}  // namespace unmask
