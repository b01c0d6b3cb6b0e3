// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD's attention patterns (block_pattern.cpp of the reference): softmax mass of tiles, the
// tiles that are kept, and how many keys they leave.
#include "kernels/cuda/cached_keys.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/score_tile.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"

namespace unmask::cuda::UNMASK_TARGET {

struct block_mass_params {
  const std::int32_t* row_begin;
  const std::int32_t* position;
  const void* q;  // float32; of block_mass_tensor_kernel bfloat16
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
  cache_side side;  // keys, as score_tile.h takes them
  cache_place place;
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
    const float* query = static_cast<const float*>(p.q) + (first + r) * p.q_stride + h * p.dim;
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

// Raises each row's largest score and rescales its sum of weights, for a tile of scores.
UNMASK_DEVICE void add_weights(float (&top)[2], float (&sum)[2], const float (&score)[8][4],
                               float scale_log2) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float m = top[r];
#pragma unroll
    for (int n = 0; n < 8; ++n) m = fmaxf(m, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
    m = fmaxf(m, shuffle_xor(m, 1));
    m = fmaxf(m, shuffle_xor(m, 2));
    sum[r] *= exp2_fast((top[r] - m) * scale_log2);
    top[r] = m;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      sum[r] += exp2_fast((score[n][2 * r] - m) * scale_log2) +
                exp2_fast((score[n][2 * r + 1] - m) * scale_log2);
    }
  }
}

// Weights of a tile's columns, summed over a lane's two rows.
UNMASK_DEVICE void weigh_columns(float (&columns)[8][2], const float (&score)[8][4],
                                 const float (&top)[2], const float (&factor)[2],
                                 float scale_log2) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float other = exp2_fast((score[n][2 + e] - top[1]) * scale_log2) * factor[1];
      columns[n][e] =
          fused_multiply_add(exp2_fast((score[n][e] - top[0]) * scale_log2), factor[0], other);
    }
  }
}

// The same with bfloat16 keys, on tensor cores: the warps of a block share the keys, and have 16 rows
// of the query block each. A first walk over the keys finds every row's largest score and sum, a
// second adds up the weights of the columns and of the key blocks.
template <int dim>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(score_threads, 2)
    block_mass_tensor_kernel(block_mass_params p) {
  shared_allocator shared;
  std::uint16_t* keys = shared.take<std::uint16_t>(tensor_keys * dim).data();
  const shared_array<float> of_warps = shared.take<float>(score_warps * tensor_keys);
  const int s = static_cast<int>(block_index()) / p.heads;
  const int h = static_cast<int>(block_index()) % p.heads, i = static_cast<int>(block_index_y());
  const int t = static_cast<int>(thread_index()), lane = lane_index();
  const int length = p.kv_length[s], start = p.first_slot[s];
  const int used = (length + p.size - 1) / p.size;
  if (i >= used) return;
  float* out = p.out + s * p.out_stride + (static_cast<std::int64_t>(h) * p.blocks + i) * p.blocks;
  for (int j = start / p.size + t; j < used; j += score_threads) out[j] = 0;
  const int end = p.row_begin[s + 1];
  const int first = lower_row(p.position, p.row_begin[s], end, i * p.size);
  const int rows = lower_row(p.position, first, end, (i + 1) * p.size) - first;
  const float scale_log2 = p.scale * 1.4426950408889634F;
  const float share = 1.0F / (static_cast<float>(p.size) * static_cast<float>(p.size));
  for (int group = 0; group < rows; group += score_warps * 16) {
    const int mine = group + warp_index() * 16 + lane / 4;
    const std::uint16_t* from = static_cast<const std::uint16_t*>(p.q) +
                                (first + mine) * p.q_stride + static_cast<std::int64_t>(h) * dim;
    std::uint32_t a[dim / 16][4];
    load_score_rows<dim>(a, mine < rows ? from : nullptr,
                         mine + 8 < rows ? from + 8 * p.q_stride : nullptr);
    float score[8][4];
    const auto walk = [&](const auto& use) {
      for (int base = start; base < length; base += tensor_keys) {
        sync_block();  // the last keys and sums have been read
        load_score_keys<dim>(p.side, p.place, s, h / p.group, base, length, keys,
                             [](int slot) { return slot; });
        sync_block();
        score_tile<dim>(score, a, keys);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            if (base + n * 8 + lane % 4 * 2 + e % 2 >= length) score[n][e] = -INFINITY;
          }
        }
        use(base);
      }
    };
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    walk([&](int) { add_weights(top, sum, score, scale_log2); });
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += shuffle_xor(sum[r], 1);
      sum[r] += shuffle_xor(sum[r], 2);
      factor[r] = mine + 8 * r < rows ? 1.0F / sum[r] : 0.0F;
    }
    walk([&](int base) {
      float columns[8][2];
      weigh_columns(columns, score, top, factor, scale_log2);
      sum_columns(columns, of_warps);
      const int behind = base + tensor_keys < length ? base + tensor_keys : length;
      const int j = base / p.size + t;
      if (j * p.size >= behind) return;
      float mass = 0;
      for (int slot = j * p.size > base ? j * p.size : base;
           slot < behind && slot < (j + 1) * p.size; ++slot) {
        mass += column_total(of_warps, slot - base);
      }
      out[j] += mass * share;
    });
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

void block_mass(const device_backend& device, const op::block_mass& args) {
  const auto heads = static_cast<std::int32_t>(args.q.shape[1]);
  const auto kv_heads = static_cast<std::int32_t>(args.cache.keys.shape[2]);
  const auto dim = static_cast<std::int32_t>(args.q.shape[2]);
  const auto blocks = static_cast<std::int32_t>(args.out.shape[3]);
  const paged_kv cache = device.in(args.cache);
  block_mass_params p{device.in(args.rows.row_begin),
                      device.in(args.rows.position),
                      device.in(args.q).data,
                      args.q.row_stride,
                      heads,
                      dim,
                      heads / kv_heads,
                      keys_of(cache),
                      device.in(args.kv_length),
                      device.in(args.first_slot),
                      args.size,
                      args.scale,
                      device.out(args.out).as<float>(),
                      args.out.row_stride,
                      blocks,
                      side_of(cache.keys),
                      {cache.page_table, cache.table_stride}};
  const bool tiles =
      has_score_tiles(cache.keys, dim) && (args.q.type == dtype::f32 || in_groups(2, args.q, dim));
  if (tiles != (args.q.type == dtype::bf16)) {
    const std::int64_t rows = args.q.rows(), width = args.q.columns();
    p.q = tiles ? static_cast<const void*>(
                      device.as_bf16(p.q, args.q.type, p.q_stride, nullptr, rows, width))
                : device.as_f32(p.q, p.q_stride, rows, width);
    p.q_stride = width;
  }
  if (tiles) {
    const auto launch = [&](auto kernel) {
      device.work().launch(
          "block_mass_tensor",
          {blocks_for(std::int64_t{args.rows.sequences} * heads, 1), score_threads,
           score_shared_bytes(dim) + column_shared_bytes, static_cast<unsigned>(blocks)},
          kernel, p);
    };
    return dim == 64 ? launch(block_mass_tensor_kernel<64>) : launch(block_mass_tensor_kernel<128>);
  }
  const std::size_t row_room = (static_cast<std::size_t>(args.size) + 1) / 2 * 16;
  device.work().launch("block_mass",
                       {blocks_for(std::int64_t{args.rows.sequences} * heads, 1), group_threads,
                        2 * row_room, static_cast<unsigned>(blocks)},
                       block_mass_kernel, p);
}

void keep_top_blocks(const device_backend& device, const op::keep_top_blocks& args) {
  const auto heads = static_cast<std::int32_t>(args.mass.shape[1]);
  const auto blocks = static_cast<std::int32_t>(args.mass.shape[3]);
  const grid_shape shape{blocks_for(args.mass.rows(), 1), group_threads, 0,
                         blocks_for(std::int64_t{heads} * blocks, group_threads / warp_size)};
  device.work().launch(
      "keep_top_blocks", shape, keep_top_blocks_kernel,
      {device.in(args.mass).as<float>(), args.mass.row_stride, heads, blocks, device.in(args.used),
       device.in(args.first), device.in(args.limit), device.in(args.count),
       device.out(args.keep).as<std::uint8_t>(), args.keep.row_stride});
}

void block_mask_keys(const device_backend& device, const op::block_mask_keys& args) {
  const auto heads = static_cast<std::int32_t>(args.keep.shape[1]);
  const auto blocks = static_cast<std::int32_t>(args.keep.shape[3]);
  device.work().launch("block_mask_keys",
                       {blocks_for(args.keep.rows(), 1), group_threads, 0,
                        blocks_for(blocks, group_threads / warp_size)},
                       block_mask_keys_kernel,
                       {device.in(args.keep).as<std::uint8_t>(), args.keep.row_stride, heads,
                        blocks, device.in(args.applies), args.size, device.in(args.kv_length),
                        device.out(args.out).as<float>(), args.out.row_stride});
}

}  // namespace

const register_operations<block_mass, keep_top_blocks, block_mask_keys> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
