// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/portable.h"

namespace unmask::cuda::UNMASK_TARGET {

// The token of a row: its own, or the one at its place in the canvas.
UNMASK_DEVICE std::int32_t token_of(const row_set& rows, const std::int32_t* canvas,
                                    std::int64_t stride, const std::int32_t* own, int r) {
  const int s = rows.sequence[r];
  if (s < 0) return 0;
  const std::int32_t mine = own != nullptr ? own[r] : -1;
  return mine >= 0 ? mine : canvas[s * stride + rows.position[r]];
}

}  // namespace unmask::cuda::UNMASK_TARGET
