// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/hierarchical/kernels/runs.h"

#include <algorithm>
#include <limits>

namespace unmask::reference {
namespace {

void accept_run_best(const op::accept_run_best& args) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const std::int32_t end = args.candidates.begin[s + 1];
    for (std::int32_t first = args.candidates.begin[s], last = first; first < end; first = last) {
      float best = nothing;
      do {
        if (args.score[last] > best) best = args.score[last];
        ++last;
      } while (last < end &&
               args.candidates.position[last] == args.candidates.position[last - 1] + 1);
      for (std::int32_t c = first; c < last; ++c) {
        args.accept[c] = best > nothing && args.score[c] == best && best > args.above;
      }
    }
  }
}

const register_operations<accept_run_best> registered(target::reference);

}  // namespace
}  // namespace unmask::reference
