// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of bench --kernels, on any backend, and what it makes of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "kernels/backend.h"

namespace unmask::bench {

// These numbers, float32 or bfloat16.
tensor stored(const backend& on, std::initializer_list<std::int64_t> shape,
              const std::vector<float>& values, dtype type);

// Numbers in (-1, 1) times `scale`, of Philox; other ones in each call.
std::vector<float> drawn(std::int64_t count, float scale);
tensor filled(const backend& on, std::initializer_list<std::int64_t> shape, float scale,
              dtype type);

tensor listed(const backend& on, const std::vector<std::int32_t>& values);

// float32 or bfloat16, once all calls have ended.
std::vector<float> read(const backend& on, const tensor_view& t);

// Sets all bits to zero.
void clear(const backend& on, const tensor_view& t);

// Rows at the end of sequences of as many keys, whose pages lie in order; every key is seen.
struct dense_rows {
  row_set rows;
  key_set seen;
  const std::int32_t* page_table = nullptr;
  std::int64_t pages = 0;  // of a sequence
  std::vector<tensor> kept;
};
dense_rows rows_at_the_end(const backend& on, std::int64_t sequences, std::int64_t rows,
                           std::int64_t keys);

// Largest difference of two results over the largest magnitude of the second; 1 if either has a NaN.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);

// bfloat16 results of sums in another order: a unit of the last place is 2^-8 of a number.
inline constexpr double allowed_difference = 0.02;

}  // namespace unmask::bench
