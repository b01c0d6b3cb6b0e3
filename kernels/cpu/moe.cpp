// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Mixture of experts: routing, and the experts' feed-forward with rows grouped by expert.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_packed.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/moe.h"

namespace unmask::cpu {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Index of the largest of n values, lowest first on ties; -1 when all are -infinity or NaN.
std::int32_t arg_max(const float* value, std::int32_t n) {
  std::int32_t best = -1;
  float largest = minus_infinity;
  for (std::int32_t i = 0; i < n; ++i) {
    if (value[i] > largest) {
      largest = value[i];
      best = i;
    }
  }
  return best;
}

// Experts of one row from its scores; selection [experts] and group [2 groups] are scratch.
void choose(const moe_router& router, const float* score, float* selection, float* group,
            std::int32_t* expert, float* weight) {
  const std::int32_t experts = router.experts, per_group = experts / router.groups;
  const float* bias = router.bias.data != nullptr ? router.bias.as<float>() : nullptr;
  for (std::int32_t e = 0; e < experts; ++e) {
    selection[e] = bias != nullptr ? score[e] + bias[e] : score[e];
  }
  if (router.groups > 1) {
    for (std::int32_t g = 0; g < router.groups; ++g) {
      float first = minus_infinity, second = minus_infinity;
      for (std::int32_t i = 0; i < per_group; ++i) {
        const float s = selection[g * per_group + i];
        if (s > first) {
          second = first;
          first = s;
        } else if (s > second) {
          second = s;
        }
      }
      group[g] = per_group > 1 ? first + second : first;
    }
    float* kept = group + router.groups;
    std::fill(kept, kept + router.groups, 0.0F);
    for (std::int32_t i = 0; i < router.groups_kept; ++i) {
      const std::int32_t g = arg_max(group, router.groups);
      if (g < 0) break;
      kept[g] = 1.0F;
      group[g] = minus_infinity;
    }
    for (std::int32_t e = 0; e < experts; ++e) {
      if (kept[e / per_group] == 0.0F) selection[e] = minus_infinity;
    }
  }
  float total = 0;
  for (std::int32_t i = 0; i < router.experts_per_token; ++i) {
    const std::int32_t e = std::max(arg_max(selection, experts), 0);
    selection[e] = minus_infinity;
    expert[i] = e;
    weight[i] = score[e];
    total += score[e];
  }
  const float factor = router.normalize ? router.scaling / (total + 1e-20F) : router.scaling;
  for (std::int32_t i = 0; i < router.experts_per_token; ++i) weight[i] *= factor;
  if (router.shared > 0) {
    expert[router.experts_per_token] = experts;
    weight[router.experts_per_token] = 1;
  }
}

void softmax(float* x, std::int32_t n) {
  const float largest = *std::max_element(x, x + n);
  double total = 0;
  for (std::int32_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - largest);
    total += double{x[i]};
  }
  for (std::int32_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] / total);
}

void moe_route(const backend& cpu, const op::moe_route& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t rows = args.x.rows(), width = args.x.columns();
  const std::int64_t experts = args.router.experts;
  constexpr std::int64_t task = 8;  // rows per task
  const std::int64_t tasks = (rows + task - 1) / task;
#pragma omp parallel for schedule(dynamic) if (rows * width * experts > 16 * parallel_elements)
  for (std::int64_t t = 0; t < tasks; ++t) {
    thread_local scratch memory;
    float* score = memory.get<float>((task + 1) * experts + 2 * args.router.groups);
    float* selection = score + task * experts;
    const std::int64_t first = t * task, count = std::min(task, rows - first);
    kernels.dots(args.x.row<float>(first), args.x.row_stride, count, args.router.weight.as<float>(),
                 args.router.weight.row_stride, experts, width, score, experts);
    for (std::int64_t i = 0; i < count; ++i) {
      if (args.router.sequence != nullptr && args.router.sequence[first + i] < 0) {
        std::fill_n(args.expert.row<std::int32_t>(first + i), args.expert.columns(), -1);
        std::fill_n(args.weight.row<float>(first + i), args.expert.columns(), 0.0F);
        continue;
      }
      float* s = score + i * experts;
      if (args.router.sigmoid) {
        kernels.sigmoid(s, experts);
      } else {
        softmax(s, args.router.experts);
      }
      choose(args.router, s, selection, selection + experts,
             args.expert.row<std::int32_t>(first + i), args.weight.row<float>(first + i));
    }
  }
}

// Every (row, expert) pair has a place in one long matrix, ordered by expert. Three stages over
// it: gate and up, SwiGLU, down; the first and last are tasks of (expert, range of features).
// Last, each row adds its pairs in the order of its own list.
void moe_feed_forward(const backend& cpu, const op::moe_feed_forward& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t rows = args.x.rows(), width = args.x.columns(), hidden = args.experts.hidden;
  const std::int64_t per_row = args.expert.columns(), pairs = rows * per_row;
  const auto count = static_cast<std::int64_t>(args.experts.gate_up.size());
  if (pairs == 0) return;

  thread_local scratch index_memory, in_memory, middle_memory, active_memory, out_memory;
  // begin [count + 1], place [pairs] of pair (r, i), used [count], next [count]
  std::int64_t* begin = index_memory.get<std::int64_t>(3 * count + 1 + pairs);
  std::int64_t* place = begin + count + 1;
  std::int64_t* used = place + pairs;
  std::int64_t* next = used + count;
  std::fill(begin, begin + count + 1, 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < per_row; ++i) {
      const std::int32_t e = args.expert.row<std::int32_t>(r)[i];
      if (e >= 0) ++begin[e + 1];
    }
  }
  std::int64_t experts_used = 0;
  for (std::int64_t e = 0; e < count; ++e) {
    if (begin[e + 1] > 0) used[experts_used++] = e;
    begin[e + 1] += begin[e];
    next[e] = begin[e];
  }
  if (experts_used == 0) return;
  float* in = in_memory.get<float>(pairs * width);
  float* middle = middle_memory.get<float>(pairs * 2 * hidden);
  float* active = active_memory.get<float>(pairs * hidden);
  float* out = out_memory.get<float>(pairs * width);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < per_row; ++i) {
      const std::int32_t e = args.expert.row<std::int32_t>(r)[i];
      if (e < 0) continue;
      const std::int64_t at = next[e]++;
      place[r * per_row + i] = at;
      std::memcpy(in + at * width, args.x.row<float>(r),
                  static_cast<std::size_t>(width) * sizeof(float));
    }
  }

  // One stage: y = x W_e^T for the rows of every expert used, in tasks of at most `span` features.
  const auto stage = [&](const std::vector<packed_handle>& matrices, const float* from,
                         std::int64_t from_width, float* to, std::int64_t to_width) {
    const std::int64_t panel = panel_width(*matrices[static_cast<std::size_t>(used[0])]);
    const std::int64_t span = std::max<std::int64_t>(1, 512 / panel) * panel;
    const std::int64_t spans = (to_width + span - 1) / span;
    const double flops = 2.0 * static_cast<double>(pairs * from_width * to_width);
    const double bytes = static_cast<double>(experts_used) *
                         static_cast<double>(matrices[static_cast<std::size_t>(used[0])]->bytes);
#pragma omp parallel for schedule(dynamic) if (worth_threads(flops, bytes))
    for (std::int64_t t = 0; t < experts_used * spans; ++t) {
      const std::int64_t e = used[t / spans], n0 = t % spans * span;
      const std::int64_t n1 = std::min(to_width, n0 + span), m = begin[e + 1] - begin[e];
      tensor_view result = make_view(to + begin[e] * to_width + n0, dtype::f32, {m, n1 - n0});
      result.row_stride = to_width;
      linear_columns(
          make_view(const_cast<float*>(from) + begin[e] * from_width, dtype::f32, {m, from_width}),
          *matrices[static_cast<std::size_t>(e)], n0, n1, result);
    }
  };
  stage(args.experts.gate_up, in, width, middle, 2 * hidden);
#pragma omp parallel for schedule(static) if (pairs * hidden > parallel_elements / 4)
  for (std::int64_t p = 0; p < begin[count]; ++p) {
    const float* gate = middle + p * 2 * hidden;
    kernels.silu_mul(gate, gate + hidden, hidden, active + p * hidden);
  }
  stage(args.experts.down, active, hidden, out, width);
#pragma omp parallel for schedule(static) if (pairs * width > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < per_row; ++i) {
      if (args.expert.row<std::int32_t>(r)[i] < 0) continue;
      kernels.add_scaled(args.y.row<float>(r), out + place[r * per_row + i] * width,
                         args.weight.row<float>(r)[i], width);
    }
  }
}

}  // namespace

const register_operations<moe_route, moe_feed_forward> registered(target::cpu);

}  // namespace unmask::cpu
