// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings sparse_dllm(
    {.method = "sparse_dllm",
     .refused = {model_family::sdar},
     .settings = {{"sparse", model_family::llada, {{"block_length", eight}}},
                  {"sparse_prefix_avg",
                   model_family::llada,
                   {{"block_length", eight},
                    {"eviction", std::string("prefix")},
                    {"pooling", std::string("avg")},
                    {"delay", std::int64_t{2}}}},
                  {"sparse_dream", model_family::dream, {{"block_length", eight}}}}});

}  // namespace
}  // namespace unmask
