// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

parameter_map near(const parameter_map& more) {
  parameter_map m = {
      {"block_length", 8}, {"window", 12}, {"sigma", 3.0}, {"early_termination", false}};
  m.insert(more.begin(), more.end());
  return m;
}

const register_settings dpad(
    {.method = "dpad",
     .refused = {sdar, qwen3},
     .settings = {{"dpad_none", llada, near({})},
                  {"dpad_prefix", llada, near({{"cache", "prefix"}, {"threshold", 0.4}})},
                  {"dpad_dual", llada, near({{"cache", "dual"}, {"tokens_per_step", 2}})},
                  {"dpad_uniform", llada,
                   near({{"dropout", "uniform"}, {"preserved_tokens", 5}, {"threshold", 0.4}})},
                  {"dpad_dream", dream, near({})},
                  {"dpad_dream_dual", dream, near({{"cache", "dual"}, {"threshold", 0.4}})}}});

}  // namespace
}  // namespace unmask
