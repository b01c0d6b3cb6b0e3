// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The work list of attention on tensor cores (attention_tensor_kernels.h): how rows and keys are cut into
// items, and how the parts of rows whose keys were cut are merged.
#pragma once

#include "kernels/cuda/attention_params.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int tensor_keys = 64;  // keys per tile, one page when keys are not listed
static_assert(tensor_keys == kv_page_size && attention_chunk % tensor_keys == 0);

// The work list: item_begin, and how the keys of each sequence are split. One block. The work of a
// batch is its tiles of rows times tiles of keys; a sequence whose keys are more than an even share
// of it is cut into pieces of about that share, so that a long context does not run alone at the
// end, and few sequences fill the device. An item's keys are never fewer than 512 for that.
UNMASK_KERNEL void tensor_plan_kernel(attention_params p) {
  shared_allocator shared;
  const auto sums = shared.take<std::int64_t>(plan_threads / warp_size);
  const auto scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const auto parts_scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const int group = p.heads / p.kv_heads, t = static_cast<int>(thread_index());
  const auto row_tiles = [&](int s) {
    const int packed = (p.row_begin[s + 1] - p.row_begin[s]) * group;
    return (packed + p.tile_rows - 1) / p.tile_rows * p.kv_heads;
  };
  std::int64_t work = 0;
  for (int s = t; s < p.sequences; s += plan_threads) {
    p.keys_of[s] = given_key_count(p, s);
    p.keys_from[s] = p.key_begin != nullptr ? p.key_begin[s] : 0;
    work +=
        static_cast<std::int64_t>(row_tiles(s)) * ((p.keys_of[s] + tensor_keys - 1) / tensor_keys);
  }
  work = block_sum(work, sums);
  constexpr int least = attention_chunk / tensor_keys;
  const std::int64_t even = (work + p.even_share - 1) / p.even_share;
  const std::int64_t share = even > least ? even : least;  // tiles of keys
  std::int32_t before = 0, parts_before = 0;
  for (int first = 0; first < p.sequences; first += plan_threads) {
    const int s = first + t;
    std::int32_t items = 0, splits = 1;
    if (s < p.sequences) {
      const int tiles = (p.keys_of[s] + tensor_keys - 1) / tensor_keys;
      if (p.most_parts > 0 && tiles > share) {
        splits = static_cast<std::int32_t>((tiles + share - 1) / share);
      }
      p.splits_of[s] = splits;
      p.split_keys[s] = ((tiles > 0 ? tiles : 1) + splits - 1) / splits * tensor_keys;
      items = row_tiles(s) * splits;
    }
    std::int32_t total = 0, parts = 0;
    const std::int32_t end = block_scan(items, scratch, &total);
    const std::int32_t parts_end = block_scan(splits > 1 ? items : 0, parts_scratch, &parts);
    if (s < p.sequences) {
      p.item_begin[s + 1] = before + end;
      p.part_begin[s + 1] = parts_before + parts_end;
    }
    before += total;
    parts_before += parts;
    sync_block();
  }
  if (t == 0) p.item_begin[0] = p.part_begin[0] = 0;
}

// Merges the splits of sequences that had several. One warp per (row, head), four elements a lane.
template <int dim>
UNMASK_KERNEL void UNMASK_THREADS(plan_threads) tensor_merge_kernel(attention_params p) {
  constexpr int per = dim / warp_size;
  const int rows = p.row_begin[p.sequences], group = p.heads / p.kv_heads, lane = lane_index();
  const int step = static_cast<int>(grid_size()) * (plan_threads / warp_size);
  for (std::int64_t at = block_index() * (plan_threads / warp_size) + warp_index();
       at < static_cast<std::int64_t>(rows) * p.heads; at += step) {
    const std::int64_t row = at / p.heads;
    const int h = static_cast<int>(at % p.heads);
    const int s = sequence_of(p.row_begin, p.sequences, static_cast<std::int32_t>(row));
    const int splits = p.splits_of[s];
    if (splits == 1) continue;
    const int packed = static_cast<int>(row - p.row_begin[s]) * group + h % group;
    const std::int64_t first =
        p.part_begin[s] +
        (static_cast<std::int64_t>(packed / p.tile_rows) * p.kv_heads + h / group) * splits;
    const auto part = [&](int split) {
      return p.partial + ((first + split) * p.tile_rows + packed % p.tile_rows) * (dim + 2);
    };
    float top = -INFINITY, sum = 0, total[per] = {};
    for (int split = 0; split < splits; ++split) top = fmaxf(top, part(split)[dim]);
    const float base = top == -INFINITY ? 0.0F : top;
    for (int split = 0; split < splits; ++split) {
      const float* from = part(split);
      const float scale = expf(from[dim] - base);
      sum = fused_multiply_add(from[dim + 1], scale, sum);
#pragma unroll
      for (int d = 0; d < per; d += 2) {
        const float_pair x = load_pair(from, dtype::f32, lane * 2 + d * warp_size);
        total[d] = fused_multiply_add(x.a, scale, total[d]);
        total[d + 1] = fused_multiply_add(x.b, scale, total[d + 1]);
      }
    }
    const float factor = sum == 0 ? 0.0F : 1.0F / sum;
    const std::int64_t to = row * p.out_stride + static_cast<std::int64_t>(h) * dim;
#pragma unroll
    for (int d = 0; d < per; d += 2) {
      store_pair(p.out, p.out_type, to + lane * 2 + d * warp_size, total[d] * factor,
                 total[d + 1] * factor);
    }
    if (p.softmax != nullptr && lane == 0) {
      p.softmax[at * 2] = top;
      p.softmax[at * 2 + 1] = sum;
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
