// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/wino/kernels/revoke.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/backend.h"

namespace unmask::reference {
namespace {

// Of candidate c of sequence s.
void look_at_present(const op::confidence_of_present& args, std::int32_t s, std::int32_t c) {
  const std::int64_t vocabulary = args.logits.columns();
  const std::int32_t position = args.candidates.position[c];
  const float* logit = args.logits.row<float>(c);
  const float* best = std::max_element(logit, logit + vocabulary);
  double sum = 0;
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    sum += std::exp(double{logit[v]} - double{*best});
  }
  const bool masked = args.state.row<std::uint8_t>(s)[position] == state_masked;
  args.token[c] =
      masked ? static_cast<std::int32_t>(best - logit) : args.canvas.row<std::int32_t>(s)[position];
  args.probability[c] =
      static_cast<float>(std::exp(double{logit[args.token[c]]} - double{*best}) / sum);
}

void confidence_of_present(const op::confidence_of_present& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      look_at_present(args, s, c);
    }
  }
}

// The `count` first of `list` by score, best first; ties to the lowest.
template <class F>
void decide_first(std::vector<std::int32_t> list, std::int32_t count, const F& score,
                  std::uint8_t what, std::uint8_t* accept) {
  std::stable_sort(list.begin(), list.end(),
                   [&](std::int32_t a, std::int32_t b) { return score(a) > score(b); });
  for (std::int32_t i = 0; i < count; ++i) accept[list[static_cast<std::size_t>(i)]] = what;
}

void accept_and_reopen(const op::accept_and_reopen& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    std::vector<std::int32_t> masks, decided;
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const std::int32_t position = args.candidates.position[c];
      const bool masked = args.state.row<std::uint8_t>(s)[position] == state_masked;
      (masked ? masks : decided).push_back(c);
      args.accept[c] = decision_keep;
    }
    if (masks.empty() && decided.empty()) continue;
    const auto n = static_cast<std::int32_t>(masks.size());
    const float* p = args.probability;
    const auto passing = static_cast<std::int32_t>(std::ranges::count_if(masks, [&](auto c) {
      return args.strict ? p[c] > args.threshold : p[c] >= args.threshold;
    }));
    const std::int32_t cap = std::min(
        std::max(static_cast<std::int32_t>(args.share * n), args.least_cap), args.most_cap);
    const std::int32_t take = std::max(std::min(passing, cap), std::min(args.least, n));
    decide_first(
        masks, take, [&](auto c) { return p[c]; }, decision_take, args.accept);
    const auto doubtful = static_cast<std::int32_t>(
        std::ranges::count_if(decided, [&](auto c) { return p[c] < args.threshold_back; }));
    const std::int32_t earlier = args.restart[s] != 0 ? args.first_allowance : args.taken[s];
    const std::int32_t allowed = args.by_earlier ? (take > 1 ? earlier - 1 : 0) : take - args.least;
    decide_first(
        decided, std::clamp(doubtful, 0, std::max(allowed, 0)), [&](auto c) { return -p[c]; },
        decision_reopen, args.accept);
    args.taken[s] = take;
  }
}

const register_operations<confidence_of_present, accept_and_reopen> registered(target::reference);

}  // namespace
}  // namespace unmask::reference

namespace unmask::cpu {
namespace {

void confidence_of_present(const op::confidence_of_present& args) {
  each_candidate(args.candidates, args.logits.columns(),
                 [&](std::int32_t s, std::int32_t c) { reference::look_at_present(args, s, c); });
}

const register_operations<confidence_of_present> registered(target::cpu);

}  // namespace
}  // namespace unmask::cpu
