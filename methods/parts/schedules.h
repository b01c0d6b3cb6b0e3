// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The two published schedules of whole-canvas decoding.
#pragma once

#include <string>

#include "harness/decode/registry.h"
#include "methods/parts/common.h"

namespace unmask {

// Where a sequence is on a canvas that is decoded block after block.
struct block_progress {
  std::int32_t block = 0, blocks = 0, block_length = 0, steps_per_block = 0;
  std::int32_t step = 0;        // inside the block
  std::int32_t masks = 0;       // at block entry
  std::int32_t idle_steps = 0;  // consecutive steps of this block that decided nothing
  std::int32_t stop_at = -1;    // where the first stop sequence begins; below 0: none was decided
};

// LLaDA (generate.py): the canvas falls into blocks decoded left to right; block b has S = steps /
// blocks steps; with m masks at its entry, each step decides m / S tokens and the first m % S steps
// one more. Every forward computes prompt and whole canvas, unless `partial` says that the steps of
// a block from `full_steps` on compute a part only (methods with a K/V cache).
class block_schedule final : public pace_policy {
 public:
  enum class window { canvas, suffix, block };  // all; block start to canvas end; the block
  struct settings {
    std::string method = "vanilla";     // named in errors
    std::int32_t steps = 0;             // 0: gen_length / tokens_per_step
    std::int32_t tokens_per_step = 1;   // used when steps is 0
    std::int32_t block_length = 32;     // 0: one block
    bool until_clean = false;           // a block ends when it has no mask left, not after S steps
    std::int32_t min_steps = 1;         // until_clean: never fewer steps per block
    window partial = window::canvas;    // what the later steps of a block compute
    std::int32_t full_steps = 1;        // steps of a block that compute everything
    std::int32_t refresh_interval = 0;  // and one of so many; 0: no later one
    bool leftovers = true;  // full steps: masks left in earlier blocks are candidates again
    // Rows that partial windows lie to the left of their candidates: 1 where position p is read from
    // row p - 1.
    std::int32_t window_shift = 0;
    // Stop ids that end the answer with the block that holds one; none: nothing does. On the canvas the
    // positions behind that block become the first of them (`fill_behind`), or stay masks.
    std::vector<std::int32_t> stop_ids;
    bool fill_behind = false;
    bool within_steps = false;  // until_clean: a block is left after its S steps even so
    // Masks of the next block are candidates too, for rules that look at them and leave them alone.
    bool judge_next_block = false;
    // LLaDA-V: where one of these begins on the canvas, wherever it is decided first, the answer ends;
    // nothing from there on is a candidate any more. Once one was found, an earlier place of the first
    // in the list alone is looked for, as its own loop does.
    std::vector<std::vector<std::int32_t>> stop_sequences;
    std::int32_t block_end_token =
        -1;  // MMaDA: a block that ends with it is the last one; -1: none
  };
  explicit block_schedule(const settings& s) : pace_policy({.steps = s.steps}), settings_(s) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;

  // Tokens to decide in step i of a block entered with m masks and S steps.
  static std::int32_t quota(std::int32_t masks, std::int32_t steps, std::int32_t i);

 private:
  void enter_block(const batch& b, std::int32_t s);
  void look_for_stop(const batch& b, std::int32_t s);
  settings settings_;
  per_sequence<block_progress> progress_;
};

// What is computed after the full forward under a K/V cache of this name: none (everything), prefix
// (block and suffix), dual (the block).
block_schedule::window window_of_cache(const std::string& cache);

// Dream decoded in blocks (Fast-dLLM's generation_utils_block.py, Sparse-dLLM): the first step of a
// block is a full forward that decides the block's first token only; step i >= 1 of S = steps /
// blocks decides int(m (1 - t_{i+1} / t_i)) of the block's m masks, the last step all of them.
class dream_block_schedule final : public pace_policy {
 public:
  struct settings {
    std::string method;
    std::int32_t steps = 0;
    std::int32_t tokens_per_step = 1;
    std::int32_t block_length = 32;
    float eps = 1e-3F;
    bool until_clean = false;  // leave a block as soon as it is clean
    bool endless = false;      // a confidence threshold decides: S does not end a block
    bool first_token = true;   // step 0 decides the first token only; false: the usual count
    block_schedule::window partial = block_schedule::window::block;
    std::int32_t full_steps = 1;
    std::int32_t first_step = 0;  // what a block counts its steps from
    // As block_schedule's.
    std::vector<std::int32_t> stop_ids;
    bool fill_behind = false;
  };
  explicit dream_block_schedule(const settings& s)
      : pace_policy({.steps = s.steps}), settings_(s) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;

 private:
  settings settings_;
  per_sequence<block_progress> progress_;
};

// Dream (generation_utils.py): no blocks; t_i = linspace(1, eps, T + 1); of m masks, step i decides
// int(m (1 - t_{i+1} / t_i)) in float32, the last step all. `confidence_threshold` (Fast-dLLM's
// Dream loop) plans m / T per step, carries what was refused over and adds steps at the end. Dimple's
// (`by_share`): of m masks of m_0 the share is r = m / m_0, and int(m (1 - t_j / r)) are decided for the
// first j > i with t_j < r where that is at least 1, all if j is T; it ends when no mask is left.
class time_schedule final : public pace_policy {
 public:
  struct settings {
    std::string method = "vanilla";
    std::int32_t steps = 0;
    std::int32_t tokens_per_step = 1;
    float eps = 1e-3F;
    bool confidence_threshold = false;
    bool by_share = false;
    // The first step computes everything, the later ones the canvas and the row before it (Dimple).
    bool keeps_prompt = false;
  };
  explicit time_schedule(const settings& s) : pace_policy({.steps = s.steps}), settings_(s) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;

  // Fraction 1 - t_{i+1} / t_i of step i of `steps`, float32 as in the official loop.
  static float transfer_fraction(std::int32_t steps, float eps, std::int32_t i);

 private:
  struct progress {
    std::int32_t steps = 0, step = 0;
    std::int32_t per_step = 0, carried = 0, idle_steps = 0;  // confidence_threshold only
    std::int32_t masks = 0;                                  // at the start
  };
  std::int32_t share_quota(const progress& p, std::int32_t masks) const;
  settings settings_;
  per_sequence<progress> progress_;
};

}  // namespace unmask
