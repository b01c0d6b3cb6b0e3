// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The reference backend: every operation as its definition says, in plain loops with float64
// sums in the order of their index. It is what the other backends are held against: nothing that changes
// a bit makes it faster.
#pragma once

#include <vector>

#include "kernels/backend.h"

namespace unmask::reference {

// Weights as the format keeps them: rounded floats, or int8 with one scale per output feature.
class matrix : public packed_matrix {
 public:
  weight_format format = weight_format::f32;
  std::vector<float> value;        // [N, K] f32 and bf16 formats, already rounded
  std::vector<std::int8_t> level;  // [N, K] int8 format
  std::vector<float> scale;        // [N] int8 format: W = level * scale
  const float* row(std::int64_t n) const { return value.data() + n * in_features; }
};
const matrix& as_reference(const packed_matrix& m);  // throws when another backend packed it

// y[n] = sum_k x[k] W[n, k] for one row, in the semantics of the weight format.
void multiply_row(const float* x, const matrix& w, double* y);

// The row of a slot on one side of a cache, [kv_heads, dim].
inline float* slot_row(const paged_kv& cache, const tensor_view& side, std::int32_t sequence,
                       std::int32_t slot) {
  const std::int32_t page =
      cache.page_table[std::int64_t{sequence} * cache.table_stride + slot / kv_page_size];
  return side.row<float>(page) + (slot % kv_page_size) * side.shape[2] * side.shape[3];
}
inline float* slot_row(const row_set& rows, std::int32_t r, const paged_kv& cache,
                       const tensor_view& side) {
  return slot_row(cache, side, rows.sequence[r],
                  rows.slot != nullptr ? rows.slot[r] : rows.position[r]);
}

// Whether the mask of these keys lets a row see a key, by their positions, and whether head h of
// sequence s, one of `heads`, looks at the tile of the two.
bool admits(const key_set& keys, std::int32_t row_position, std::int32_t key_position);
bool keeps(const block_mask& mask, std::int64_t heads, std::int32_t s, std::int64_t h,
           std::int32_t row_position, std::int32_t slot);

// Eligible candidates of sequence s (a score above -infinity), best first; ties go to the lowest
// index.
std::vector<std::int32_t> ranked(const candidate_set& candidates, const float* score,
                                 std::int32_t s);

class backend : public unmask::backend {
 public:
  backend() : unmask::backend(target::reference) {}
  std::string name() const override { return "reference"; }
  tensor allocate(dtype type, std::initializer_list<std::int64_t> shape,
                  memory_use use = memory_use::resident) const override;
  packed_handle pack(const tensor_view& weight, weight_format format) const override;
};

}  // namespace unmask::reference
