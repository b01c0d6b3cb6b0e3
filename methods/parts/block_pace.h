// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Blocks left to right over a growing history, in the two published forms.
//   engine (LMDeploy): the prompt is padded with masks to whole blocks and enters in one forward
//     whose last block is already the first denoising step of a partial block. A finished block
//     takes one KV write pass, except the last block of a request. Stop rules are checked when a
//     block is complete.
//   hf (SDAR generate.py): only whole prompt blocks are prefilled. Every block, also the last one,
//     ends with a KV write pass, after which stop ids are looked for.
// What differs between them can also be chosen one by one.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "methods/parts/common.h"

namespace unmask {

struct block_settings {
  std::string method = "block_diffusion";  // for messages
  bool engine = true;                      // stop rules and quota: LMDeploy's; false: SDAR's
  bool partial_prefill = true;  // the prefill is the first denoising step of a partial block
  bool commit_last = false;     // the last block of a request gets a KV write pass, too
  std::int32_t commit_forwards = 1;
  std::int32_t block_length = 32;
  std::int32_t steps = 0;  // denoising steps per block; 0: block_length
  bool use_stop_ids = true;
  std::vector<std::int32_t> stop_ids;
  // LMDeploy compares stop words from the padded prompt length on, so one inside a first block
  // shared with the prompt is overlooked; false reproduces that.
  bool stop_in_prompt_block = true;
};

class block_pace : public pace_policy {
 public:
  // turn: pace_shape::turn.
  explicit block_pace(block_settings settings, std::int32_t turn = 0)
      : pace_policy({settings.block_length, settings.block_length, true, turn,
                     settings.block_length}),  // rows see their block: pieces end where blocks end
        settings_(std::move(settings)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  // Throws when a block makes no progress for block_length steps: a model that keeps predicting
  // the mask token under a rule that recognises masks by their id.
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;

 private:
  // How far a sequence is.
  struct progress {
    std::int32_t history = 0;     // tokens before the current block, a multiple of block_length
    std::int32_t step = 0;        // denoising steps made in the current block
    std::int32_t idle = 0;        // steps in a row, up to now, that unmasked nothing
    std::int32_t commits = 0;     // KV write passes of the current block
    std::int32_t answer_end = 0;  // > 0: the answer ends here, once its last block has its KV
    std::int32_t entered = 0;     // prompt positions in the cache
    bool prefilled = false;
  };
  std::int32_t prefill_end(const batch& b, std::int32_t s) const;
  std::int32_t quota_of(const progress& p) const;
  void observe_prefill(batch& b, std::int32_t s, const sequence_step& step);
  void open_next_block(batch& b, std::int32_t s);
  void refuse_stuck(const progress& p) const;
  block_settings settings_;
  per_sequence<progress> progress_;
};

// Returns the smallest multiple of block that is at least n.
inline std::int32_t round_up(std::int32_t n, std::int32_t block) {
  return (n + block - 1) / block * block;
}

// Applies LMDeploy's stop rules to the complete block [first, first + block_length). Returns the
// end of the answer, or 0 if the request goes on.
std::int32_t engine_answer_end(const batch& b, std::int32_t s, std::int32_t first,
                               const block_settings& settings);

}  // namespace unmask
