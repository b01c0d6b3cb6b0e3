// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over ranks, a stretch of elements at a time: what is added stays in the first cache.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/scratch.h"
#include "kernels/float16.h"
#include "kernels/ranks.h"

namespace unmask::cpu {
namespace {

constexpr std::int64_t stretch = 2048;  // elements of each part at a time

// Parts 2i and 2i + 1 of `count`, each `apart` elements behind the one before, become one in place;
// until one is left, the first.
void add_in_pairs(float* parts, std::int64_t count, std::int64_t apart, std::int64_t n) {
  for (; count > 1; count = (count + 1) / 2) {
    for (std::int64_t i = 0; i < count; i += 2) {
      float* to = parts + i / 2 * apart;
      const float* a = parts + i * apart;
      if (i + 1 == count) {
        if (to != a) std::memcpy(to, a, static_cast<std::size_t>(n) * sizeof(float));
        continue;
      }
      const float* b = a + apart;
      for (std::int64_t j = 0; j < n; ++j) to[j] = a[j] + b[j];
    }
  }
}

// The same of all `n` elements, on threads.
void add_in_pairs(float* parts, std::int64_t count, std::int64_t n) {
  if (count == 1) return;
#pragma omp parallel for schedule(static) if (count * n > parallel_elements)
  for (std::int64_t at = 0; at < n; at += stretch) {
    add_in_pairs(parts + at, count, n, std::min(stretch, n - at));
  }
}

// As bfloat16, in place.
void round_parts(float* x, std::int64_t n) {
#pragma omp parallel for schedule(static) if (n > parallel_elements)
  for (std::int64_t i = 0; i < n; ++i) x[i] = from_bf16(to_bf16(x[i]));
}

// The one part of every rank, [ranks, n]: rounded values, which come in half the bytes.
void gather_halves(rank_group& group, const float* own, std::int64_t n, float* all) {
  static thread_local scratch mine_memory, all_memory;
  auto* mine = mine_memory.get<std::uint16_t>(n);
  auto* halves = all_memory.get<std::uint16_t>(group.size() * n);
  for (std::int64_t i = 0; i < n; ++i) mine[i] = to_bf16(own[i]);
  group.gather(mine, static_cast<std::size_t>(n) * sizeof(std::uint16_t), halves);
#pragma omp parallel for schedule(static) if (group.size() * n > parallel_elements)
  for (std::int64_t i = 0; i < group.size() * n; ++i) all[i] = from_bf16(halves[i]);
}

void sum_ranks(const op::sum_ranks& args) {
  check_travels(args);
  const std::int64_t rows = args.y.rows(), width = args.y.columns(), n = rows * width;
  if (n == 0) return;
  auto* sum = args.parts.as<float>();
  const bool halves = args.travels == dtype::bf16;
  if (halves) round_parts(sum, args.parts.rows() * n);
  add_in_pairs(sum, args.parts.rows(), n);
  if (args.group != nullptr) {
    static thread_local scratch memory;
    auto* all = memory.get<float>(args.group->size() * n);
    if (halves) {
      gather_halves(*args.group, sum, n, all);
    } else {
      args.group->gather(sum, static_cast<std::size_t>(n) * sizeof(float), all);
    }
    add_in_pairs(all, args.group->size(), n);
    sum = all;
  }
#pragma omp parallel for schedule(static) if (n > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    auto* y = args.y.row<float>(r);
    const float* s = sum + r * width;
    for (std::int64_t d = 0; d < width; ++d) y[d] = args.accumulate ? y[d] + s[d] : s[d];
  }
}

const register_operations<sum_ranks> registered(target::cpu);

}  // namespace
}  // namespace unmask::cpu
