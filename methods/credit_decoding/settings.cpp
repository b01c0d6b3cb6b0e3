// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings credit_decoding(
    {.method = "credit_decoding",
     .refused = {dream, sdar, qwen3},
     .settings = {{"credit_default",
                   llada,
                   {{"block_length", 8}, {"threshold", 0.5}, {"stop", std::string("none")}}},
                  {"credit_much",
                   llada,
                   {{"block_length", 8},
                    {"threshold", 0.6},
                    {"credit_alpha", 2.0},
                    {"boost_gamma", 1.0},
                    {"decay_beta", 1.0}}},
                  {"credit_stops",
                   llada,
                   {{"block_length", 8},
                    {"threshold", 0.5},
                    {"stop", std::string("3,7,11,19,23")},
                    {"early_stop", false}}}}});

}  // namespace
}  // namespace unmask
