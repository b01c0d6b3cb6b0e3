// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings sparse_dllm(
    {.method = "sparse_dllm",
     .refused = {sdar},
     .settings = {
         {"sparse", llada, {{"block_length", 8}}},
         {"sparse_prefix_avg",
          llada,
          {{"block_length", 8}, {"eviction", "prefix"}, {"pooling", "avg"}, {"delay", 2}}},
         {"sparse_random", llada, {{"block_length", 8}, {"selection", "random"}}},
         {"sparse_dropout", llada, {{"block_length", 8}, {"dropout", "gaussian"}, {"window", 12}}},
         {"sparse_dream", dream, {{"block_length", 8}}}}});

}  // namespace
}  // namespace unmask
