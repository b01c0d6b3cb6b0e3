// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/llada21/kernels/edits.h"

#include <limits>

namespace unmask::reference {
namespace {

void score_masks(const op::score_masks& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const std::uint8_t state = args.state.row<std::uint8_t>(s)[args.candidates.position[c]];
      args.score[c] =
          state == state_masked ? args.probability[c] : -std::numeric_limits<float>::infinity();
    }
  }
}

void accept_edits(const op::accept_edits& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const std::int32_t position = args.candidates.position[c];
      if (args.state.row<std::uint8_t>(s)[position] == state_masked) continue;
      const bool other = args.token[c] != args.canvas.row<std::int32_t>(s)[position];
      args.accept[c] =
          other && args.probability[c] > args.threshold ? decision_replace : decision_keep;
    }
  }
}

const register_operations<score_masks, accept_edits> registered(target::reference);

}  // namespace
}  // namespace unmask::reference
