// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings dkv_cache(
    {.method = "dkv_cache",
     .refused = {},
     .settings = {{"dkv_decode",
                   model_family::llada,
                   {{"block_length", eight}, {"refresh_interval", std::int64_t{3}}}},
                  {"dkv_greedy",
                   model_family::llada,
                   {{"block_length", eight}, {"variant", std::string("greedy")}}},
                  {"dkv_dream", model_family::dream, {}},
                  {"dkv_dream_pd", model_family::dream, {{"variant", std::string("pd")}}}}});

}  // namespace
}  // namespace unmask
