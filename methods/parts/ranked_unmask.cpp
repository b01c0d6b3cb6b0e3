// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/ranked_unmask.h"

#include <algorithm>
#include <limits>

#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/parts/kernels/acceptance.h"
#include "methods/parts/kernels/entropy_bound.h"
#include "methods/parts/schedules.h"

namespace unmask {

void ranked_unmask::judge(const batch& b, const step_choice&, const tensor_view& head_input,
                          const packed_matrix& head, candidate_lists& c) {
  const backend& backend = b.backend();
  const noise_source noise{b.seeds(), b.steps()};
  confidence_out out = c.judged();
  if (settings_.score == "topk_margin") out.margin = c.margin.as<float>();
  if (settings_.score == "entropy" || settings_.gamma > 0)
    out.negative_entropy = c.negative_entropy.as<float>();
  if (settings_.rank_in_double) out.residual = c.score.as<float>();
  // Dream's loops leave out tokens before they rank, whether they draw or not.
  const bool leaves_out = settings_.top_p < 1 || settings_.top_k > 0;
  if (settings_.temperature > 0 || (leaves_out && !settings_.original_confidence)) {
    grow(backend, c.count, b.model().vocabulary);
    const tensor_view rows = logits_.view().first(c.count);
    backend.run(op::logits{head_input, head, c.row.as<std::int32_t>(), rows});
    backend.run(op::sample{c.set(b.capacity()),
                           rows,
                           {settings_.temperature, settings_.top_p, settings_.top_k, noise,
                            settings_.original_confidence},
                           out});
  } else {
    confidence_params params;
    params.gumbel_temperature = settings_.gumbel_temperature;
    params.noise = noise;
    params.accumulate_double = true;
    backend.run(op::confidence{head_input, head, c.set(b.capacity()), params, out});
    if (settings_.rank_in_double) {
      backend.run(op::combine_scores{c.count, c.score.as<float>(), -1.0F, nullptr, 0.0F,
                                     c.score.as<float>()});
    }
  }
  if (settings_.score == "random")
    backend.run(op::uniform_scores{c.set(b.capacity()), noise, score(c)});
  if (settings_.alg_temp > 0) {
    backend.run(op::gumbel_scores{c.set(b.capacity()), noise, settings_.alg_temp, score(c)});
  }
}

void ranked_unmask::decide(const batch& b, const step_choice& plan, candidate_lists& c) {
  const backend& backend = b.backend();
  const candidate_set set = c.set(b.capacity());
  std::uint8_t* accept = c.accept.as<std::uint8_t>();
  if (settings_.or_quota) {
    decide_or_quota(b, plan, c);
  } else if (settings_.gamma > 0) {
    const float* entropy = c.negative_entropy.as<float>();
    backend.run(op::accept_entropy_bound{set, entropy, entropy, settings_.gamma, true, 1, accept});
  } else if (settings_.factor > 0) {
    const std::int32_t* behind = settings_.factor_of_canvas ? count_behind(b, plan, c) : nullptr;
    backend.run(op::accept_factor{set, score(c), settings_.factor, accept, behind});
  } else if (settings_.threshold > 0) {
    backend.run(op::accept_threshold{set, score(c), settings_.threshold, false, true, accept});
    if (settings_.limit_to_quota) {
      if (also_.view().rows() < c.accept.view().rows()) {
        also_ = backend.allocate(dtype::u8, {c.accept.view().rows()});
      }
      backend.run(op::accept_top{set, score(c), plan.arrays.quota, also_.as<std::uint8_t>()});
      backend.run(op::merge_accept{c.count, also_.as<std::uint8_t>(), true, accept});
    }
  } else {
    backend.run(op::accept_top{set, score(c), plan.arrays.quota, accept});
  }
}

void ranked_unmask::decide_or_quota(const batch& b, const step_choice& plan, candidate_lists& c) {
  const backend& backend = b.backend();
  const candidate_set set = c.set(b.capacity());
  std::uint8_t* accept = c.accept.as<std::uint8_t>();
  const float limit =
      settings_.threshold > 0 ? settings_.threshold : std::numeric_limits<float>::infinity();
  backend.run(op::accept_threshold{set, score(c), limit, true, false, accept});
  backend.synchronize();  // the host counts what passed
  quota_.assign(static_cast<std::size_t>(b.capacity()), 0);
  const std::int32_t* begin = c.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    const std::int32_t first = begin[s], last = begin[s + 1];
    if (first == last) continue;
    const bool passed = std::any_of(accept + first, accept + last, [](auto a) { return a != 0; });
    const std::int32_t steps =
        settings_.transfer_steps > 0 ? settings_.transfer_steps : b.at(s).request.gen_length;
    const bool ends = step.step + 1 >= steps;
    if (passed && !ends) continue;
    if (settings_.leftmost && !(ends && settings_.threshold > 0)) {
      accept[first] = decision_take;  // candidates come by position
    } else {
      quota_[static_cast<std::size_t>(s)] = step.quota;
    }
  }
  if (also_.view().rows() < c.accept.view().rows()) {
    also_ = backend.allocate(dtype::u8, {c.accept.view().rows()});
  }
  backend.run(op::accept_top{set, score(c), quota_.data(), also_.as<std::uint8_t>()});
  backend.run(op::merge_accept{c.count, also_.as<std::uint8_t>(), false, accept});
}

// Masks from the first candidate's range to the canvas' end that are none.
const std::int32_t* ranked_unmask::count_behind(const batch& b, const step_choice& plan,
                                                candidate_lists& c) {
  behind_.assign(static_cast<std::size_t>(b.capacity()), 0);
  const std::int32_t* begin = c.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    const std::int32_t masks =
        b.count(s, plan.arrays.candidate_first[s], b.at(s).length, state_masked);
    behind_[static_cast<std::size_t>(s)] = masks - (begin[s + 1] - begin[s]);
  }
  return behind_.data();
}

float* ranked_unmask::score(candidate_lists& c) const {
  if (settings_.score == "random" || settings_.rank_in_double) return c.score.as<float>();
  if (settings_.score == "topk_margin") return c.margin.as<float>();
  if (settings_.score == "entropy") return c.negative_entropy.as<float>();
  return c.probability.as<float>();
}

// Sampling needs whole rows of logits; grown outside steady state only.
void ranked_unmask::grow(const backend& backend, std::int64_t rows, std::int64_t vocabulary) {
  if (logits_ && logits_.view().rows() >= rows) return;
  logits_ = backend.allocate(dtype::f32, {rows, vocabulary});
}

void random_transfer::judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
                            const packed_matrix& head, candidate_lists& c) {
  judge_.judge(b, plan, head_input, head, c);
  b.backend().run(
      op::uniform_scores{c.set(b.capacity()), {b.seeds(), b.steps()}, c.score.as<float>()});
}

void random_transfer::decide(const batch& b, const step_choice& plan, candidate_lists& c) {
  // One threshold per sequence: sequences at different steps are judged one after the other.
  const candidate_set all = c.set(b.capacity());
  one_begin_.resize(static_cast<std::size_t>(b.capacity()) * 2);
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active || all.begin[s] == all.begin[s + 1]) continue;
    const sequence& q = b.at(s);
    const std::int32_t steps =
        settings_.transfer_steps > 0 ? settings_.transfer_steps : q.request.gen_length;
    const float keep = q.step + 1 < steps ? 1.0F - time_schedule::transfer_fraction(
                                                       steps, settings_.transfer_eps, q.step)
                                          : 0.0F;
    candidate_set one = all;
    std::int32_t* begin = one_begin_.data() + std::int64_t{s} * 2;
    begin[0] = 0;
    begin[1] = all.begin[s + 1] - all.begin[s];
    one.sequences = 1;
    one.count = begin[1];
    one.begin = begin;
    one.position += all.begin[s];
    one.row += all.begin[s];
    b.backend().run(op::accept_threshold{one, c.score.as<float>() + all.begin[s], keep, false,
                                         false, c.accept.as<std::uint8_t>() + all.begin[s]});
  }
}

}  // namespace unmask
