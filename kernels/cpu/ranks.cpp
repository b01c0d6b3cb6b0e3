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
void add_parts(float* parts, std::int64_t count, std::int64_t apart, std::int64_t n) {
  if (count == 1) return;
#pragma omp parallel for schedule(static) if (count * n > parallel_elements)
  for (std::int64_t at = 0; at < n; at += stretch) {
    add_in_pairs(parts + at, count, apart, std::min(stretch, n - at));
  }
}

// As bfloat16, in place.
void round_parts(float* x, std::int64_t n) {
#pragma omp parallel for schedule(static) if (n > parallel_elements)
  for (std::int64_t i = 0; i < n; ++i) x[i] = from_bf16(to_bf16(x[i]));
}

// What comes here of the part of every rank: `count` elements, `apart` between those of two ranks.
struct arriving {
  std::int64_t count, apart;
  bool in_shots;  // a stretch; else the whole part
};

template <class number>
void move_parts(rank_group& group, const number* own, const rank_sum& of, const arriving& a,
                number* all) {
  const auto bytes = static_cast<std::size_t>(of.bytes());
  if (a.in_shots) {
    group.deal(own, bytes, static_cast<std::size_t>(a.apart) * sizeof(number), all);
  } else {
    group.gather(own, bytes, all);
  }
}

// The same of rounded values, which come in half the bytes.
void move_halves(rank_group& group, const float* own, const rank_sum& of, const arriving& a,
                 float* all) {
  static thread_local scratch mine_memory, all_memory;
  auto* mine = mine_memory.get<std::uint16_t>(of.elements);
  auto* halves = all_memory.get<std::uint16_t>(of.ranks * a.apart);
  for (std::int64_t i = 0; i < of.elements; ++i) mine[i] = to_bf16(own[i]);
  move_parts<std::uint16_t>(group, mine, of, a, halves);
#pragma omp parallel for schedule(static) if (of.ranks * a.count > parallel_elements)
  for (int r = 0; r < of.ranks; ++r) {
    const std::int64_t at = r * a.apart;
    for (std::int64_t i = at; i < at + a.count; ++i) all[i] = from_bf16(halves[i]);
  }
}

// The sum of the one part of every rank.
float* sum_of_ranks(rank_group& group, const float* own, dtype travels, std::int64_t two_shots,
                    std::int64_t n) {
  static thread_local scratch parts_memory, sums_memory;
  const rank_sum of{n, static_cast<std::int64_t>(size_of(travels)), group.size()};
  arriving a{n, n, of.takes_two_shots(two_shots)};
  if (a.in_shots) a = {of.count(group.rank()), of.stretch(), true};
  auto* all = parts_memory.get<float>(of.ranks * a.apart);
  if (travels == dtype::bf16) {
    move_halves(group, own, of, a, all);
  } else {
    move_parts<float>(group, own, of, a, all);
  }
  add_parts(all, of.ranks, a.apart, a.count);
  if (!a.in_shots) return all;
  auto* sums = sums_memory.get<float>(of.ranks * a.apart);
  group.gather(all, static_cast<std::size_t>(a.apart) * sizeof(float), sums);
  return sums;
}

void sum_ranks(const op::sum_ranks& args) {
  check_travels(args);
  const std::int64_t rows = args.y.rows(), width = args.y.columns(), n = rows * width;
  if (n == 0) return;
  auto* sum = args.parts.as<float>();
  const bool halves = args.travels == dtype::bf16;
  if (halves) round_parts(sum, args.parts.rows() * n);
  add_parts(sum, args.parts.rows(), n, n);
  if (args.group != nullptr) {
    sum = sum_of_ranks(*args.group, sum, args.travels, args.two_shots, n);
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
