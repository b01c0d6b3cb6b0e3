// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/rows.h"
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/ada_dlm/policies.h"

namespace unmask::ada_dlm {

void rows::select(const batch& b, const step_plan& plan, row_lists& list) {
  const ops& backend = b.backend();
  first_.clear();
  last_.clear();
  for (const sequence_step& step : plan.of) {
    first_.push_back(step.active ? step.first : 0);
    last_.push_back(step.active ? step.last : 0);
  }
  delayed_cache_params settle;
  settle.masked = state_masked;
  settle.decoded = state_decoded;
  settle.cached = state_cached;
  settle.delay = settings_.delay && !settings_.keep_mask_input;
  settle.shifted = b.model().shifted_logits;
  backend.run(op::advance_delayed_cache{b.state(), settle, first_.data(), last_.data(),
                                        shared_->whole.data(), shared_->flags});
  // ffn_only: every row of the canvas attends.
  const tensor_view flags = settings_.ffn_only ? tensor_view{} : shared_->flags.view();
  list.rows = backend.run(op::compact{
      b.capacity(), flags, 1, first_.data(), last_.data(), list.begin.as<std::int32_t>(),
      list.position.as<std::int32_t>(), list.sequence.as<std::int32_t>()});
}

void rows::feed_forward_rows(const batch& b, const step_plan&, const row_lists& list,
                             row_lists& updated, tensor& index) {
  const ops& backend = b.backend();
  updated.rows =
      backend.run(op::compact{b.capacity(), shared_->flags, 1, first_.data(), last_.data(),
                              updated.begin.as<std::int32_t>(), updated.position.as<std::int32_t>(),
                              updated.sequence.as<std::int32_t>()});
  backend.run(op::find_candidates{list.set(b.capacity()), shared_->flags, 1, first_.data(),
                                  last_.data(), 0, updated.begin.as<std::int32_t>(),
                                  updated.position.as<std::int32_t>(), index.as<std::int32_t>()});
}

}  // namespace unmask::ada_dlm
