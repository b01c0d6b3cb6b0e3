// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The two published schedules of whole-canvas decoding.
#pragma once

#include <string>

#include "harness/decode/registry.h"
#include "methods/baselines/common.h"

namespace unmask {

// LLaDA (generate.py): the canvas falls into blocks decoded left to right; block b has S = steps /
// blocks steps; with m masks at its entry, each step decides m / S tokens and the first m % S steps
// one more. Every forward computes prompt and whole canvas.
class block_schedule final : public pace_policy {
 public:
  struct settings {
    std::string method = "vanilla";    // names the usage errors
    std::int32_t steps = 0;            // 0: gen_length / tokens_per_step
    std::int32_t tokens_per_step = 1;  // used when steps is 0
    std::int32_t block_length = 32;    // 0: one block
    bool until_clean = false;          // a block ends when it has no mask left, not after S steps
  };
  explicit block_schedule(const settings& s) : settings_(s) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               std::int32_t committed) override;

  // Tokens to decide in step i of a block entered with m masks and S steps.
  static std::int32_t quota(std::int32_t masks, std::int32_t steps, std::int32_t i);

 private:
  struct progress {
    std::int32_t block = 0, blocks = 0, block_length = 0, steps_per_block = 0;
    std::int32_t step = 0;        // inside the block
    std::int32_t masks = 0;       // at block entry
    std::int32_t idle_steps = 0;  // consecutive steps of this block that decided nothing
  };
  void enter_block(const batch& b, std::int32_t s);
  settings settings_;
  per_sequence<progress> progress_;
};

// Dream (generation_utils.py): no blocks; t_i = linspace(1, eps, T + 1); of m masks, step i decides
// int(m (1 - t_{i+1} / t_i)) in float32, the last step all. `confidence_threshold` (Fast-dLLM's
// Dream loop) plans m / T per step, carries what was refused over and adds steps at the end.
class time_schedule final : public pace_policy {
 public:
  struct settings {
    std::string method = "vanilla";  // names the usage errors
    std::int32_t steps = 0;
    std::int32_t tokens_per_step = 1;
    float eps = 1e-3F;
    bool confidence_threshold = false;
  };
  explicit time_schedule(const settings& s) : settings_(s) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               std::int32_t committed) override;

  // Fraction 1 - t_{i+1} / t_i of step i of `steps`, float32 as in the official loop.
  static float transfer_fraction(std::int32_t steps, float eps, std::int32_t i);

 private:
  struct progress {
    std::int32_t steps = 0, step = 0;
    std::int32_t per_step = 0, carried = 0;  // confidence_threshold only
  };
  settings settings_;
  per_sequence<progress> progress_;
};

}  // namespace unmask
