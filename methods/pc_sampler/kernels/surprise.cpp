// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/pc_sampler/kernels/surprise.h"

#include <algorithm>

namespace unmask::reference {
namespace {

void surprise_scores(const op::surprise_scores& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const std::int32_t place = args.candidates.position[c] - args.first[s];
      const float worth = args.probability[c] * args.surprise[args.token[c]];
      args.score[c] =
          args.weight[std::clamp(place, 0, args.places - 1)] * std::min(worth, args.limit);
    }
  }
}

const register_operations<surprise_scores> registered(target::reference);

}  // namespace
}  // namespace unmask::reference
