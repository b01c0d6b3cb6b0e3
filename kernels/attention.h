// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention over a paged cache.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// out[r, h] = sum_j softmax_j(q[r, h] . k[j, h / group] * scale) v[j, h / group] over the keys of
// the row's sequence that the mask admits. q, out [R, heads, dim]; GQA group = heads / kv_heads.
// key_mass, when it has data: [total keys] += softmax weight of each listed key summed over the
// sequence's rows and heads (index: sum of kv_length before s, plus slot; or list index).
struct attention {
  row_set rows;
  tensor_view q;
  paged_kv cache;
  key_set keys;
  float scale = 0;
  tensor_view out;
  tensor_view key_mass;
};

}  // namespace unmask::op
