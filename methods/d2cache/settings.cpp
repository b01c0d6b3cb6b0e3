// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

// The rows follow from the layers' attention.
setting rolled_out(const std::string& label, model_family family, const parameter_map& given) {
  return {label, family, given, "", layer_recording::never};
}

const register_settings d2cache(
    {.method = "d2cache",
     .refused = {sdar, qwen3},
     .settings = {
         rolled_out("d2_prior", llada, {{"current_k", 5}, {"cp_sigma", 4.0}}),
         rolled_out("d2_blocks", llada,
                    {{"block_length", 8}, {"cp_sigma", 0.0}, {"current_k", 6}, {"inflate_w", 3}}),
         rolled_out("d2_blind", llada,
                    {{"block_length", 8},
                     {"cp_sigma", 0.0},
                     {"current_k", 2},
                     {"num_transfer_tokens", 3}}),
         rolled_out("d2_threshold", llada,
                    {{"block_length", 8}, {"cp_sigma", 0.0}, {"threshold", 0.3}, {"sigma", 3.0}}),
         rolled_out("d2_dream", dream, {{"current_k", 5}, {"rollout_p", 0.2}}),
         rolled_out("d2_dream_blocks", dream,
                    {{"block_length", 8},
                     {"cp_sigma", 0.0},
                     {"current_k", 4},
                     {"inflate_w", 4},
                     {"threshold", 0.3}})}});

}  // namespace
}  // namespace unmask
