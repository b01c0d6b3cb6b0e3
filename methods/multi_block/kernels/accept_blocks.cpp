// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/multi_block/kernels/accept_blocks.h"

#include "kernels/reference/backend.h"

namespace unmask::reference {
namespace {

void accept_in_blocks(const op::accept_in_blocks& args) {
  const candidate_set& set = args.candidates;
  for (std::int32_t s = 0; s < set.sequences; ++s) {
    const auto block_of = [&](std::int32_t c) {
      return (set.position[c] - args.origin[s]) / args.block;
    };
    for (std::int32_t first = set.begin[s], last = first; first < set.begin[s + 1]; first = last) {
      std::int32_t passed = 0, best = first;
      for (; last < set.begin[s + 1] && block_of(last) == block_of(first); ++last) {
        args.accept[last] = args.probability[last] > args.threshold ? 1 : 0;
        passed += args.accept[last];
        if (args.score[last] > args.score[best]) best = last;
      }
      if (passed == 0 && args.forced.row<std::uint8_t>(s)[block_of(first)] != 0) {
        args.accept[best] = 1;
      }
    }
  }
}

const register_operations<accept_in_blocks> registered(target::reference);

}  // namespace
}  // namespace unmask::reference
