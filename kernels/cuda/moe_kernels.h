// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Mixture of experts. An assignment a = r * k + i is expert i of row r. A plan kernel sorts the
// assignments by expert on the device; the grouped products then run over tiles of (expert, rows),
// each with its expert's matrix, and write one row per assignment; a last kernel adds a row's
// experts in the order of routing. Where an assignment lands among its expert's rows does not
// change its result, so rows do not depend on the batch.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/gemm_tile.h"
#include "kernels/cuda/moe_tiles.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int route_threads = 256;

struct route_params {
  const void* x;  // [R, width]
  dtype x_type;
  std::int64_t x_stride;
  int width;
  const float* weight;  // [experts, width]
  std::int64_t weight_stride;
  const float* bias;  // [experts] or null
  int experts, per_token, shared, groups, groups_kept;
  float scaling;
  bool sigmoid, normalize;
  const std::int32_t* sequence;  // [R] or null; negative: a padding row
  std::int32_t* expert;          // [R, per_token + shared]
  std::int64_t expert_stride;
  float* out;  // [R, per_token + shared]
  std::int64_t out_stride;
  int rows;
  const float* logit;  // [R, 2, experts], of the two parts, or null: the kernel computes them
};

// Shared memory of one row that is routed.
struct route_room {
  shared_array<float> score, selection;  // [experts]: what weights are made of; what is compared
  shared_array<float> group;             // [groups]
};

UNMASK_DEVICE route_room take_route_room(shared_allocator& shared, const route_params& p) {
  return {shared.take<float>(p.experts), shared.take<float>(p.experts),
          shared.take<float>(p.groups)};
}

// A padding row takes no expert. True if it was one.
UNMASK_DEVICE bool routed_nowhere(const route_params& p, std::int64_t r) {
  if (p.sequence == nullptr || p.sequence[r] >= 0) return false;
  for (int i = lane_index(); i < p.per_token + p.shared; i += warp_size) {
    p.expert[r * p.expert_stride + i] = -1;
    p.out[r * p.out_stride + i] = 0;
  }
  return true;
}

// The score of a logit; softmax is finished by route_row.
UNMASK_DEVICE float route_score(const route_params& p, float logit) {
  return p.sigmoid ? 1.0F / (1.0F + expf(-logit)) : logit;
}

// Scores as softmax has them, and with the bias what experts are chosen by. The work of one warp, as
// what follows.
UNMASK_DEVICE void finish_scores(const route_params& p, const route_room& room) {
  const shared_array<float> score = room.score, selection = room.selection;
  const int lane = lane_index();
  if (!p.sigmoid) {
    float top = -INFINITY, total = 0;
    for (int e = lane; e < p.experts; e += warp_size) top = score[e] > top ? score[e] : top;
    top = warp_max(top);
    for (int e = lane; e < p.experts; e += warp_size) {
      score[e] = expf(score[e] - top);
      total += score[e];
    }
    total = warp_sum(total);
    for (int e = lane; e < p.experts; e += warp_size) score[e] /= total;
  }
  for (int e = lane; e < p.experts; e += warp_size) {
    selection[e] = score[e] + (p.bias != nullptr ? p.bias[e] : 0.0F);
  }
  sync_warp();
}

// Leaves only the experts of the best groups, by the sum of their two best.
UNMASK_DEVICE void keep_best_groups(const route_params& p, const route_room& room) {
  const shared_array<float> selection = room.selection, group_score = room.group;
  const int lane = lane_index();
  const int size = p.experts / p.groups;
  for (int g = lane; g < p.groups; g += warp_size) {
    float first = -INFINITY, second = -INFINITY;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      const float v = selection[e];
      if (v > first) {
        second = first;
        first = v;
      } else if (v > second) {
        second = v;
      }
    }
    group_score[g] = first + (size > 1 ? second : 0.0F);
  }
  sync_warp();
  for (int g = lane; g < p.groups; g += warp_size) {
    int better = 0;
    for (int other = 0; other < p.groups; ++other) {
      better += group_score[other] > group_score[g] ||
                (group_score[other] == group_score[g] && other < g);
    }
    if (better < p.groups_kept) continue;
    for (int e = g * size; e < (g + 1) * size; ++e) selection[e] = -INFINITY;
  }
  sync_warp();
}

// As reference::moe_route from room.score on: the best groups, then the best experts; ties go to
// the lowest index. The work of one warp.
UNMASK_DEVICE void route_row(const route_params& p, std::int64_t r, const route_room& room) {
  const shared_array<float> score = room.score, selection = room.selection;
  const int lane = lane_index();
  finish_scores(p, room);
  if (p.groups > 1) keep_best_groups(p, room);
  float total = 1e-20F;
  for (int i = 0; i < p.per_token; ++i) {
    float best = -INFINITY;
    int chosen = 0x7FFFFFFF;
    for (int e = lane; e < p.experts; e += warp_size) {
      const float v = selection[e];
      if (v == v && (chosen == 0x7FFFFFFF || v > best)) {
        best = v;
        chosen = e;
      }
    }
#pragma unroll
    for (int mask = warp_size / 2; mask > 0; mask /= 2) {
      const float v = shuffle_xor(best, mask);
      const int e = shuffle_xor(chosen, mask);
      if (e != 0x7FFFFFFF && (chosen == 0x7FFFFFFF || v > best || (v == best && e < chosen))) {
        best = v;
        chosen = e;
      }
    }
    if (chosen == 0x7FFFFFFF) chosen = i;  // only NaN left
    sync_warp();                           // all have read what is marked now
    if (lane == 0) {
      p.expert[r * p.expert_stride + i] = chosen;
      selection[chosen] = float_bits(0x7FC00000U);  // taken
    }
    total += score[chosen];
    sync_warp();
  }
  for (int i = lane; i < p.per_token; i += warp_size) {
    const float s = score[p.expert[r * p.expert_stride + i]];
    p.out[r * p.out_stride + i] = (p.normalize ? s / total : s) * p.scaling;
  }
  if (p.shared > 0 && lane == 0) {
    p.expert[r * p.expert_stride + p.per_token] = p.experts;
    p.out[r * p.out_stride + p.per_token] = 1;
  }
}

// Scores of all experts on CUDA cores, then the choice. One block per row.
UNMASK_KERNEL void UNMASK_THREADS(route_threads) moe_route_kernel(route_params p) {
  shared_allocator shared;
  const route_room room = take_route_room(shared, p);
  const std::int64_t r = block_index();
  if (p.sequence != nullptr && p.sequence[r] < 0) {
    if (warp_index() == 0) routed_nowhere(p, r);
    return;
  }
  for (int e = warp_index(); e < p.experts; e += route_threads / warp_size) {
    const float* w = p.weight + e * p.weight_stride;
    float sum = 0;
    for (int d = lane_index(); d < p.width; d += warp_size) {
      sum = fused_multiply_add(load_float(p.x, p.x_type, r * p.x_stride + d), w[d], sum);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) room.score[e] = route_score(p, sum);
  }
  sync_block();
  if (warp_index() == 0) route_row(p, r, room);
}

constexpr int choose_threads = 128;

// The choice from logits that matrix products made. One warp per row.
UNMASK_KERNEL void UNMASK_THREADS(choose_threads) moe_choose_kernel(route_params p) {
  shared_allocator shared;
  route_room room = take_route_room(shared, p);
  for (int w = 0; w < warp_index(); ++w) room = take_route_room(shared, p);
  const std::int64_t r = block_index() * (choose_threads / warp_size) + warp_index();
  if (r >= p.rows || routed_nowhere(p, r)) return;
  for (int e = lane_index(); e < p.experts; e += warp_size) {
    const float* logit = p.logit + r * 2 * p.experts + e;
    room.score[e] = route_score(p, logit[0] + logit[p.experts]);
  }
  sync_warp();
  route_row(p, r, room);
}

struct held_params {
  const std::int32_t* expert;  // [rows, per_token]
  std::int64_t expert_stride;
  std::int32_t first, last;
  std::int32_t* to;  // [rows, per_token]
  std::int64_t to_stride;
  int rows, per_token;
};

// The choices that are experts of this rank, by their numbers here.
UNMASK_KERNEL void moe_held_kernel(held_params p) {
  const int i = static_cast<int>(block_index()) * row_threads + static_cast<int>(thread_index());
  if (i >= p.rows * p.per_token) return;
  const int r = i / p.per_token, place = i % p.per_token;
  const std::int32_t e = p.expert[r * p.expert_stride + place];
  p.to[r * p.to_stride + place] = e >= p.first && e < p.last ? e - p.first : -1;
}

struct routed_plan {
  std::int32_t* assignment;  // [R k] sorted by expert
  std::int32_t* begin;       // [experts + 1] into assignment
  std::int32_t* tile_begin;  // [experts + 1] tiles before an expert
  int tile_rows = routed_rows;
};

struct plan_params {
  const std::int32_t* expert;  // [R, k]
  std::int64_t expert_stride;
  int rows, per_token, experts;
  routed_plan plan;
  std::int32_t* next;  // [experts] scratch
};

constexpr std::size_t plan_shared_bytes(int experts) {
  return (static_cast<std::size_t>(experts) + 3) / 4 * 16 + 64;
}
constexpr int plan_share = 1024;  // assignments of one block

// f(assignment, expert) for the assignments of this block that have one.
template <class F>
UNMASK_DEVICE void for_each_assignment(const plan_params& p, const F& f) {
  const int first = static_cast<int>(block_index()) * plan_share, all = p.rows * p.per_token;
  const int last = first + plan_share < all ? first + plan_share : all;
  int row = (first + static_cast<int>(thread_index())) / p.per_token;
  int place = (first + static_cast<int>(thread_index())) % p.per_token;
  const int rows = route_threads / p.per_token, places = route_threads % p.per_token;
  for (int a = first + static_cast<int>(thread_index()); a < last; a += route_threads) {
    const std::int32_t e = p.expert[row * p.expert_stride + place];
    if (e >= 0) f(a, e);
    row += rows;
    place += places;
    if (place >= p.per_token) {
      place -= p.per_token;
      ++row;
    }
  }
}

// How many assignments of this block's share each expert has.
UNMASK_DEVICE void count_share(const plan_params& p, const shared_array<std::int32_t>& count) {
  for (int e = static_cast<int>(thread_index()); e < p.experts; e += route_threads) count[e] = 0;
  sync_block();
  for_each_assignment(p, [&](int, std::int32_t e) { atomic_add(&count[e], 1); });
  sync_block();
}

// Adds to next[e], zero before.
UNMASK_KERNEL void UNMASK_THREADS(route_threads) moe_count_kernel(plan_params p) {
  shared_allocator shared;
  const shared_array<std::int32_t> count = shared.take<std::int32_t>(p.experts);
  count_share(p, count);
  for (int e = static_cast<int>(thread_index()); e < p.experts; e += route_threads) {
    if (count[e] > 0) atomic_add(p.next + e, count[e]);
  }
}

// One block: prefix sums over the experts, of which expert e has count(e) assignments;
// starts(e, first) is told where they begin.
template <class F, class G>
UNMASK_DEVICE void plan_experts(const plan_params& p, const shared_array<std::int32_t>& scratch,
                                const F& count, const G& starts) {
  const int t = static_cast<int>(thread_index());
  std::int32_t rows_before = 0, tiles_before = 0;
  for (int first = 0; first < p.experts; first += route_threads) {
    const int e = first + t;
    const std::int32_t n = e < p.experts ? count(e) : 0;
    std::int32_t total = 0;
    const std::int32_t rows_end = block_scan(n, scratch, &total);
    sync_block();
    std::int32_t tiles_total = 0;
    const std::int32_t tiles_end =
        block_scan((n + p.plan.tile_rows - 1) / p.plan.tile_rows, scratch, &tiles_total);
    sync_block();
    if (e < p.experts) {
      p.plan.begin[e + 1] = rows_before + rows_end;
      p.plan.tile_begin[e + 1] = tiles_before + tiles_end;
      starts(e, rows_before + rows_end - n);
    }
    rows_before += total;
    tiles_before += tiles_total;
  }
  if (t == 0) p.plan.begin[0] = p.plan.tile_begin[0] = 0;
}

UNMASK_KERNEL void UNMASK_THREADS(route_threads) moe_plan_kernel(plan_params p) {
  shared_allocator shared;
  const shared_array<std::int32_t> scratch = shared.take<std::int32_t>(route_threads / warp_size);
  plan_experts(
      p, scratch, [&](int e) { return p.next[e]; },
      [&](int e, std::int32_t first) { p.next[e] = first; });
}

// The places that the counts have become are handed out.
UNMASK_DEVICE void place_share(const plan_params& p, const shared_array<std::int32_t>& next) {
  sync_block();
  for_each_assignment(
      p, [&](int a, std::int32_t e) { p.plan.assignment[atomic_add(&next[e], 1)] = a; });
}

// The whole plan where one block's share is all there is.
UNMASK_KERNEL void UNMASK_THREADS(route_threads) moe_plan_few_kernel(plan_params p) {
  shared_allocator shared;
  const shared_array<std::int32_t> count = shared.take<std::int32_t>(p.experts);
  const shared_array<std::int32_t> scratch = shared.take<std::int32_t>(route_threads / warp_size);
  count_share(p, count);
  plan_experts(
      p, scratch, [&](int e) { return count[e]; },
      [&](int e, std::int32_t first) { count[e] = first; });
  place_share(p, count);
}

// A block takes places for its share of every expert's assignments, then hands them out.
UNMASK_KERNEL void UNMASK_THREADS(route_threads) moe_place_kernel(plan_params p) {
  shared_allocator shared;
  const shared_array<std::int32_t> count = shared.take<std::int32_t>(p.experts);
  count_share(p, count);
  for (int e = static_cast<int>(thread_index()); e < p.experts; e += route_threads) {
    if (count[e] > 0) count[e] = atomic_add(p.next + e, count[e]);
  }
  place_share(p, count);
}

// The expert whose tile this is: the last one with tile_begin <= tile.
UNMASK_DEVICE int expert_of_tile(const routed_plan& plan, int experts, std::int32_t tile) {
  int low = 0, high = experts - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (plan.tile_begin[middle] <= tile) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

struct grouped_params {
  routed_plan plan;
  int experts;
  const void* const* weight;  // [experts] matrices [columns, depth]
  const float* x;             // row a / divide for assignment a
  std::int64_t x_stride;
  int divide;
  float* y;  // [R k, columns]
  int columns, depth;
};

// y[a] = x[a / divide] W_e^T. Blocks: tiles of columns x a walk over the tiles of rows.
template <class weight_type>
UNMASK_KERNEL void UNMASK_THREADS(gemm_threads) grouped_gemm_kernel(grouped_params p) {
  const int first_column = static_cast<int>(block_index()) * gemm_columns;
  const std::int32_t tiles = p.plan.tile_begin[p.experts];
  for (std::int32_t tile = static_cast<std::int32_t>(block_index_y()); tile < tiles;
       tile += static_cast<std::int32_t>(grid_size_y())) {
    const int low = expert_of_tile(p.plan, p.experts, tile);
    const int first = p.plan.begin[low] + (tile - p.plan.tile_begin[low]) * routed_rows;
    const int last = p.plan.begin[low + 1];
    const auto row_of = [&](int m) -> const float* {
      if (first + m >= last) return nullptr;
      return p.x + static_cast<std::int64_t>(p.plan.assignment[first + m] / p.divide) * p.x_stride;
    };
    float sum[4][4];
    gemm_tile<4>(row_of,
                 static_cast<const weight_type*>(p.weight[low]) +
                     static_cast<std::int64_t>(first_column) * p.depth,
                 p.columns - first_column, p.depth, sum);
    const int t = static_cast<int>(thread_index());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = first + t / 16 * 4 + i;
      if (m >= last) continue;
      float* y = p.y + static_cast<std::int64_t>(p.plan.assignment[m]) * p.columns;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int n = first_column + t % 16 * 4 + j;
        if (n < p.columns) y[n] = sum[i][j];
      }
    }
  }
}

struct combine_params {
  const void* down;            // [R k, width]
  dtype down_type;             // in_groups(4) where it is bfloat16
  const std::int32_t* expert;  // [R, k]; negative: nothing was computed
  std::int64_t expert_stride;
  const float* weight;  // [R, k]
  std::int64_t weight_stride;
  int per_token, width;
  float* y;  // [R, width]
  std::int64_t y_stride;
  bool quads;  // in_groups(4): down and y
};

// y[r] += sum_i weight[r, i] down[r k + i].
UNMASK_KERNEL void moe_combine_kernel(combine_params p) {
  const std::int64_t r = block_index();
  if (p.quads) {
    for (int d = 4 * static_cast<int>(thread_index()); d < p.width; d += 4 * row_threads) {
      float_quad sum = load_quad(p.y, dtype::f32, r * p.y_stride + d);
      for (int i = 0; i < p.per_token; ++i) {
        if (p.expert[r * p.expert_stride + i] < 0) continue;
        const float w = p.weight[r * p.weight_stride + i];
        const float_quad x = load_quad(p.down, p.down_type, (r * p.per_token + i) * p.width + d);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum.x[e] += w * x.x[e];
      }
      store_quad(p.y, dtype::f32, r * p.y_stride + d, sum);
    }
    return;
  }
  for (int d = static_cast<int>(thread_index()); d < p.width; d += row_threads) {
    float sum = p.y[r * p.y_stride + d];
    for (int i = 0; i < p.per_token; ++i) {
      if (p.expert[r * p.expert_stride + i] < 0) continue;
      sum += p.weight[r * p.weight_stride + i] *
             load_float(p.down, p.down_type, (r * p.per_token + i) * p.width + d);
    }
    p.y[r * p.y_stride + d] = sum;
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
