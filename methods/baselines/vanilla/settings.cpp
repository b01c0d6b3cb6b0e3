// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings vanilla(
    {.method = "vanilla",
     .refused = {model_family::sdar, model_family::qwen3},
     .settings = {
         {"llada_schedule", model_family::llada, {{"block_length", eight}}},
         {"llada_threshold", model_family::llada, {{"block_length", eight}, {"threshold", 0.4}}},
         {"llada_factor", model_family::llada, {{"block_length", eight}, {"factor", 1.0}}},
         {"llada_gumbel", model_family::llada, {{"block_length", eight}, {"temperature", 0.7}}},
         {"llada_random",
          model_family::llada,
          {{"block_length", eight}, {"remasking", std::string("random")}}},
         {"dream_entropy", model_family::dream, {}},
         {"dream_origin", model_family::dream, {{"alg", std::string("origin")}}},
         {"dream_sampled",
          model_family::dream,
          {{"temperature", 0.6}, {"top_p", 0.9}, {"alg_temp", 0.4}}},
         {"dream_confidence_threshold",
          model_family::dream,
          {{"alg", std::string("confidence_threshold")}, {"threshold", 0.4}}}}});

}  // namespace
}  // namespace unmask
