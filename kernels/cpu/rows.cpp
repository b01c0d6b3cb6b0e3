// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/rows.h"

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

void gather_rows(const op::gather_rows& args) {
  check_rows(args.from, args.to);
  const byte_rows source(args.from), target(args.to);
  for (std::int64_t i = 0; i < args.to.rows(); ++i) {
    std::memcpy(target.at(i), source.at(args.index[i]), source.width);
  }
}

void scatter_rows(const op::scatter_rows& args) {
  check_rows(args.from, args.to);
  const byte_rows source(args.from), target(args.to);
  for (std::int64_t i = 0; i < args.from.rows(); ++i) {
    std::memcpy(target.at(args.index[i]), source.at(i), source.width);
  }
}

// Rows and positions both ascend, so one walk along each sequence is enough.
std::int32_t find_candidates(const op::find_candidates& args) {
  std::int32_t total = 0;
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::uint8_t* flag = args.state.row<std::uint8_t>(s);
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      const std::int32_t p = args.rows.position[r] + args.shift;
      if (p < args.first[s] || p >= args.last[s] || flag[p] != args.want) continue;
      args.position[total] = p;
      args.row[total++] = r;
    }
    args.begin[s + 1] = total;
  }
  return total;
}

void mean_rows(const op::mean_rows& args) {
  thread_local scratch memory;
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t width = args.x.columns();
  double* sum = memory.get<double>(width);
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    std::fill(sum, sum + width, 0.0);
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      kernels.add_to(sum, args.x.row<float>(r), width);
    }
    const std::int32_t count = std::max(1, args.rows.row_begin[s + 1] - args.rows.row_begin[s]);
    float* to = args.out.row<float>(s);
    for (std::int64_t c = 0; c < width; ++c) to[c] = static_cast<float>(sum[c] / count);
  }
}

}  // namespace

const register_operations<gather_rows, scatter_rows, find_candidates, mean_rows> registered(
    target::cpu);

}  // namespace unmask::cpu
