// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are committed. A candidate whose score is -infinity or NaN is not eligible: it
// is never accepted and never counted.
#include <algorithm>
#include <limits>

#include "kernels/decisions.h"
#include "kernels/float16.h"
#include "kernels/noise.h"
#include "kernels/reference/backend.h"

namespace unmask::reference {

std::vector<std::int32_t> ranked(const candidate_set& candidates, const float* score,
                                 std::int32_t s) {
  std::vector<std::int32_t> order;
  for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
    if (score[c] > -std::numeric_limits<float>::infinity()) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return score[a] > score[b]; });
  return order;
}

namespace {

// The quota[s] best.
void accept_top(const op::accept_top& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const auto order = ranked(args.candidates, args.score, s);
    const auto m = static_cast<std::int32_t>(order.size());
    for (std::int32_t i = 0; i < std::min(args.quota[s], m); ++i) args.accept[order[i]] = 1;
  }
}

// {score >= threshold} (strict: >), and the best when always_best.
void accept_threshold(const op::accept_threshold& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const auto order = ranked(args.candidates, args.score, s);
    for (const std::int32_t c : order) {
      const bool passes =
          args.strict ? args.score[c] > args.threshold : args.score[c] >= args.threshold;
      if (passes || (args.always_best && c == order.front())) args.accept[c] = 1;
    }
  }
}

// score_c = u_c, kept below 1 in float32.
void uniform_scores(const op::uniform_scores& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const double u = uniform_open(noise_key(args.candidates, args.noise, s, c), score_draw);
      args.score[c] = std::min(static_cast<float>(u), 0x1.fffffep-1F);
    }
  }
}

// Counts one decision of a kind that may not come up.
void count(std::int32_t* counts, std::int32_t s) {
  if (counts != nullptr) ++counts[s];
}

// keep: nothing. take, hold: a mask is decided, unless its token is mask_id. replace, reopen: a
// decided position changes. Anything else is refused.
void commit(const op::commit& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const std::uint8_t what = args.accept[c];
      const bool decides = decides_mask(what);
      if (what == decision_keep || (decides && args.token[c] == args.mask_id)) continue;
      const std::int32_t position = args.candidates.position[c];
      std::int32_t& token = args.canvas.row<std::int32_t>(s)[position];
      std::uint8_t& state = args.state.row<std::uint8_t>(s)[position];
      const bool nowhere = what == decision_hold && args.held.data == nullptr;
      if (nowhere || state != (decides ? state_masked : state_decoded)) {
        count(args.counts.refused, s);
      } else if (decides) {
        state = state_decoded;
        (what == decision_hold ? args.held.row<std::int32_t>(s)[position] : token) = args.token[c];
        count(args.counts.taken, s);
      } else if (what == decision_replace) {
        token = args.token[c];
        count(args.counts.replaced, s);
      } else {
        token = args.mask_token;
        state = state_masked;
        count(args.counts.reopened, s);
      }
    }
  }
}

void merge_accept(const op::merge_accept& args) {
  for (std::int32_t i = 0; i < args.count; ++i) {
    args.accept[i] = args.both ? (args.accept[i] & args.also[i]) : (args.accept[i] | args.also[i]);
  }
}

void combine_scores(const op::combine_scores& args) {
  for (std::int32_t i = 0; i < args.count; ++i) {
    args.out[i] = static_cast<float>(double{args.a[i]} * args.wa +
                                     (args.b != nullptr ? double{args.b[i]} * args.wb : 0.0));
  }
}

void round_bf16(const op::round_bf16& args) {
  for (std::int32_t i = 0; i < args.count; ++i) args.x[i] = from_bf16(to_bf16(args.x[i]));
}

}  // namespace

const register_operations<accept_top, accept_threshold, uniform_scores, commit, merge_accept,
                          combine_scores, round_bf16>
    registered(target::reference);

}  // namespace unmask::reference
