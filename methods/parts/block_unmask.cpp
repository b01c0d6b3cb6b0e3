// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/block_unmask.h"

#include "kernels/decisions.h"
#include "kernels/float16.h"
#include "kernels/head.h"
#include "methods/parts/kernels/block_acceptance.h"
#include "methods/parts/kernels/entropy_bound.h"

namespace unmask {

namespace {

unmask_traits with_masks_by_id(unmask_traits traits, bool masks_by_id) {
  traits.masks_by_id = masks_by_id;
  return traits;
}

}  // namespace

block_unmask::block_unmask(block_unmask_settings s, unmask_traits more)
    : unmask_policy(with_masks_by_id(more, s.masks_by_id)), settings_(std::move(s)) {
  if (settings_.bf16) settings_.threshold = from_bf16(to_bf16(settings_.threshold));
}

void block_unmask::judge(const batch& b, const step_choice&, const tensor_view& head_input,
                         const packed_matrix& head, candidate_lists& c) {
  const backend& backend = b.backend();
  confidence_out out = c.judged();
  if (by_entropy()) out.negative_entropy = c.negative_entropy.as<float>();
  if (settings_.sampled) {
    if (!logits_ || logits_.view().rows() < c.count) {  // grows only
      logits_ = backend.allocate(dtype::f32, {c.count + c.count / 2, b.model().vocabulary});
    }
    const tensor_view logits = logits_.view().first(c.count);
    backend.run(op::logits{head_input, head, c.row.as<std::int32_t>(), logits});
    sample_params params;
    params.temperature = settings_.temperature;
    params.noise = {b.seeds(), b.steps()};
    backend.run(op::sample{c.set(b.capacity()), logits, params, out});
  } else {
    confidence_params params;
    params.temperature = settings_.temperature;
    backend.run(op::confidence{head_input, head, c.set(b.capacity()), params, out});
  }
  if (settings_.bf16) backend.run(op::round_bf16{c.count, c.probability.as<float>()});
}

void block_unmask::decide(const batch& b, const step_choice& plan, candidate_lists& c) {
  decide_by(c.probability.as<float>(), b, plan, c);
}

void block_unmask::decide_by(const float* score, const batch& b, const step_choice& plan,
                             candidate_lists& c) {
  const backend& backend = b.backend();
  const candidate_set set = c.set(b.capacity());
  std::uint8_t* accept = c.accept.as<std::uint8_t>();
  const std::int32_t* quota = plan.arrays.quota;
  if (settings_.remasking == "low_confidence_static") {
    backend.run(op::accept_top{set, score, quota, accept});
  } else if (by_entropy()) {
    // The surest first and without the largest of them, as in the paper, whatever `score` is.
    const float* entropy = c.negative_entropy.as<float>();
    backend.run(op::accept_entropy_bound{set, entropy, entropy, settings_.gamma, true, 1, accept});
  } else if (settings_.remasking == "sequential") {
    backend.run(
        op::accept_sequential{set, plan.arrays.block_first, settings_.block, quota, accept});
  } else {
    backend.run(
        op::accept_threshold{set, score, settings_.threshold, settings_.strict, true, accept});
    if (settings_.at_least_quota) {
      if (!also_) also_ = backend.allocate(dtype::u8, {c.accept.view().rows()});
      backend.run(op::accept_top{set, score, quota, also_.as<std::uint8_t>()});
      backend.run(op::merge_accept{c.count, also_.as<std::uint8_t>(), false, accept});
    }
  }
}

}  // namespace unmask
