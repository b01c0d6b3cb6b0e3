// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>

#include "kernels/noise.h"
#include "kernels/reference/backend.h"
#include "methods/parts/kernels/acceptance.h"

namespace unmask {
namespace reference {
namespace {

// Sorted descending c_1 .. c_m; thr_1 = -1, thr_n = 1 - factor / (n + 1). t = 0-based index of the
// first c_{t+1} < thr_{t+1}, m - 1 when there is none; t == 0 or t == m - 1 adds one; accept t. Of the m,
// `behind` are no candidates: the first of them fails.
void accept_factor(const op::accept_factor& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const auto order = ranked(args.candidates, args.score, s);
    const auto m = static_cast<std::int32_t>(order.size());
    if (m == 0) continue;
    const std::int32_t behind = args.behind == nullptr ? 0 : args.behind[s];
    std::int32_t t = behind > 0 ? m : m - 1;
    for (std::int32_t i = 0; i < m; ++i) {
      const double threshold = i == 0 ? -1.0 : 1.0 - double{args.factor} / (i + 2);
      if (double{args.score[order[i]]} < threshold) {
        t = i;
        break;
      }
    }
    if (t == 0 || t == m + behind - 1) ++t;
    for (std::int32_t i = 0; i < std::min(t, m); ++i) args.accept[order[i]] = 1;
  }
}

// score_c = score_c / temperature - ln(-ln u_c).
void gumbel_scores(const op::gumbel_scores& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const double u = uniform_open(noise_key(args.candidates, args.noise, s, c), score_draw);
      args.score[c] =
          static_cast<float>(double{args.score[c]} / args.temperature - std::log(-std::log(u)));
    }
  }
}

}  // namespace

const register_operations<accept_factor, gumbel_scores> registered(target::reference);

}  // namespace reference
}  // namespace unmask
