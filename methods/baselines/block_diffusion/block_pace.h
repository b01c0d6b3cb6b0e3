// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Blocks left to right over a growing history, in the two published forms.
//   engine (LMDeploy): the prompt is padded with masks to whole blocks and enters in one forward
//     whose last block is already the first denoising step of a partial block; a finished block
//     takes one commit forward, the last block of a request none; stop rules are checked when a
//     block is complete.
//   hf (SDAR generate.py): only whole prompt blocks are prefilled; every block, the last included,
//     ends with a commit forward; stop ids are looked for after each commit.
#pragma once

#include <vector>

#include "harness/decode/registry.h"
#include "methods/baselines/common.h"

namespace unmask {

struct block_settings {
  bool engine = true;
  std::int32_t block_length = 32;
  std::int32_t steps = 0;  // denoising steps per block; 0: block_length
  bool use_stop_ids = true;
  std::vector<std::int32_t> stop_ids;
  // LMDeploy compares stop words from the padded prompt length on, so one inside a first block
  // shared with the prompt is overlooked; false reproduces that.
  bool stop_in_prompt_block = true;
};

class block_pace final : public pace_policy {
 public:
  explicit block_pace(block_settings settings) : settings_(std::move(settings)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  pace_shape shape(const model_config& model) const override;
  bool prefilling(const batch& b, std::int32_t s) const override;
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override;
  bool limit_prefill(std::int32_t rows) override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               std::int32_t committed) override;

 private:
  struct progress {
    std::int32_t history = 0;  // tokens before the current block, a multiple of block_length
    std::int32_t step = 0;     // denoising steps made in the current block
    bool prefilled = false;
    std::int32_t entered = 0;  // prompt positions already in the cache while prefilling
  };
  std::int32_t prefill_end(const batch& b, std::int32_t s) const;
  void block_done(batch& b, std::int32_t s);  // engine's stop rules on a fully decided block
  void next_block(batch& b, std::int32_t s);
  block_settings settings_;
  std::int32_t prefill_limit_ = 0;  // rows of one prefill forward, whole blocks; 0: the prompt
  per_sequence<progress> progress_;
};

}  // namespace unmask
