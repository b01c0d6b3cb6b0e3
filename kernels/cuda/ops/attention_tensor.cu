// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/attention_tensor_kernels.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/score_tile.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int sparse_rows = 64;  // of an item under a block mask

bool can_use_tensor_cores(const attention_params& p) {
  const auto aligned = [](const cache_side& side) {
    return side.type == dtype::bf16 && reinterpret_cast<std::uintptr_t>(side.data) % 16 == 0 &&
           side.page_stride % 8 == 0;
  };
  const bool pairs = p.out_stride % 2 == 0 &&
                     reinterpret_cast<std::uintptr_t>(p.out) % (2 * size_of(p.out_type)) == 0;
  const bool pieces = p.q_type == dtype::f32 ||
                      (p.q_stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(p.q) % 16 == 0);
  return pairs && pieces && (p.dim == 64 || p.dim == 128) && aligned(p.keys) && aligned(p.values) &&
         (p.tiles.keep == nullptr || p.tiles.size % 8 == 0);
}

namespace {

template <int dim, int warps, int row_tiles, bool groups = false>
void launch_rows(queue& q, const attention_params& p, unsigned blocks) {
  q.launch(groups ? "attention_tensor: groups" : "attention_tensor",
           {blocks, static_cast<unsigned>(warps * warp_size),
            tensor_shared_bytes(dim, warps * row_tiles * 16, tensor_stages)},
           attention_tensor_kernel<dim, warps, tensor_stages, row_tiles, false, groups>, p);
}

template <int dim>
void launch_dim(const device_backend& device, const attention_params& p, unsigned blocks) {
  queue& q = device.work();
  if (p.tiles.keep != nullptr) {
    q.launch("attention_tensor: sparse",
             {blocks, sparse_rows / 16 * warp_size,
              tensor_shared_bytes(dim, sparse_rows, tensor_stages)},
             attention_tensor_kernel<dim, sparse_rows / 16, tensor_stages, 1, true>, p);
    return;
  }
  if (p.tile_rows == 16) launch_rows<dim, 1, 1>(q, p, blocks);
  if (p.tile_rows == 32) launch_rows<dim, 2, 1>(q, p, blocks);
  if (p.tile_rows == 64) launch_rows<dim, 4, 1>(q, p, blocks);
  if (p.tile_rows != 128) return;
  if constexpr (dim == 128) {
    static const bool has_wgmma =
        queue::has_wgmma(attention_tensor_kernel<dim, 8, tensor_stages, 1, false, true>);
    if (has_wgmma && p.key_begin == nullptr &&
        device.may_multiply(multiplied::attention, multiplier::wgmma))
      return launch_rows<dim, 8, 1, true>(q, p, blocks);
  }
  launch_rows<dim, 4, 2>(q, p, blocks);
}

void launch_key_mass(queue& q, const attention_params& p) {
  constexpr unsigned pieces = 256;  // tiles of 64 keys
  const auto launch = [&](auto kernel) {
    q.launch("key_mass_tensor",
             {static_cast<unsigned>(p.sequences), score_threads,
              score_shared_bytes(p.dim) + column_shared_bytes, pieces},
             kernel, p);
  };
  p.dim == 64 ? launch(key_mass_tensor_kernel<64>) : launch(key_mass_tensor_kernel<128>);
}

// Places for the work list in one piece of scratch memory, with tickets if blocks draw them.
void place_plan(queue& q, attention_params& p, std::int64_t tiles, bool joined) {
  constexpr std::int64_t ints = sizeof(attention_ticket) / sizeof(std::int32_t), drawn = 4;
  const std::int64_t lists = (std::int64_t{p.sequences} * 7 + 3 + drawn - 1) / drawn * drawn;
  const std::int64_t most = p.most_parts, counts = drawn + (most + drawn - 1) / drawn * drawn;
  // A tile whose keys are cut has two parts or more.
  const std::int64_t tickets = tiles + most + most / 2 * merging_shares;
  p.item_begin = q.scratch<std::int32_t>(scratch_slot::attention_plan,
                                         lists + (joined ? counts + tickets * ints : 0));
  p.keys_of = p.item_begin + p.sequences + 1;
  p.keys_from = p.keys_of + p.sequences;
  p.splits_of = p.keys_from + p.sequences;
  p.split_keys = p.splits_of + p.sequences;
  p.part_begin = p.split_keys + p.sequences;
  if (!joined) return;
  p.tile_begin = p.part_begin + p.sequences + 1;
  p.drawn = p.item_begin + lists;
  p.done = p.drawn + drawn;
  p.tickets = reinterpret_cast<attention_ticket*>(p.drawn + counts);
}

}  // namespace

void launch_tensor_attention(const device_backend& device, attention_params p,
                             std::int64_t packed_rows, std::int64_t most_keys) {
  queue& q = device.work();
  if (p.q_type == dtype::f32) {
    const std::int64_t width = std::int64_t{p.heads} * p.dim;
    p.q = device.as_bf16(p.q, p.q_type, p.q_stride, nullptr, packed_rows / (p.heads / p.kv_heads),
                         width);
    p.q_stride = width;
  }
  p.scale_log2 = p.scale * 1.4426950408889634F;
  p.tile_rows = p.tiles.keep != nullptr ? sparse_rows
                                        : tensor_tile_rows(blocks_for(packed_rows, p.sequences));
  const std::int64_t tiles =
      (blocks_for(packed_rows, p.tile_rows) + p.sequences) * std::int64_t{p.kv_heads};
  const bool refresh = takes_refresh_attention(device, p, packed_rows);
  if (!refresh && takes_cluster_attention(device, p, packed_rows, most_keys)) {
    return launch_cluster_attention(device, p, packed_rows);
  }
  const bool joined = !refresh && takes_joined_attention(device, p);
  p.rows_fastest = refresh;
  p.places =
      q.multiprocessors() * (refresh ? 1 : tensor_blocks(p.dim, p.tile_rows, q.shared_bytes()));
  // A sequence that is cut has more keys than a share of even_share, so its items are fewer than two for
  // each share that it has: the bound of most_parts.
  p.even_share = std::int64_t{q.multiprocessors()} * 4;
  // Nobody's keys are cut below a piece: then there is nothing to merge.
  p.least_piece = joined ? joined_piece : least_piece;
  p.most_parts = most_keys > p.least_piece * tensor_keys ? static_cast<int>(2 * p.even_share) : 0;
  place_plan(q, p, tiles, joined);
  p.partial = q.scratch<float>(scratch_slot::attention_partial,
                               std::int64_t{p.most_parts} * p.tile_rows * (p.dim + 2));
  if (!q.has_plan(attention_plan_key(p))) {
    q.launch("attention_plan", {1, plan_threads, tensor_plan_shared_bytes}, tensor_plan_kernel, p);
  }
  const auto blocks = static_cast<unsigned>(std::min(tiles + p.most_parts, 2 * p.even_share));
  if (joined) {
    launch_joined_attention(device, p, std::min(blocks, static_cast<unsigned>(p.places)));
    if (p.key_mass != nullptr) launch_key_mass(q, p);
    return;
  }
  if (refresh) {
    launch_refresh_attention(device, p, blocks);
  } else {
    p.dim == 64 ? launch_dim<64>(device, p, blocks) : launch_dim<128>(device, p, blocks);
  }
  const std::int64_t rows = packed_rows / (p.heads / p.kv_heads);
  const grid_shape merge{static_cast<unsigned>(std::min<std::int64_t>(
                             blocks_for(rows * p.heads, plan_threads / warp_size),
                             merge_blocks * q.multiprocessors())),
                         plan_threads};
  if (p.most_parts > 0) {
    q.launch("attention_merge", merge,
             p.dim == 64 ? tensor_merge_kernel<64> : tensor_merge_kernel<128>, p);
  }
  if (p.key_mass != nullptr) launch_key_mass(q, p);
}

}  // namespace unmask::cuda::UNMASK_TARGET
