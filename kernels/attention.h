// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The attention operation over a paged cache.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// Computes out[r, h] = sum_j softmax_j(q[r, h] . k[j, h / group] * scale) v[j, h / group] over the
// keys of the row's sequence that the mask admits. q and out are [R, heads, dim]; a GQA group has
// heads / kv_heads heads. If key_mass [total keys] has data, it grows by the softmax weight of each
// listed key, summed over the sequence's rows and heads. Its index is the list index, or the sum of
// kv_length before s plus the slot.
struct attention {
  row_set rows;
  tensor_view q;
  paged_kv cache;
  key_set keys;
  float scale = 0;
  tensor_view out;
  tensor_view key_mass;

  head_sum over_heads() const {
    if (key_mass.data == nullptr) return {};
    std::int64_t n = keys.key_begin != nullptr ? keys.key_begin[rows.sequences] : 0;
    for (std::int32_t s = 0; s < rows.sequences && keys.key_begin == nullptr; ++s) {
      n += keys.kv_length[s];
    }
    return {key_mass.as<float>(), n, 0, true};
  }
};

}  // namespace unmask::op
