// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include "kernels/backend.h"
#include "kernels/random.h"

namespace unmask {

// Stream of candidate c of sequence s: seed, step and position, never the place in the batch.
UNMASK_HOST_DEVICE inline std::uint64_t noise_key(const candidate_set& candidates,
                                                  const noise_source& noise, std::int32_t s,
                                                  std::int32_t c) {
  return stream_key(noise.seed[s], static_cast<std::uint32_t>(noise.step[s]),
                    static_cast<std::uint32_t>(candidates.position[c]));
}

}  // namespace unmask
