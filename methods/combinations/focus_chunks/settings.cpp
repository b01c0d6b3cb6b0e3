// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings focus_chunks(
    {.method = "focus_chunks",
     .refused = {llada},
     .settings = {{"focus_chunks_chunk8",
                   sdar,
                   {{"threshold", 0.4}, {"alpha", 1.0}, {"score", "layer1"}},
                   "chunk8"},
                  {"focus_chunks_shifted", llama, {{"threshold", 0.4}}, "chunk8"},
                  {"focus_chunks", sdar, {{"threshold", 0.5}, {"alpha", 1.0}, {"chunk", 8}}},
                  {"focus_chunks_moe",
                   llada2_moe,
                   {{"threshold", 0.3}, {"alpha", 1.0}, {"cache_rule", "right_neighbour"}},
                   "bd32"},
                  {"focus_chunks_random",
                   sdar,
                   {{"selection", "random"}, {"k", 2}, {"policy", "naive"}, {"chunk", 4}}},
                  {"focus_chunks_obs",
                   sdar,
                   {{"threshold", 0.4}, {"alpha", 1.0}, {"out_block", true}},
                   "bd32"},
                  {"focus_chunks_fusion",
                   sdar,
                   {{"threshold", 0.4},
                    {"chunk", 6},
                    {"importance_set", "block"},
                    {"boundary_fusion", "fill"}}}}});

}  // namespace
}  // namespace unmask
