// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/kernels/entropy_bound.h"

#include <algorithm>

#include "kernels/reference/backend.h"

namespace unmask::reference {
namespace {

// left_i = h_1 + ... + h_i without the largest (or the last) of them; it never falls with i.
void accept_entropy_bound(const op::accept_entropy_bound& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    double before = 0, largest = 0;  // of those accepted so far
    std::int32_t accepted = 0;
    for (const std::int32_t c : ranked(args.candidates, args.score, s)) {
      const double entropy = std::max(-double{args.negative_entropy[c]}, 0.0);
      const double all = before + entropy, top = std::max(largest, entropy);
      const double left = args.without_largest ? all - top : before;
      if (accepted >= args.minimum && left > double{args.bound}) break;
      args.accept[c] = 1;
      ++accepted;
      before = all;
      largest = top;
    }
  }
}

const register_operations<accept_entropy_bound> registered(target::reference);

}  // namespace
}  // namespace unmask::reference
