// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "harness/decode/kernels/features.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/ranks.h"
#include "kernels/reference/backend.h"

namespace unmask {
namespace reference {
namespace {

// index[i] = r with (sequence, position) of rows r and some i equal.
void find_rows(const op::find_rows& args) {
  for (std::int32_t i = 0; i < args.some.rows; ++i) {
    const std::int32_t s = args.some.sequence[i];
    args.index[i] = -1;
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      if (args.rows.position[r] == args.some.position[i]) args.index[i] = r;
    }
    if (args.index[i] < 0) throw std::logic_error("find_rows: a row is not there");
  }
}

// (k[r], v[r]) = or += cache[page_table[s][slot / page], slot % page].
void kv_read(const op::kv_read& args) {
  const auto read = [&](const tensor_view& side, const tensor_view& to) {
    if (to.data == nullptr) return;
    for (std::int32_t r = 0; r < args.rows.rows; ++r) {
      const float* from = slot_row(args.rows, r, args.cache, side);
      for (std::int64_t d = 0; d < to.columns(); ++d) {
        float& value = to.row<float>(r)[d];
        value = args.accumulate ? value + from[d] : from[d];
      }
    }
  };
  read(args.cache.keys, args.k);
  read(args.cache.values, args.v);
}

// flags[s, position] = 1 for the count_s entries of highest score, lowest index first on ties and
// NaN after every number.
void mark_top(const op::mark_top& args) {
  for (std::int32_t s = 0; s < args.some.sequences; ++s) {
    const std::int32_t n = args.some.row_begin[s + 1] - args.some.row_begin[s];
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), args.some.row_begin[s]);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      if (std::isnan(args.score[a]) || std::isnan(args.score[b])) {
        return std::isnan(args.score[b]) && !std::isnan(args.score[a]);
      }
      return args.score[a] > args.score[b];
    });
    for (std::int32_t i = 0; i < n; ++i) {
      args.flags.row<std::uint8_t>(s)[args.some.position[order[i]]] = i < args.count[s] ? 1 : 0;
    }
  }
}

// 1 - sum(a b) / max(|a| |b|, 1e-8).
void row_distance(const op::row_distance& args) {
  std::vector<double> sums(static_cast<std::size_t>(3 * args.a.rows()));
  for (std::int64_t r = 0; args.counts && r < args.a.rows(); ++r) {
    const float* p = args.a.row<float>(r);
    const float* q = args.b.row<float>(r);
    double* of = sums.data() + 3 * r;
    for (std::int64_t c = 0; c < args.a.columns(); ++c) {
      of[0] += double{p[c]} * q[c];
      of[1] += double{p[c]} * p[c];
      of[2] += double{q[c]} * q[c];
    }
  }
  sum_over_ranks(sums.data(), sums.size());
  for (std::int64_t r = 0; r < args.a.rows(); ++r) {
    const double* of = sums.data() + 3 * r;
    const double distance = 1.0 - of[0] / std::max(std::sqrt(of[1]) * std::sqrt(of[2]), 1e-8);
    args.out[r] = args.same > 0 && distance < args.same ? 0.0F : static_cast<float>(distance);
  }
}

}  // namespace

const register_operations<find_rows, kv_read, mark_top, row_distance> registered(target::reference);

}  // namespace reference

namespace cpu {
namespace {

void find_rows(const op::find_rows& args) {
  for (std::int32_t i = 0; i < args.some.rows; ++i) {
    const std::int32_t s = args.some.sequence[i];
    const std::int32_t* first = args.rows.position + args.rows.row_begin[s];
    const std::int32_t* last = args.rows.position + args.rows.row_begin[s + 1];
    const std::int32_t* at = std::lower_bound(first, last, args.some.position[i]);
    if (at == last || *at != args.some.position[i]) {
      throw std::logic_error("find_rows: a row is not there");
    }
    args.index[i] = static_cast<std::int32_t>(at - args.rows.position);
  }
}

void kv_read(const op::kv_read& args) {
  const auto read = [&](const tensor_view& side, const tensor_view& to) {
    if (to.data == nullptr) return;
    const std::int64_t width = to.columns();
    each_slot(args.rows, args.cache, side, [&](std::int32_t r, const float* from) {
      float* row = to.row<float>(r);
      if (args.accumulate) {
        for (std::int64_t d = 0; d < width; ++d) row[d] += from[d];
      } else {
        std::memcpy(row, from, static_cast<std::size_t>(width) * sizeof(float));
      }
    });
  };
  read(args.cache.keys, args.k);
  read(args.cache.values, args.v);
}

void mark_top(const op::mark_top& args) {
  thread_local scratch memory;
  for (std::int32_t s = 0; s < args.some.sequences; ++s) {
    const std::int32_t begin = args.some.row_begin[s], m = args.some.row_begin[s + 1] - begin;
    const std::int32_t n = std::min(args.count[s], m);
    std::uint64_t* key = memory.get<std::uint64_t>(std::int64_t{m});
    std::uint8_t* flag = args.flags.row<std::uint8_t>(s);
    for (std::int32_t i = 0; i < m; ++i) {
      key[i] = rank_key(args.score[begin + i], static_cast<std::uint32_t>(i));
      flag[args.some.position[begin + i]] = 0;
    }
    if (n > 0 && n < m) std::nth_element(key, key + n, key + m);
    for (std::int32_t i = 0; i < n; ++i) {
      flag[args.some
               .position[begin + static_cast<std::int32_t>(static_cast<std::uint32_t>(key[i]))]] =
          1;
    }
  }
}

void row_distance(const backend& cpu, const op::row_distance& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t rows = args.a.rows(), width = args.a.columns();
  static thread_local scratch memory;
  auto* sums = memory.get<double>(3 * rows);
  if (!args.counts) std::fill_n(sums, 3 * rows, 0.0);
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    if (!args.counts) continue;
    kernels.products(args.a.row<float>(r), args.b.row<float>(r), width, sums + 3 * r);
  }
  sum_over_ranks(sums, static_cast<std::size_t>(3 * rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* p = sums + 3 * r;
    const double norms = std::sqrt(p[1]) * std::sqrt(p[2]);
    const double distance = 1.0 - p[0] / std::max(norms, 1e-8);
    args.out[r] = args.same > 0 && distance < args.same ? 0.0F : static_cast<float>(distance);
  }
}

}  // namespace

const register_operations<find_rows, kv_read, mark_top, row_distance> registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
