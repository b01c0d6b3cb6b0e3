// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings dkv_cache(
    {.method = "dkv_cache",
     .refused = {},
     .settings = {{"dkv_decode", llada, {{"block_length", 8}, {"refresh_interval", 3}}},
                  {"dkv_greedy", llada, {{"block_length", 8}, {"variant", "greedy"}}},
                  {"dkv_dream", dream, {}},
                  {"dkv_dream_pd", dream, {{"variant", "pd"}}}}});

}  // namespace
}  // namespace unmask
