// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings wino(
    {.method = "wino",
     .refused = {dream, sdar, qwen3},
     .settings = {
         {"wino_official",
          llada,
          {{"block_length", 8}, {"threshold", 0.2}, {"threshold_back", 0.4}}},
         {"wino_wide",
          llada,
          {{"block_length", 8}, {"threshold", 0.05}, {"threshold_back", 0.9}, {"max_cap", 8}}},
         {"wino_port",
          llada,
          {{"block_length", 8},
           {"threshold", 0.15},
           {"threshold_back", 0.6},
           {"variant", std::string("port")}}},
         {"wino_port_two",
          llada,
          {{"block_length", 8},
           {"threshold", 0.2},
           {"threshold_back", 0.5},
           {"variant", std::string("port")},
           {"num_to_transfer", 2}}}}});

}  // namespace
}  // namespace unmask
