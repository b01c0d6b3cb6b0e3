// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/rows.h"

namespace unmask::cpu {

namespace {

std::int32_t find_candidates(const op::find_candidates& args) {
  std::int32_t total = 0;
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::uint8_t* flag = args.state.row<std::uint8_t>(s);
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      const std::int32_t p = args.rows.position[r] + args.shift;
      const std::uint8_t wanted = args.judges != nullptr ? args.judges[r] : args.wanted;
      if (p < args.first[s] || p >= args.last[s] || !is_one_of(flag[p], wanted)) continue;
      args.position[total] = p;
      args.row[total++] = r;
    }
    args.begin[s + 1] = total;
  }
  return total;
}

void mean_rows(const backend& cpu, const op::mean_rows& args) {
  thread_local scratch memory;
  const row_kernels& kernels = cpu.rows();
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

const register_operations<find_candidates, mean_rows> registered(target::cpu);

}  // namespace unmask::cpu
