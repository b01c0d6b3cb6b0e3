// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/credit_decoding/kernels/credit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/backend.h"
#include "kernels/reference/backend.h"

namespace unmask::reference {
namespace {

constexpr float nothing = -std::numeric_limits<float>::infinity();

// One position's list.
struct credit_list {
  std::int32_t* size;
  std::int32_t room;
  std::int32_t* token;
  float* credit;

  void fade(float decay) const {
    for (std::int32_t i = 0; i < *size; ++i) credit[i] *= decay;
  }
  void add(std::int32_t favourite, float more) const {
    for (std::int32_t i = 0; i < *size; ++i) {
      if (token[i] != favourite) continue;
      credit[i] += more;
      return;
    }
    if (*size == room) return;
    token[*size] = favourite;
    credit[*size] = more;
    ++*size;
  }
};

credit_list list_of(const op::credited_confidence& args, std::int32_t s, std::int32_t place) {
  const std::int64_t room = args.tokens.shape[2];
  return {args.listed.row<std::int32_t>(s) + place, static_cast<std::int32_t>(room),
          args.tokens.row<std::int32_t>(s) + place * room,
          args.credits.row<float>(s) + place * room};
}

// softmax(f)[token] from the sum over the raw logits: only listed tokens change their term.
void judge(const op::credited_confidence& args, const credit_list& list, std::int32_t c,
           double raw_best, double raw_sum) {
  const float* logit = args.logits.row<float>(c);
  const auto raised = [&](std::int32_t i) {
    return logit[list.token[i]] + args.alpha * std::log(list.credit[i] + 1.0F);
  };
  float best = nothing;
  std::int32_t token = 0;
  for (std::int32_t i = 0; i < *list.size; ++i) {
    const float f = raised(i);
    if (f > best || (f == best && list.token[i] < token)) {
      best = f;
      token = list.token[i];
    }
  }
  double sum = raw_sum * std::exp(raw_best - double{best});
  for (std::int32_t i = 0; i < *list.size; ++i) {
    sum += std::exp(double{raised(i)} - double{best}) -
           std::exp(double{logit[list.token[i]]} - double{best});
  }
  args.token[c] = token;
  args.probability[c] = static_cast<float>(1.0 / sum);
  args.score[c] = token == args.refused ? nothing : args.probability[c];
}

// Of candidate c of sequence s, whose list is its own.
void give_credit(const op::credited_confidence& args, std::int32_t s, std::int32_t c) {
  const std::int64_t vocabulary = args.logits.columns();
  const credit_list list = list_of(args, s, args.candidates.position[c] - args.first[s]);
  const float* logit = args.logits.row<float>(c);
  const float* best = std::max_element(logit, logit + vocabulary);
  double sum = 0;
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    sum += std::exp(double{logit[v]} - double{*best});
  }
  if (args.fresh[s] != 0) *list.size = 0;
  list.fade(args.decay);
  list.add(static_cast<std::int32_t>(best - logit),
           static_cast<float>(std::exp(-double{args.exponent} * std::log(sum))));
  judge(args, list, c, double{*best}, sum);
}

void credited_confidence(const op::credited_confidence& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      give_credit(args, s, c);
    }
  }
}

void accept_near_best(const op::accept_near_best& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const auto order = ranked(args.candidates, args.score, s);
    if (order.empty()) continue;
    const float limit = std::min(args.score[order.front()] - args.slack, args.threshold);
    for (const std::int32_t c : order) args.accept[c] = args.score[c] >= limit;
  }
}

const register_operations<credited_confidence, accept_near_best> registered(target::reference);

}  // namespace
}  // namespace unmask::reference

namespace unmask::cpu {
namespace {

void credited_confidence(const op::credited_confidence& args) {
  each_candidate(args.candidates, args.logits.columns(),
                 [&](std::int32_t s, std::int32_t c) { reference::give_credit(args, s, c); });
}

const register_operations<credited_confidence> registered(target::cpu);

}  // namespace
}  // namespace unmask::cpu
