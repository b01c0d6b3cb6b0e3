// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/attention.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/device_backend.h"

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

// The host knows neither the rows nor the keys of a sequence, only their bounds. Splitting pays when
// there are fewer items than a wave of blocks; it never changes a result.
void launch_exact_attention(const device_backend& device, attention_params p, std::int64_t packed,
                            std::int64_t most_keys) {
  queue& work = device.work();
  const std::int64_t rows = packed / (p.heads / p.kv_heads);
  if (p.q_type == dtype::bf16) {
    p.q = device.as_f32(p.q, p.q_stride, rows, std::int64_t{p.heads} * p.dim);
    p.q_stride = std::int64_t{p.heads} * p.dim;
  }
  p.tile_rows = attention_rows;
  const std::int64_t tiles =
      (blocks_for(packed, p.tile_rows) + p.sequences) * std::int64_t{p.kv_heads};
  const std::int64_t wave = std::int64_t{work.multiprocessors()} * 4;
  const auto chunks = static_cast<int>(blocks_for(most_keys, attention_chunk));
  p.max_splits = tiles < wave ? std::max(1, chunks) : 1;
  p.item_begin =
      work.scratch<std::int32_t>(scratch_slot::attention_plan, std::int64_t{p.sequences} * 3 + 1);
  p.keys_of = p.item_begin + p.sequences + 1;
  p.keys_from = p.keys_of + p.sequences;
  if (p.max_splits > 1) {
    p.partial = work.scratch<float>(scratch_slot::attention_partial,
                                    rows * p.heads * p.max_splits * (p.dim + 2));
  }
  if (!work.has_plan(attention_plan_key(p))) {
    work.launch("attention_plan",
                {1, plan_threads, plan_threads / warp_size * sizeof(std::int32_t)},
                attention_plan_kernel, p);
  }
  const auto blocks =
      static_cast<unsigned>(std::min(tiles * p.max_splits, wave * (p.max_splits > 1 ? 4 : 2)));
  if (p.dim <= 32) {
    launch_attention<1>(work, p, rows, blocks);
  } else if (p.dim <= 64) {
    launch_attention<2>(work, p, rows, blocks);
  } else if (p.dim <= 128) {
    launch_attention<4>(work, p, rows, blocks);
  } else {
    launch_attention<8>(work, p, rows, blocks);
  }
  if (p.key_mass != nullptr) {
    constexpr unsigned pieces = 32;
    work.launch(
        "key_mass",
        {blocks_for(p.sequences, 1), attention_threads, key_mass_shared_bytes(p.dim), pieces},
        key_mass_kernel, p);
  }
}

void attention(const device_backend& device, const op::attention& args) {
  if (args.keys.tiles.keep != nullptr &&
      (args.keys.key_begin != nullptr || args.key_mass.data != nullptr)) {
    throw std::logic_error("attention: a block mask goes with neither a key list nor key_mass");
  }
  if (args.rows.rows == 0) return;
  attention_params p{};
  const paged_kv cache = device.in(args.cache);
  if (args.q.type != dtype::bf16) (void)args.q.as<float>();
  p.q = device.in(args.q).data;
  p.q_type = args.q.type;
  p.q_stride = args.q.row_stride;
  p.out = device.out(args.out).data;
  p.out_type = args.out.type;
  p.out_stride = args.out.row_stride;
  p.row_begin = device.in(args.rows.row_begin);
  p.position = device.in(args.rows.position);
  p.sequences = args.rows.sequences;
  p.heads = static_cast<int>(args.q.shape[1]);
  p.kv_heads = static_cast<int>(args.cache.keys.shape[2]);
  p.dim = static_cast<int>(args.q.shape[2]);
  p.scale = args.scale;
  p.keys = side_of(cache.keys);
  p.values = side_of(cache.values);
  p.place = {cache.page_table, cache.table_stride};
  p.kv_length = device.in(args.keys.kv_length);
  p.key_begin = device.in(args.keys.key_begin);
  p.key_slot = device.in(args.keys.key_slot);
  p.mask = args.keys.mask;
  p.mask_block = args.keys.block;
  p.tiles = args.keys.tiles;
  p.tiles.keep = device.in(p.tiles.keep);
  p.tiles.applies = device.in(p.tiles.applies);
  if (p.dim > 256) throw std::logic_error("attention: heads of more than 256 elements");

  if (args.key_mass.data != nullptr) {
    p.key_mass = device.out(args.key_mass).as<float>();
    p.softmax = device.work().scratch<float>(scratch_slot::attention_lse,
                                             std::int64_t{args.rows.rows} * p.heads * 2);
  }
  const std::int64_t packed = std::int64_t{args.rows.rows} * (p.heads / p.kv_heads);
  const std::int32_t pages = cache.most_pages > 0 ? cache.most_pages : cache.table_stride;
  const std::int64_t most_keys = std::int64_t{pages} * kv_page_size;
  if (can_use_tensor_cores(p) && device.may_multiply(multiplied::attention, multiplier::mma_sync)) {
    launch_tensor_attention(device, p, packed, most_keys);
  } else {
    launch_exact_attention(device, p, packed, most_keys);
  }
}

}  // namespace

const register_operations<attention> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
