// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/ada_dlm/policies.h"

namespace unmask::ada_dlm {

void unmask::judge(const batch& b, const step_plan&, const tensor_view& head_input,
                   const packed_matrix& head, candidate_lists& c) {
  confidence_params params;
  params.gumbel_temperature = settings_.temperature;
  params.noise = {b.seeds(), b.steps()};
  params.accumulate_double = settings_.double_confidence;
  b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, c.judged()});
}

void unmask::decide(const batch& b, const step_plan& plan, candidate_lists& c) {
  const ops& backend = b.backend();
  const candidate_set set = c.set(b.capacity());
  std::uint8_t* accept = c.accept.as<std::uint8_t>();
  backend.run(op::push_history{set, c.probability.as<float>(), settings_.replicate_first,
                               shared_->history});
  freeze_params params = settings_.decision;
  params.first = shared_->scope_first.data();
  params.last = shared_->scope_last.data();
  if (settings_.limit_to_quota) params.limit = plan.arrays.quota;
  backend.run(
      op::accept_two_centroids{set, shared_->history, shared_->rank.data(), params, accept});
  if (settings_.keep_mask_input) {
    // The token waits beside the canvas; what the loop writes is the mask id once more.
    backend.run(op::commit{set, c.token.as<std::int32_t>(), accept, state_decoded, -1,
                           shared_->answer, shared_->answer_state,
                           shared_->answer_count.as<std::int32_t>()});
    backend.synchronize();
    std::fill_n(c.token.as<std::int32_t>(), c.count, b.model().mask_id);
  }
}

}  // namespace unmask::ada_dlm
