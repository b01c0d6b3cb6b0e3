// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The lists of a forward, copied to where recorded operations read them. The copies lie in device
// memory whatever the originals lie in, so that the kernels of every layer need not reach over the
// bus for them.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/portable.h"
#include "kernels/cuda/row_tokens.h"
#include "kernels/rows.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int stage_threads = 128;

UNMASK_DEVICE void stage_entry(const std::int32_t* from, bool there, std::int32_t filler,
                               std::int32_t* to, std::int32_t r) {
  if (to != nullptr) to[r] = there && from != nullptr ? from[r] : filler;
}

// A thread for every padded row, and for every entry of row_begin.
UNMASK_KERNEL void stage_rows_kernel(op::stage_rows p) {
  const auto i = static_cast<std::int32_t>(block_index() * block_size() + thread_index());
  if (i <= p.rows.sequences && p.to.row_begin != nullptr) {
    p.to.row_begin[i] = p.rows.row_begin[i];
  }
  if (i >= p.padded) return;
  const bool there = i < p.rows.rows;
  stage_entry(p.rows.sequence, there, -1, p.to.sequence, i);
  stage_entry(p.rows.position, there, 0, p.to.position, i);
  stage_entry(p.rows.slot, there, 0, p.to.slot, i);
  stage_entry(p.index, there, 0, p.to.index, i);
  if (p.to.token == nullptr) return;
  const auto* canvas = static_cast<const std::int32_t*>(p.canvas.data);
  p.to.token[i] = there ? token_of(p.rows, canvas, p.canvas.row_stride, p.own, i) : 0;
}

}  // namespace unmask::cuda::UNMASK_TARGET
