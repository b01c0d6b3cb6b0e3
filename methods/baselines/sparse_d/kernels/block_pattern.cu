// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD's attention patterns (block_pattern.cpp of the reference): softmax mass of tiles, the
// tiles that are kept, and how many keys they leave.
#include "kernels/cuda/cached_keys.h"
#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/groups.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"

namespace unmask::cuda::UNMASK_TARGET {

struct block_mass_params {
  const std::int32_t* row_begin;
  const std::int32_t* position;
  const float* q;
  std::int64_t q_stride;
  std::int32_t heads, dim, group;
  cached_keys keys;
  const std::int32_t* kv_length;
  const std::int32_t* first_slot;
  std::int32_t size;
  float scale;
  float* out;  // [S, heads, blocks, blocks]
  std::int64_t out_stride;
  std::int32_t blocks;
};

// First row of the sequence whose position is not below p; positions ascend.
UNMASK_DEVICE int lower_row(const std::int32_t* position, int first, int last, int p) {
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (position[middle] < p) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

// Grid: (sequences * heads) x query blocks. Pass 1: a warp for each row finds the largest score and
// the softmax denominator. Pass 2: a warp for each key block adds up its rows in order, lanes over
// slots.
UNMASK_KERNEL void block_mass_kernel(block_mass_params p) {
  shared_allocator shared;
  const auto largest_of = shared.take<double>(p.size);
  const auto total_of = shared.take<double>(p.size);
  const int s = static_cast<int>(block_index()) / p.heads;
  const int h = static_cast<int>(block_index()) % p.heads;
  const int i = static_cast<int>(block_index_y());
  const int length = p.kv_length[s], start = p.first_slot[s];
  const int used = (length + p.size - 1) / p.size;
  if (i >= used) return;
  const int end = p.row_begin[s + 1];
  const int first = lower_row(p.position, p.row_begin[s], end, i * p.size);
  const int rows = lower_row(p.position, first, end, (i + 1) * p.size) - first;
  const int warps = static_cast<int>(block_size()) / warp_size;
  const auto score = [&](int r, int slot) {
    const float* query = p.q + (first + r) * p.q_stride + h * p.dim;
    const std::int64_t key = key_at(p.keys, s, slot) + h / p.group * p.dim;
    double sum = 0;
    if (p.keys.type == dtype::f32) {
      sum = dot_product(query, static_cast<const float*>(p.keys.data) + key, p.dim);
    } else {
      for (int d = 0; d < p.dim; ++d) {
        sum += static_cast<double>(query[d]) * key_value(p.keys, key + d);
      }
    }
    return product(sum, static_cast<double>(p.scale));
  };
  for (int r = warp_index(); r < rows; r += warps) {
    double largest = -HUGE_VAL, total = 0;
    for (int slot = start + lane_index(); slot < length; slot += warp_size) {
      const double x = score(r, slot);
      if (x > largest) {
        total = product(total, exp(largest - x)) + 1.0;
        largest = x;
      } else {
        total += exp(x - largest);
      }
    }
    const double top = warp_max(largest);
    total = warp_sum(largest == -HUGE_VAL ? 0.0 : product(total, exp(largest - top)));
    if (lane_index() == 0) {
      largest_of[r] = top;
      total_of[r] = total;
    }
  }
  sync_block();
  float* out = p.out + s * p.out_stride + (static_cast<std::int64_t>(h) * p.blocks + i) * p.blocks;
  for (int j = start / p.size + warp_index(); j < used; j += warps) {
    double mass = 0;
    for (int r = 0; r < rows; ++r) {
      const int last = (j + 1) * p.size < length ? (j + 1) * p.size : length;
      for (int slot = j * p.size + lane_index(); slot < last; slot += warp_size) {
        mass += exp(score(r, slot) - largest_of[r]) / total_of[r];
      }
    }
    mass = warp_sum(mass);
    if (lane_index() == 0) {
      out[j] = static_cast<float>(mass / (1.0 * p.size * p.size));
    }
  }
}

struct keep_top_blocks_params {
  const float* mass;  // [S, heads, blocks, blocks]
  std::int64_t mass_stride;
  std::int32_t heads, blocks;
  const std::int32_t* used;
  const std::int32_t* first;
  const std::int32_t* limit;
  const std::int32_t* count;
  std::uint8_t* keep;
  std::int64_t keep_stride;
};

// Grid: sequences x (heads * query blocks / warps); a warp for each row of tiles.
UNMASK_KERNEL void keep_top_blocks_kernel(keep_top_blocks_params p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  const std::int64_t line =
      static_cast<std::int64_t>(block_index_y()) * (block_size() / warp_size) + warp_index();
  const int i = static_cast<int>(line % p.blocks);
  if (i >= p.used[s] || line >= static_cast<std::int64_t>(p.heads) * p.blocks) return;
  const int first = p.first[s], n = p.used[s] - first;
  const float* mass = p.mass + s * p.mass_stride + line * p.blocks + first;
  std::uint8_t* keep = p.keep + s * p.keep_stride + line * p.blocks + first;
  const int limit = p.limit[s] - first;
  const int wanted = p.count[s] < n ? p.count[s] : n;
  const score_keys key{mass};
  const cut c = top_cut(group, n, wanted, key);
  for_each_taken(group, n, key, c, [&](int j, bool taken) {
    if (j < limit) keep[j] = taken ? 1 : 0;
  });
}

struct block_mask_keys_params {
  const std::uint8_t* keep;
  std::int64_t keep_stride;
  std::int32_t heads, blocks;
  const std::uint8_t* applies;
  std::int32_t size;
  const std::int32_t* kv_length;
  float* out;
  std::int64_t out_stride;
};

// Grid: sequences x (query blocks / warps); a warp for each query block.
UNMASK_KERNEL void block_mask_keys_kernel(block_mask_keys_params p) {
  const int s = static_cast<int>(block_index());
  const int i = static_cast<int>(block_index_y() * (block_size() / warp_size)) + warp_index();
  const int length = p.kv_length[s];
  const int used = (length + p.size - 1) / p.size;
  if (p.applies[s] == 0 || i >= used) return;
  std::int64_t keys = 0;
  for (int h = 0; h < p.heads; ++h) {
    const std::uint8_t* keep =
        p.keep + s * p.keep_stride + (static_cast<std::int64_t>(h) * p.blocks + i) * p.blocks;
    for (int j = lane_index(); j < used; j += warp_size) {
      const int left = length - j * p.size;
      if (keep[j] != 0) keys += left < p.size ? left : p.size;
    }
  }
  keys = warp_sum(keys);
  if (lane_index() == 0) {
    p.out[s * p.out_stride + i] =
        static_cast<float>(static_cast<double>(keys) / static_cast<double>(p.heads));
  }
}

namespace {

void block_mass(const device_ops& device, const op::block_mass& args) {
  const auto heads = static_cast<std::int32_t>(args.q.shape[1]);
  const auto kv_heads = static_cast<std::int32_t>(args.cache.keys.shape[2]);
  const auto dim = static_cast<std::int32_t>(args.q.shape[2]);
  const auto blocks = static_cast<std::int32_t>(args.out.shape[3]);
  const block_mass_params p{args.rows.row_begin,
                            args.rows.position,
                            args.q.as<float>(),
                            args.q.row_stride,
                            heads,
                            dim,
                            heads / kv_heads,
                            keys_of(args.cache),
                            args.kv_length,
                            args.first_slot,
                            args.size,
                            args.scale,
                            args.out.as<float>(),
                            args.out.row_stride,
                            blocks};
  const std::size_t row_room = (static_cast<std::size_t>(args.size) + 1) / 2 * 16;
  device.work().launch("block_mass",
                       {blocks_for(std::int64_t{args.rows.sequences} * heads, 1), group_threads,
                        2 * row_room, static_cast<unsigned>(blocks)},
                       block_mass_kernel, p);
}

void keep_top_blocks(const device_ops& device, const op::keep_top_blocks& args) {
  const auto heads = static_cast<std::int32_t>(args.mass.shape[1]);
  const auto blocks = static_cast<std::int32_t>(args.mass.shape[3]);
  const grid_shape shape{blocks_for(args.mass.rows(), 1), group_threads, 0,
                         blocks_for(std::int64_t{heads} * blocks, group_threads / warp_size)};
  device.work().launch(
      "keep_top_blocks", shape, keep_top_blocks_kernel,
      {args.mass.as<float>(), args.mass.row_stride, heads, blocks, args.used, args.first,
       args.limit, args.count, args.keep.as<std::uint8_t>(), args.keep.row_stride});
}

void block_mask_keys(const device_ops& device, const op::block_mask_keys& args) {
  const auto heads = static_cast<std::int32_t>(args.keep.shape[1]);
  const auto blocks = static_cast<std::int32_t>(args.keep.shape[3]);
  device.work().launch(
      "block_mask_keys",
      {blocks_for(args.keep.rows(), 1), group_threads, 0,
       blocks_for(blocks, group_threads / warp_size)},
      block_mask_keys_kernel,
      {args.keep.as<std::uint8_t>(), args.keep.row_stride, heads, blocks, args.applies, args.size,
       args.kv_length, args.out.as<float>(), args.out.row_stride});
}

}  // namespace

const register_operations<block_mass, keep_top_blocks, block_mask_keys> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
