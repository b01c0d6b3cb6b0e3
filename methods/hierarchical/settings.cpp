// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings hierarchical(
    {.method = "hierarchical",
     .refused = {dream, sdar, qwen3},
     .settings = {{"hierarchical_runs",
                   llada,
                   {{"block_length", 8}, {"low_threshold", 0.2}, {"stop", std::string("none")}}},
                  {"hierarchical_both",
                   llada,
                   {{"block_length", 8}, {"low_threshold", 0.2}, {"threshold", 0.4}}},
                  {"hierarchical_stops",
                   llada,
                   {{"block_length", 8},
                    {"low_threshold", 0.1},
                    {"stop", std::string("3,7,11,19,23")},
                    {"early_stop", false}}}}});

}  // namespace
}  // namespace unmask
