// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The operations of feature_layers.h: rows found among others, K/V read back, and the rows whose
// values moved most.
#pragma once

#include "kernels/operation.h"

namespace unmask {

namespace op {

// The reverse: k, v = (or, with accumulate, +=) what lies at each row's slot. Either may have no
// data.
struct kv_read {
  row_set rows;
  paged_kv cache;
  tensor_view k;
  tensor_view v;
  bool accumulate = false;
};

// index[i] = the row of `rows` at the sequence and position of row i of `some`, each of which
// must be there.
struct find_rows {
  row_set rows;
  row_set some;
  std::int32_t* index = nullptr;
};

// flags[s, position[i]] = 1 for the count[s] entries of highest score among those of sequence s,
// 0 for its others. Entries are rows of `some`, score [their number]; flags [S, length] uint8.
struct mark_top {
  row_set some;
  const float* score = nullptr;
  const std::int32_t* count = nullptr;
  tensor_view flags;
};

// Cosine distance of matching rows, 1 - sum(a b) / max(|a| |b|, 1e-8): out [R]; a, b [R, C]. Sums
// and difference in float64: rows that are nearly alike keep their order, which a float32 cosine
// near 1 loses. A distance below `same` becomes 0, so that rounding does not rank rows which did not
// move; 0: none does. Ranks that hold columns of the same rows add their sums first; `counts` false: what
// this one holds another counts.
struct row_distance {
  tensor_view a;
  tensor_view b;
  float* out = nullptr;
  float same = 0;
  bool counts = true;
};

}  // namespace op
}  // namespace unmask
