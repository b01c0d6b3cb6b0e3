// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/parts/kernels/entropy_bound.h"

namespace unmask::cuda::UNMASK_TARGET {

// Takes one candidate after the other, best first, until the bound is passed: as many searches of
// the group as there are tokens decided. Every thread adds up the same entropies in that order.
template <class G, class K>
UNMASK_DEVICE void take_under_bound(const G& group, int n, const K& key,
                                    const op::accept_entropy_bound& p, int first) {
  for (int i = group.rank(); i < n; i += group.size()) p.accept[first + i] = 0;
  double before = 0, largest = 0;
  std::uint64_t last = ~std::uint64_t{0};
  for (int accepted = 0; accepted < n; ++accepted) {
    std::uint64_t best = 0;
    for (int i = group.rank(); i < n; i += group.size()) {
      const std::uint64_t mine = order_value(key(i), i);
      if (key(i) > lowest_key && mine < last && mine > best) best = mine;
    }
    best = group_max(group, best);
    if (best == 0) return;
    const int i = index_of(best);
    const double negative = static_cast<double>(p.negative_entropy[first + i]);
    const double entropy = negative < 0 ? -negative : 0.0;
    const double all = before + entropy, top = largest > entropy ? largest : entropy;
    const double left = p.without_largest ? all - top : before;
    if (accepted >= p.minimum && left > static_cast<double>(p.bound)) return;
    if (i % group.size() == group.rank()) p.accept[first + i] = 1;
    before = all;
    largest = top;
    last = best;
  }
}

UNMASK_KERNEL void accept_entropy_bound_kernel(op::accept_entropy_bound p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  with_keys(p.score + first, n, block,
            [&](const auto& group, const auto& key) { take_under_bound(group, n, key, p, first); });
}

namespace {

void accept_entropy_bound(const device_backend& device, const op::accept_entropy_bound& args) {
  device.work().launch(
      "accept_entropy_bound", block_each(args.candidates.sequences), accept_entropy_bound_kernel,
      {device.in(args.candidates), device.in(args.score), device.in(args.negative_entropy),
       args.bound, args.without_largest, args.minimum, device.out(args.accept)});
}

}  // namespace

const register_operations<accept_entropy_bound> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
