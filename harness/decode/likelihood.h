// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Log likelihood of a continuation under a masked diffusion model, by Monte Carlo: mask part of the
// continuation, weigh the cross entropy of what was masked by one over the share masked, average.
//
//   llada  get_log_likelihood of ML-GSAI/LLaDA (and its lm-eval wrapper). A round draws k uniform in
//          1..L and masks x_i = 1 + (round(k + i L / B) - 1 mod L) positions in row i of B, so that the
//          counts spread evenly; loss = sum of CE / (x_i / L), over B. Guidance w: logits of a second
//          pass with the whole prompt masked, un + (w + 1) (cond - un).
//   dream  _eval_target_nll_mc of DreamLM/Dream. A round draws u and masks every position with
//          probability p_i = 0.999 ((u + i/B) mod 1) + 0.001; position 0 and the last one stay; a
//          row may have nothing masked; loss = sum of CE / p_i, over B. Logits are shifted by one.
//
// The random streams are our own: the estimate has a standard error, so it comes with the number of
// draws, the seed and its spread.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/model/transformer.h"

namespace unmask {

enum class likelihood_rule : std::uint8_t { llada, dream };

// One row of a round: positions of the continuation that are masked, and the share that weighs them.
struct masked_row {
  std::vector<std::int32_t> positions;
  double share = 1;
};
using likelihood_round = std::vector<masked_row>;

struct likelihood_settings {
  likelihood_rule rule = likelihood_rule::llada;
  std::int32_t mc_num = 128;    // masked rows in all
  std::int32_t batch_size = 8;  // of them in a round
  double guidance = 0;          // llada only
  std::uint64_t seed = 0;
};

struct likelihood_estimate {
  double log_likelihood = 0;  // minus the mean loss of the rounds, nats
  double standard_error = 0;  // of that mean; 0 with one round
  std::int32_t rounds = 0, forwards = 0;
};

// Row counts x_i of LLaDA's round for a draw k, in fp32 as there.
std::vector<std::int32_t> llada_counts(std::int32_t k, std::int32_t length, std::int32_t rows);

// Round number `round` of the stream of `key` for a continuation of `length` tokens (of Dream's: with
// the closing EOS, which is never masked).
likelihood_round draw_round(const likelihood_settings& settings, std::int32_t length,
                            std::uint64_t key, std::int32_t round);

// Loss of one round with these masks. Environment error when the model has no mask token; the model
// must have been made for batch x (context + continuation) rows. `forwards` counts what was run.
double round_loss(const transformer& model, const std::vector<std::int32_t>& context,
                  const std::vector<std::int32_t>& continuation, const likelihood_round& masks,
                  const likelihood_settings& settings, std::int32_t& forwards);

// The estimate over mc_num / batch_size rounds (LLaDA: usage error for a remainder, and one round
// suffices for one token; Dream: at least one). `key`: stream of this request, so that a result does
// not depend on what else is asked.
likelihood_estimate log_likelihood(const transformer& model,
                                   const std::vector<std::int32_t>& context,
                                   const std::vector<std::int32_t>& continuation,
                                   const likelihood_settings& settings, std::uint64_t key);

// Log likelihood of `continuation` behind `context` under a causal model, whose row p predicts token
// p + 1: the sum over its tokens, nats. Neither may be empty; the model must have been made for the
// tokens of both.
double causal_log_likelihood(const transformer& model, const std::vector<std::int32_t>& context,
                             const std::vector<std::int32_t>& continuation);

}  // namespace unmask
