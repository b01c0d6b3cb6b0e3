// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "methods/parts/kernels/block_acceptance.h"

namespace unmask {
namespace reference {
namespace {

// f = the first candidate inside [block_begin, block_begin + block); accept the candidates of the
// block whose distance from f, modulo the block, is below the quota.
void accept_sequential(const op::accept_sequential& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    std::int32_t first = -1;
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const std::int32_t p = args.candidates.position[c];
      if (p < args.block_begin[s] || p >= args.block_begin[s] + args.block) continue;
      if (first < 0) first = p;
      if (((p - first) % args.block + args.block) % args.block < args.quota[s]) args.accept[c] = 1;
    }
  }
}

}  // namespace

const register_operations<accept_sequential> registered(target::reference);

}  // namespace reference
}  // namespace unmask
