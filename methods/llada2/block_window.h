// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The block loop of the published LLaDA2.x code: blocks aligned to position 0, one after the other,
// each until its rule lets go of it. LLaDA2.0 and LLaDA2.1 differ in when that is.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "methods/parts/common.h"

namespace unmask::llada2 {

struct settings {
  std::string method;  // for messages
  std::int32_t block_length = 32;
  // Every forward computes the window [0, end of block), as the published code does; false: finished
  // blocks are cached, which is exact because the mask is block-causal.
  bool whole_window = false;
  std::vector<std::int32_t> stop_ids;
  bool stop_at_once = false;  // `eos_early_stop`
  bool stop_after_block = true;
  // LLaDA2.0: quotas of a block are spread over S = min(steps, gen_length / minimal_topk) steps.
  std::int32_t steps = 32, minimal_topk = 1;
  // LLaDA2.1: a clean block gets up to so many forwards more, until one changes nothing; -1: none,
  // and the schedule is LLaDA2.0's.
  std::int32_t max_post_steps = -1;
  std::int32_t num_to_transfer = 1;
  bool edits() const { return max_post_steps >= 0; }
};

// block_length, threshold, cache, stop, eos_early_stop: what both declare.
std::vector<parameter_spec> shared_parameters();
settings settings_of(const std::string& method, const model_config& model, const parameters& p);
// Usage errors for models that are not block-causal, and for stop ids that cannot be read.
void check(const std::string& method, const model_config& model, const parameters& p);
// What both read alike of recorded parameters of the official loops.
parameter_map recorded_settings(const parameter_map& recorded);

class block_window : public pace_policy {
 public:
  explicit block_window(settings s)
      : pace_policy({s.block_length, s.block_length, !s.whole_window, 0, s.block_length}),
        settings_(std::move(s)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;
  bool closed(const batch& b, std::int32_t s, std::int32_t first, std::int32_t last) const override;

 private:
  // Where a sequence stands.
  struct progress {
    std::int32_t first = 0;    // of the block in work, a multiple of block_length
    std::int32_t step = 0;     // forwards that the block has had
    std::int32_t post = 0;     // of those, forwards without a mask at input
    std::int32_t entered = 0;  // prompt positions in the cache
    std::int32_t ends = 0;     // stop ids decided in the answer so far
    bool had_masks = false;    // at the input of the forward in flight
    bool commits = false;      // the block is done and takes one more forward
  };
  std::int32_t block_end(const progress& p) const { return p.first + settings_.block_length; }
  std::int32_t quota(const batch& b, std::int32_t s) const;
  bool is_done(const batch& b, std::int32_t s, const step_outcome& outcome) const;
  bool stops_at_once(batch& b, std::int32_t s);
  void leave_block(batch& b, std::int32_t s, bool exact);
  void open_next_block(batch& b, std::int32_t s);
  void finish(batch& b, std::int32_t s, std::int32_t last);

  settings settings_;
  per_sequence<progress> progress_;
};

// The recipe without its rule: this pace, its rows, keys and cache.
recipe make_loop(settings s);

}  // namespace unmask::llada2
