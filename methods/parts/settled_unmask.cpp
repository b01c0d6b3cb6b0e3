// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/settled_unmask.h"

#include "kernels/head.h"

namespace unmask {

void settled_unmask::judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
                           const packed_matrix& head, candidate_lists& c) {
  const backend& backend = b.backend();
  grow(b, c);
  note_steps(b, plan);
  const tensor_view logits = logits_.view().first(c.count);
  backend.run(op::logits{head_input, head, c.row.as<std::int32_t>(), logits});
  backend.run(op::compare_distributions{
      .candidates = c.set(b.capacity()),
      .logits = logits,
      .origin = origin_.data(),
      .fresh = fresh_.data(),
      .epsilon = 1e-12,
      .limit = settings_.limit,
      .history = settings_.history,
      // The official history begins with zeros, which are below any limit but 0.
      .still_before = settings_.limit > 0 ? settings_.history - 1 : 0,
      .owner = owner_,
      .still = still_,
      .kept = kept_,
      .scale = scale_,
      .token = c.token.as<std::int32_t>(),
      .probability = c.probability.as<float>(),
      .doubt = c.score.as<float>(),
      .moved = c.margin.as<float>(),
      .settled = settled_.as<std::uint8_t>()});
}

void settled_unmask::decide(const batch& b, const step_choice& plan, candidate_lists& c) {
  b.backend().run(
      op::accept_settled{.candidates = c.set(b.capacity()),
                         .last = last_.data(),
                         .allowed = allowed_.data(),
                         .probability = c.probability.as<float>(),
                         .doubt = c.score.as<float>(),
                         .moved = c.margin.as<float>(),
                         .settled = settled_.as<std::uint8_t>(),
                         .threshold = settings_.threshold,
                         .strict = settings_.strict,
                         .choice = settings_.choice,
                         .quota = plan.arrays.quota,
                         .at_most = settings_.at_most > 0 ? settings_.at_most : b.max_length(),
                         .accept = c.accept.as<std::uint8_t>()});
}

// What the step is to each sequence. LLaDA's loop does not use the rule in the first history - 1
// forwards of a block.
void settled_unmask::note_steps(const batch& b, const step_choice& plan) {
  for (std::size_t s = 0; s < plan.of.size(); ++s) {
    const sequence_step& step = plan.of[s];
    if (!step.active) continue;
    const sequence& q = b.at(static_cast<std::int32_t>(s));
    origin_[s] = q.prompt_length;
    fresh_[s] = (settings_.ahead ? q.step : step.step) == 0 ? 1 : 0;
    last_[s] = step.block_last;
    allowed_[s] = !settings_.in_block || step.step >= settings_.history - 1 ? 1 : 0;
  }
}

void settled_unmask::grow(const batch& b, const candidate_lists& c) {
  const backend& backend = b.backend();
  const std::int64_t vocabulary = b.model().vocabulary;
  if (!owner_) {
    const std::int64_t sequences = b.capacity();
    const std::int64_t places = settings_.places > 0 ? settings_.places : b.max_length();
    for (shared_vector<std::int32_t>* v : {&origin_, &fresh_, &last_, &allowed_}) {
      v->resize(static_cast<std::size_t>(sequences));
    }
    owner_ = backend.allocate(dtype::i32, {sequences, places});
    still_ = backend.allocate(dtype::i32, {sequences, places});
    kept_ = backend.allocate(dtype::f32, {sequences, places, vocabulary});
    scale_ = backend.allocate(dtype::f32, {sequences, places, 2});
    settled_ = backend.allocate(dtype::u8, {c.accept.view().rows()});
    bytes_ = static_cast<std::size_t>(sequences * places * (vocabulary + 4)) * sizeof(float);
  }
  if (logits_ && logits_.view().rows() >= c.count) return;
  logits_ = backend.allocate(dtype::f32, {c.count, vocabulary});
}

}  // namespace unmask
