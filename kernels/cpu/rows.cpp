// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"

namespace unmask::cpu {

namespace {

struct byte_rows {
  std::byte* data;
  std::size_t stride, width;
  explicit byte_rows(const tensor_view& t)
      : data(static_cast<std::byte*>(t.data)),
        stride(static_cast<std::size_t>(t.row_stride) * size_of(t.type)),
        width(static_cast<std::size_t>(t.columns()) * size_of(t.type)) {}
  std::byte* at(std::int64_t i) const { return data + static_cast<std::size_t>(i) * stride; }
};

void check_rows(const tensor_view& from, const tensor_view& to) {
  if (from.type != to.type || from.columns() != to.columns()) {
    throw std::logic_error("rows: type or width differs");
  }
}

}  // namespace

void backend::gather_rows(const tensor_view& from, const std::int32_t* index,
                          const tensor_view& to) const {
  check_rows(from, to);
  const byte_rows source(from), target(to);
  for (std::int64_t i = 0; i < to.rows(); ++i) {
    std::memcpy(target.at(i), source.at(index[i]), source.width);
  }
}

void backend::scatter_rows(const tensor_view& from, const std::int32_t* index,
                           const tensor_view& to) const {
  check_rows(from, to);
  const byte_rows source(from), target(to);
  for (std::int64_t i = 0; i < from.rows(); ++i) {
    std::memcpy(target.at(index[i]), source.at(i), source.width);
  }
}

std::int32_t backend::compact(std::int32_t sequences, const tensor_view& flags, std::uint8_t want,
                              const std::int32_t* first, const std::int32_t* last,
                              std::int32_t* begin, std::int32_t* position,
                              std::int32_t* sequence) const {
  std::int32_t total = 0;
  begin[0] = 0;
  for (std::int32_t s = 0; s < sequences; ++s) {
    const std::uint8_t* flag = flags.data != nullptr ? flags.row<std::uint8_t>(s) : nullptr;
    for (std::int32_t p = first[s]; p < last[s]; ++p) {
      if (flag != nullptr && flag[p] != want) continue;
      position[total] = p;
      sequence[total++] = s;
    }
    begin[s + 1] = total;
  }
  return total;
}

void backend::find_rows(const row_set& rows, const row_set& some, std::int32_t* index) const {
  for (std::int32_t i = 0; i < some.rows; ++i) {
    const std::int32_t s = some.sequence[i];
    const std::int32_t* first = rows.position + rows.row_begin[s];
    const std::int32_t* last = rows.position + rows.row_begin[s + 1];
    const std::int32_t* at = std::lower_bound(first, last, some.position[i]);
    if (at == last || *at != some.position[i]) {
      throw std::logic_error("find_rows: a row is not there");
    }
    index[i] = static_cast<std::int32_t>(at - rows.position);
  }
}

void backend::gather_tokens(const row_set& rows, const tensor_view& canvas,
                            std::int32_t* token) const {
  for (std::int32_t r = 0; r < rows.rows; ++r) {
    token[r] =
        rows.sequence[r] < 0 ? 0 : canvas.row<std::int32_t>(rows.sequence[r])[rows.position[r]];
  }
}

// Rows and positions both ascend, so one walk along each sequence is enough.
std::int32_t backend::find_candidates(const row_set& rows, const tensor_view& state,
                                      std::uint8_t want, const std::int32_t* first,
                                      const std::int32_t* last, std::int32_t shift,
                                      std::int32_t* begin, std::int32_t* position,
                                      std::int32_t* row) const {
  std::int32_t total = 0;
  begin[0] = 0;
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    const std::uint8_t* flag = state.row<std::uint8_t>(s);
    for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
      const std::int32_t p = rows.position[r] + shift;
      if (p < first[s] || p >= last[s] || flag[p] != want) continue;
      position[total] = p;
      row[total++] = r;
    }
    begin[s + 1] = total;
  }
  return total;
}

void backend::mean_rows(const row_set& rows, const tensor_view& x, const tensor_view& out) const {
  thread_local scratch memory;
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t width = x.columns();
  double* sum = memory.get<double>(width);
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    std::fill(sum, sum + width, 0.0);
    for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
      kernels.add_to(sum, x.row<float>(r), width);
    }
    const std::int32_t count = std::max(1, rows.row_begin[s + 1] - rows.row_begin[s]);
    float* to = out.row<float>(s);
    for (std::int64_t c = 0; c < width; ++c) to[c] = static_cast<float>(sum[c] / count);
  }
}

void backend::row_distance(const tensor_view& a, const tensor_view& b, float* out) const {
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t rows = a.rows(), width = a.columns();
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    double p[3];
    kernels.products(a.row<float>(r), b.row<float>(r), width, p);
    const double norms = std::sqrt(p[1]) * std::sqrt(p[2]);
    out[r] = static_cast<float>(1.0 - p[0] / std::max(norms, 1e-8));
  }
}

}  // namespace unmask::cpu
