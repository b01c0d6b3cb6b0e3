// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How long a run should take on a GPU that is not here, for plans: a roofline over the products,
// attention and streams of a forward. It is a prediction for bfloat16 weights, keys and values.
//
// Three things say how long a forward takes, each for a question of its own:
//   expected_seconds  how many hours a plan needs, from the sizes of the model and the method alone
//   tests/cost_model  what holds a step of the CUDA backend back, kernel by kernel, for who writes one
//   table_cost        (engine/clock.h) how far a virtual clock moves: times measured or stated; a clock
//                     of a GPU's name moves as far as the roofline says (cost_of_card)
// The first two share the ceilings of a GPU (devices/ceilings.h). cost_model_test holds them together on
// every card that has some: the first may say 0.6 to 1.1 of the second's seconds.
#pragma once

#include <memory>
#include <string>

#include "harness/base/run_keys.h"
#include "harness/decode/registry.h"
#include "harness/devices/ceilings.h"
#include "harness/engine/clock.h"

namespace unmask {

// Returns the parameter that says this (parameter_spec::fact) if it is a whole number above 0, else
// `fallback`. `given`: resolved parameters of the method.
double fact_or(const method_info& method, const parameter_map& given, pace_fact fact,
               double fallback);

// `answers` answers, `batch` at a time, each with a prompt of `prompt` tokens, a canvas of `generated`
// and `forwards` decode forwards of `rows` rows a sequence.
struct run_work {
  double answers = 1, batch = 1, prompt = 0, generated = 0;
  double forwards = 0;   // 0: one per generated token, the most there can be
  double rows = 32;      // of a sequence in a decode forward
  double late_rows = 0;  // of these, rows left behind layer narrows_at; 0: all
  std::int32_t narrows_at = 0;
  double candidates = 0;     // rows whose logits are looked at; 0: half of the rows
  double full_forwards = 0;  // of the forwards, those of the whole prompt and canvas
  bool prefills = true;      // the prompt is computed once, before
  std::int32_t ranks = 1;
  double sum_element = 4;  // bytes of an element that goes from rank to rank
};

// Of what a rank sends of a candidate: its largest logits and their sum (kernels/cuda/head_kernels.h).
inline constexpr double head_state_bytes = 40;

// Bytes of an element that the sums of a run send (`sums`).
double sum_element_of(const run_keys& run);

// Fills in the rows that the method declares (method_info::shape) and those that its recipe drops inside
// a forward (`rows`); answers, batch, prompt, generated and forwards are given. `given`: resolved
// parameters.
run_work work_of(const model_config& model, const method_info& method, const parameters& given,
                 run_work run, const row_traits& rows = {});

// Sizes of the largest share that one of `ranks` holds: heads, KV heads, and widths of feed-forwards and
// experts, and the vocabulary of the head (model/share.h); the embedding is whole on every rank. Whole experts
// in place of parts of all come to the same sizes where ranks have as many, and rows choose evenly.
model_config largest_share(const model_config& model, std::int32_t ranks);

// Seconds of one GPU for `run`, or of the rank with the largest share. Each kernel of a forward takes max(FLOP / products, bytes / copy,
// shortest) + gap, and each forward 12 more small kernels and two waits of the host.
// Of several ranks each layer adds two sums of its rows, by the links of the device, and the head sends what
// each found of its tokens.
double expected_seconds(const model_config& model, const run_work& run,
                        const device_ceilings& device);

// The cost of a forward by the same roofline, for a virtual clock: half of the rows are candidates.
// Ranks and sums are those of the run.
std::shared_ptr<const cost_model> cost_of_card(const model_config& model, const run_keys& run,
                                               const device_ceilings& device);

}  // namespace unmask
