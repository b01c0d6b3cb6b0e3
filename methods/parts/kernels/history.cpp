// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/kernels/history.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/reference/backend.h"

namespace unmask::reference {
namespace {

// sum_v p_v (ln(p_v + e) - ln(q_v + e)), p and q from logits and the logarithms of their sums.
double divergence(const float* logit, double scale, const float* kept, const float* kept_scale,
                  double epsilon, std::int64_t vocabulary) {
  double sum = 0;
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    const double p = std::exp(double{logit[v]} - scale);
    const double q =
        kept == nullptr
            ? 0.0
            : std::exp(double{kept[v]} - (double{kept_scale[0]} + double{kept_scale[1]}));
    sum += p * (std::log(p + epsilon) - std::log(q + epsilon));
  }
  return sum;
}

// Of candidate c of sequence s, whose place is its own.
void compare_with_kept(const op::compare_distributions& args, std::int32_t s, std::int32_t c) {
  const std::int64_t vocabulary = args.logits.columns(), places = args.owner.columns();
  const std::int32_t position = args.candidates.position[c];
  const std::int64_t place = (position - args.origin[s]) % places;
  std::int32_t& owner = args.owner.row<std::int32_t>(s)[place];
  std::int32_t& still = args.still.row<std::int32_t>(s)[place];
  float* kept = args.kept.row<float>(s) + place * vocabulary;
  float* kept_scale = args.scale.row<float>(s) + place * 2;
  const bool known = args.fresh[s] == 0 && owner == position;

  const float* logit = args.logits.row<float>(c);
  const float* best = std::max_element(logit, logit + vocabulary);
  double rest = 0;
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    if (logit + v != best) rest += std::exp(double{logit[v]} - double{*best});
  }
  const double scale = double{*best} + std::log(1 + rest);
  args.token[c] = static_cast<std::int32_t>(best - logit);
  args.probability[c] = static_cast<float>(1 / (1 + rest));
  args.doubt[c] = static_cast<float>(-rest / (1 + rest));
  args.moved[c] = static_cast<float>(
      divergence(logit, scale, known ? kept : nullptr, kept_scale, args.epsilon, vocabulary));
  still = args.moved[c] < args.limit ? (known ? still : args.still_before) + 1 : 0;
  args.settled[c] = still >= args.history;
  owner = position;
  std::copy_n(logit, vocabulary, kept);
  kept_scale[0] = static_cast<float>(scale);
  kept_scale[1] = static_cast<float>(scale - double{kept_scale[0]});
}

void compare_distributions(const op::compare_distributions& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      compare_with_kept(args, s, c);
    }
  }
}

void accept_settled(const op::accept_settled& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  const auto passes = [&](std::int32_t c) {
    return args.strict ? args.probability[c] > args.threshold
                       : args.probability[c] >= args.threshold;
  };
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    std::vector<std::int32_t> all, ready;
    for (const std::int32_t c : ranked(args.candidates, args.doubt, s)) {
      if (args.candidates.position[c] >= args.last[s]) continue;
      all.push_back(c);
      if (args.allowed[s] != 0 && args.settled[c] != 0 && passes(c)) ready.push_back(c);
    }
    if (args.choice == op::ready_choice::stillest) {
      std::ranges::sort(ready);
      std::ranges::stable_sort(ready, {}, [&](std::int32_t c) { return args.moved[c]; });
    }
    const bool none = ready.empty();
    const std::vector<std::int32_t>& from = none ? all : ready;
    auto count = static_cast<std::int32_t>(from.size());
    if (none) count = std::min({count, args.quota[s], args.at_most});
    if (!none && args.choice != op::ready_choice::all) count = 1;
    for (std::int32_t i = 0; i < count; ++i) args.accept[from[static_cast<std::size_t>(i)]] = 1;
  }
}

const register_operations<compare_distributions, accept_settled> registered(target::reference);

}  // namespace
}  // namespace unmask::reference

namespace unmask::cpu {
namespace {

void compare_distributions(const op::compare_distributions& args) {
  each_candidate(args.candidates, 5 * args.logits.columns(),
                 [&](std::int32_t s, std::int32_t c) { reference::compare_with_kept(args, s, c); });
}

const register_operations<compare_distributions> registered(target::cpu);

}  // namespace
}  // namespace unmask::cpu
