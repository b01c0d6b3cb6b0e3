// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

template <int dims>
void launch_merge(queue& q, const attention_params& p, std::int64_t rows) {
  q.launch("attention_merge", {blocks_for(rows * p.heads, attention_warps), attention_threads},
           attention_merge_kernel<dims>, p);
}

template <int dims>
void launch_attention(queue& q, const attention_params& p, std::int64_t rows, unsigned blocks) {
  q.launch("attention", {blocks, attention_threads, attention_shared_bytes(p.dim)},
           attention_kernel<dims>, p);
  if (p.max_splits > 1) launch_merge<dims>(q, p, rows);
}

}  // namespace

void device_ops::attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                           const key_set& keys, float scale, const tensor_view& out,
                           const tensor_view& key_mass) const {
  if (keys.tiles.keep != nullptr && (keys.key_begin != nullptr || key_mass.data != nullptr)) {
    throw std::logic_error("attention: a block mask goes with neither a key list nor key_mass");
  }
  if (rows.rows == 0) return;
  attention_params p{};
  p.q = q.as<float>();
  p.q_stride = q.row_stride;
  p.out = out.data;
  p.out_type = out.type;
  p.out_stride = out.row_stride;
  p.row_begin = rows.row_begin;
  p.position = rows.position;
  p.sequences = rows.sequences;
  p.heads = static_cast<int>(q.shape[1]);
  p.kv_heads = static_cast<int>(cache.keys.shape[2]);
  p.dim = static_cast<int>(q.shape[2]);
  p.scale = scale;
  p.keys = side_of(cache.keys);
  p.values = side_of(cache.values);
  p.place = {cache.page_table, cache.table_stride};
  p.kv_length = keys.kv_length;
  p.key_begin = keys.key_begin;
  p.key_slot = keys.key_slot;
  p.mask = keys.mask;
  p.mask_block = keys.block;
  p.tiles = keys.tiles;
  if (p.dim > 256) throw std::logic_error("attention: heads of more than 256 elements");

  // The host knows neither the rows nor the keys of a sequence, only their bounds. Splitting pays
  // when there are fewer items than a wave of blocks; it never changes a result.
  const std::int64_t packed = std::int64_t{rows.rows} * (p.heads / p.kv_heads);
  if (key_mass.data != nullptr) p.key_mass = key_mass.as<float>();
  const bool tensor = can_use_tensor_cores(p);
  p.tile_rows = tensor ? tensor_tile_rows(packed, rows.sequences) : attention_rows;
  const std::int64_t tiles =
      (blocks_for(packed, p.tile_rows) + rows.sequences) * std::int64_t{p.kv_heads};
  const std::int64_t wave = std::int64_t{queue_.multiprocessors()} * 4;
  const auto chunks = static_cast<int>(
      blocks_for(std::int64_t{cache.table_stride} * kv_page_size, attention_chunk));
  p.max_splits = tiles < wave ? std::max(1, chunks) : 1;
  p.item_begin = queue_.scratch<std::int32_t>(scratch_slot::attention_plan,
                                              std::int64_t{rows.sequences} * 3 + 1);
  p.keys_of = p.item_begin + rows.sequences + 1;
  p.keys_from = p.keys_of + rows.sequences;
  const std::int64_t row_heads = std::int64_t{rows.rows} * p.heads;
  if (p.max_splits > 1) {
    p.partial = queue_.scratch<float>(scratch_slot::attention_partial,
                                      row_heads * p.max_splits * (p.dim + 2));
  }
  if (key_mass.data != nullptr) {
    p.softmax = queue_.scratch<float>(scratch_slot::attention_lse, row_heads * 2);
  }
  queue_.launch("attention_plan",
                {1, plan_threads, plan_threads / warp_size * sizeof(std::int32_t)},
                attention_plan_kernel, p);
  const auto blocks =
      static_cast<unsigned>(std::min(tiles * p.max_splits, wave * (p.max_splits > 1 ? 4 : 2)));
  if (tensor) {
    launch_tensor_attention(queue_, p, blocks);
    if (p.max_splits > 1) {
      launch_merge<4>(queue_, p, rows.rows);  // holds up to 128 elements of a head
    }
  } else if (p.dim <= 32) {
    launch_attention<1>(queue_, p, rows.rows, blocks);
  } else if (p.dim <= 64) {
    launch_attention<2>(queue_, p, rows.rows, blocks);
  } else if (p.dim <= 128) {
    launch_attention<4>(queue_, p, rows.rows, blocks);
  } else {
    launch_attention<8>(queue_, p, rows.rows, blocks);
  }
  if (p.key_mass != nullptr) {
    constexpr unsigned pieces = 32;
    queue_.launch(
        "key_mass",
        {blocks_for(rows.sequences, 1), attention_threads, key_mass_shared_bytes(p.dim), pieces},
        key_mass_kernel, p);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
