// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention as a matrix, and what it comes to over all layers.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// weight[r, j] = mean over heads h of softmax_j(q[r, h] . k[j, h / group] * scale), over the slots
// j in [0, kv_length[s]) of the row's sequence; the columns behind them stay as they were. q [R, heads,
// dim] float32 or bfloat16, weight [R, most keys] float32.
struct mean_attention {
  row_set rows;
  tensor_view q;
  paged_kv cache;
  const std::int32_t* kv_length = nullptr;  // [S]
  float scale = 0;
  tensor_view weight;

  head_sum over_heads() const {
    return {weight.as<float>(), rows.rows * weight.row_stride, q.shape[1]};
  }
};

// FLOPs of sequence s by one head: two for each element of q . k.
inline double flops_of_head(const mean_attention& o, std::int32_t s) {
  const double rows = o.rows.row_begin[s + 1] - o.rows.row_begin[s];
  return 2.0 * rows * o.kv_length[s] * static_cast<double>(o.q.shape[2]);
}

// One layer of an attention rollout from the last layer to the first, of the row vector `from`:
// to = from (A + I) / 2 with the rows of `weight` in A for computed positions and unit rows elsewhere,
//   to[s, j] = from[s, j] c_j + sum over rows r of s of from[s, position[r]] weight[r, j] / 2,
// c_j = 1/2 where a row of s has position j, else 1; j in [0, kv_length[s]). from, to [S, length]
// float32, no overlap; `from` without data: ones.
struct roll_out {
  row_set rows;
  const std::int32_t* kv_length = nullptr;  // [S]
  tensor_view weight;
  tensor_view from;
  tensor_view to;
};

inline double flops_of(const roll_out& o, std::int32_t s) {
  return 2.0 * (o.rows.row_begin[s + 1] - o.rows.row_begin[s]) * o.kv_length[s];
}

}  // namespace unmask::op
