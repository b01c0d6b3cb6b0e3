// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Block after block: a forward that predicts, then forwards that verify drafts until the block is
// complete, then, under a block-causal mask, one that commits it.
#pragma once

#include "methods/freedave/branches.h"

namespace unmask::freedave {

class draft_pace final : public pace_policy {
 public:
  explicit draft_pace(shared_branches shared)
      : pace_policy({.block = shared->set.causal ? shared->set.block_length : 0,
                     .commits = shared->set.causal,
                     .row_copies = shared->set.prefix ? shared->set.draft_steps : 1,
                     .more_rows = shared->set.prefix
                                      ? 0
                                      : (shared->set.draft_steps - 1) * shared->set.widest(0)}),
        shared_(std::move(shared)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;

 private:
  struct progress {
    std::int32_t first = 0;  // of the block in work
    std::int32_t branches =
        0;                  // of the next forward; 0: the one that predicts from the canvas alone
    std::int32_t step = 0;  // forwards that the block has had
    bool entered = false;   // the prompt's whole blocks are in the cache
    bool commits = false;   // the next forward commits the block
    bool verifies_only = false;  // the forward in flight has no mask
  };
  std::int32_t block_end(const progress& p) const { return p.first + shared_->set.block_length; }
  std::int32_t window_end(const batch& b, std::int32_t s) const;
  void open_block(batch& b, std::int32_t s, std::int32_t first);
  void leave_block(batch& b, std::int32_t s);

  shared_branches shared_;
  per_sequence<progress> progress_;
};

}  // namespace unmask::freedave
