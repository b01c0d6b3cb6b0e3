// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/decide_kernels.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/parts/kernels/acceptance.h"

namespace unmask::cuda::UNMASK_TARGET {

// t = the lowest rank whose score is below that rank's threshold; then the t best. Ranks are
// counted, n comparisons for each candidate.
template <class G, class K>
UNMASK_DEVICE void take_by_factor(const G& group, int n, const K& key, const float* score,
                                  float factor, int behind, std::uint8_t* accept) {
  const int m = group.count(n, [&](int i) { return key(i) > lowest_key; });
  int t = behind > 0 ? m : m - 1;
  for (int i = group.rank(); i < n; i += group.size()) {
    const std::uint32_t mine = key(i);
    if (mine <= lowest_key) continue;
    int rank = 0;
    for (int j = 0; j < n; ++j) {
      const std::uint32_t other = order_key(score[j]);
      rank += other > mine || (other == mine && j < i) ? 1 : 0;
    }
    const double threshold = rank == 0 ? -1.0 : 1.0 - static_cast<double>(factor) / (rank + 2);
    if (static_cast<double>(score[i]) < threshold && rank < t) t = rank;
  }
  t = group_min(group, t);
  if (t == 0 || t == m + behind - 1) ++t;
  const cut c = top_cut(group, n, t < m ? t : m, key);
  for_each_taken(group, n, key, c, [&](int i, bool taken) { accept[i] = taken ? 1 : 0; });
}

UNMASK_KERNEL void accept_factor_kernel(op::accept_factor p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  with_keys(p.score + first, n, block, [&](const auto& group, const auto& key) {
    take_by_factor(group, n, key, p.score + first, p.factor, p.behind ? p.behind[s] : 0,
                   p.accept + first);
  });
}

// score / temperature - ln(-ln u) in float64. The two logarithms may differ from the reference's in
// the last of 53 bits, the stored float in its last bit about once in 10^8 draws.
UNMASK_KERNEL void gumbel_scores_kernel(op::gumbel_scores p) {
  const int s = static_cast<int>(block_index());
  const int last = p.candidates.begin[s + 1];
  for (int c = p.candidates.begin[s] + static_cast<int>(thread_index()); c < last;
       c += static_cast<int>(block_size())) {
    const double gumbel = -log(-log(draw_of(p.noise, p.candidates, s, c)));
    p.score[c] = static_cast<float>(
        static_cast<double>(p.score[c]) / static_cast<double>(p.temperature) + gumbel);
  }
}

namespace {

void accept_factor(const device_backend& device, const op::accept_factor& args) {
  device.work().launch("accept_factor", block_each(args.candidates.sequences), accept_factor_kernel,
                       {device.in(args.candidates), device.in(args.score), args.factor,
                        device.out(args.accept), args.behind ? device.in(args.behind) : nullptr});
}

void gumbel_scores(const device_backend& device, const op::gumbel_scores& args) {
  device.work().launch("gumbel_scores", {blocks_for(args.candidates.sequences, 1), group_threads},
                       gumbel_scores_kernel,
                       {device.in(args.candidates), device.in(args.noise), args.temperature,
                        device.out(args.score)});
}

}  // namespace

const register_operations<accept_factor, gumbel_scores> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
