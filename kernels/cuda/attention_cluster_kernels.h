// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention on tensor cores of few sequences with many keys: a cluster of eight blocks computes a tile of
// rows of one KV head, each block with an eighth of the keys. Then each block leaves its sums, largest
// scores and sums of weights in its shared memory, and each adds an eighth of the rows of all blocks, in
// the order of their ranks. So no part passes through memory, and there is no plan and no other launch.
//
// Keys are cut by their number in the sequence, whatever else the batch holds and however long a row's
// mask lets it see. A row has the same bits in every batch that takes this kernel with the same
// instruction: wgmma takes tiles of 64 rows, mma.sync those of 16 and 32, listed keys and dimension 64.
#pragma once

#include "kernels/cuda/attention_tensor_kernels.h"
#include "kernels/cuda/device/clusters.h"

namespace unmask::cuda::UNMASK_TARGET {

// What a block reads of its item behind the loop, where registers are few.
constexpr int noted_words = 4;

template <class shape>
struct cluster_shape {
  // Floats from one row's sums to the next one's: those that a warp stores at once fall into different banks.
  static constexpr int pitch = shape::dim + 8;
  // They lie where queries, keys and values were.
  static_assert(static_cast<std::size_t>(shape::item_rows) * pitch * sizeof(float) <=
                tensor_shared_bytes(shape::dim, shape::item_rows, shape::stages) -
                    static_cast<std::size_t>(shape::item_rows) * sizeof(std::int32_t));
};

// Returns the item of cluster `number`, without its span of keys; sequence -1: there is none. Each lane
// looks at one sequence, so that lists are read in one trip to memory.
template <class shape>
UNMASK_DEVICE tensor_item item_of_cluster(const attention_params& p, int number, int group) {
  const int s = lane_index();
  int first = 0, packed = 0, keys = 0;
  if (s < p.sequences) {
    first = p.row_begin[s];
    packed = (p.row_begin[s + 1] - first) * group;
    keys = given_key_count(p, s);
  }
  const int items = (packed + shape::item_rows - 1) / shape::item_rows * p.kv_heads;
  const int end = warp_scan(items);
  tensor_item w;
  w.sequence = first_bit(warp_vote(number < end)) - 1;
  const int owner = w.sequence < 0 ? 0 : w.sequence;
  const int rest = number - shuffle(end - items, owner);
  w.group = group;
  w.keys = shuffle(keys, owner);
  w.splits = cluster_blocks;
  w.split = cluster_rank();
  w.kv_head = rest % p.kv_heads;
  w.first_packed = rest / p.kv_heads * shape::item_rows;
  w.first_row = shuffle(first, owner);
  w.packed = shuffle(packed, owner);
  return w;
}

// The keys of a block: whole tiles, as many as those of the others or one more.
template <class shape>
UNMASK_DEVICE tensor_span span_of_cluster(const attention_params& p, const tensor_item& w) {
  const int tiles = (w.keys + tensor_keys - 1) / tensor_keys;
  const int first = tiles * w.split / cluster_blocks * tensor_keys,
            end = tiles * (w.split + 1) / cluster_blocks * tensor_keys;
  return seen_of<shape>(p, w, first, end < w.keys ? end : w.keys);
}

// Leaves the sums of an item where the cluster's blocks read them: o in `rows`, and in `kept` of each row
// its largest score and its sum of weights.
template <class shape>
UNMASK_DEVICE void leave_sums(float* rows, const shared_array<float>& kept,
                              tensor_sums<shape>& sums) {
  const int lane = lane_index();
  sync_block();  // queries, keys and values have been read
#pragma unroll
  for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sums.l[i][h] += shuffle_xor(sums.l[i][h], 1);
      sums.l[i][h] += shuffle_xor(sums.l[i][h], 2);
      const int row = packed_row<shape>(0, i, h);
      float* to = rows + row * cluster_shape<shape>::pitch + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < shape::dim / 8; ++d) {
        store_pair(to, dtype::f32, d * 8, sums.o[i][d][2 * h], sums.o[i][d][2 * h + 1]);
      }
      if (lane % 4 == 0) {
        kept[2 * row] = sums.m[i][h];
        kept[2 * row + 1] = sums.l[i][h];
      }
    }
  }
}

// Adds a row of all blocks of the cluster, and writes it as element `to` of the output and on. A warp, of
// which a lane adds neighbouring elements. The first lanes look at a block each.
template <class shape>
UNMASK_DEVICE void add_row(const attention_params& p, const float* sums, const float* kept,
                           std::int64_t to) {
  constexpr int each = shape::dim / warp_size;
  const int lane = lane_index();
  float scores[2] = {-INFINITY, 0}, parts[cluster_blocks][each], total[each] = {};
  if (lane < cluster_blocks) read_peer(scores, kept, lane);
#pragma unroll
  for (int rank = 0; rank < cluster_blocks; ++rank) {
    read_peer(parts[rank], sums + lane * each, rank);
  }
  const float top = warp_max(scores[0]);
  const float base = top == -INFINITY ? 0.0F : top;
  const float weight = exp2_fast((scores[0] - base) * p.scale_log2);
  const float sum = warp_sum(scores[1] * weight);
#pragma unroll
  for (int rank = 0; rank < cluster_blocks; ++rank) {
    const float share = shuffle(weight, rank);
#pragma unroll
    for (int e = 0; e < each; ++e) {
      total[e] = fused_multiply_add(parts[rank][e], share, total[e]);
    }
  }
  const float factor = sum == 0 ? 0.0F : 1.0F / sum;
#pragma unroll
  for (int e = 0; e < each; e += 2) {
    store_pair(p.out, p.out_type, to + lane * each + e, total[e] * factor, total[e + 1] * factor);
  }
}

// The rows of an item that this block adds: every eighth one.
template <class shape>
UNMASK_DEVICE void add_rows(const attention_params& p, const shared_array<std::int32_t>& noted,
                            const float* sums, const float* kept, int group) {
  constexpr int warps = shape::threads / warp_size;
  const int kv_head = noted[0], first_packed = noted[1], first_row = noted[2], packed = noted[3];
  for (int row = cluster_rank() + warp_index() * cluster_blocks;
       row < shape::item_rows && first_packed + row < packed; row += warps * cluster_blocks) {
    const int at = first_packed + row;
    const std::int64_t to = (first_row + at / group) * p.out_stride +
                            static_cast<std::int64_t>(kv_head * group + at % group) * shape::dim;
    add_row<shape>(p, sums + row * cluster_shape<shape>::pitch, kept + 2 * row, to);
  }
}

// Blocks: cluster_blocks for each item, in clusters; more clusters than items have nothing to do. At most
// warp_size sequences. Only Hopper's machine code has it (ops/attention_cluster.cu).
template <int dim, int warps, bool groups>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(warps* warp_size, 2)
    attention_cluster_kernel([[maybe_unused]] attention_params p) {
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using shape = tensor_shape<dim, warps, tensor_stages, 1, false, groups>;
  shared_allocator shared;
  const tensor_room room = room_of<shape>(shared);
  const auto kept = shared.take<float>(2 * shape::item_rows);
  const auto noted = shared.take<std::int32_t>(noted_words);
  auto* left = reinterpret_cast<float*>(room.query);
  const int group = p.heads / p.kv_heads;
  tensor_sums<shape> sums;
  {
    const tensor_item w =
        item_of_cluster<shape>(p, static_cast<int>(block_index()) / cluster_blocks, group);
    if (w.sequence < 0) return;  // no block of the cluster has an item
    if (thread_index() == 0) {
      noted[0] = w.kv_head;
      noted[1] = w.first_packed;
      noted[2] = w.first_row;
      noted[3] = w.packed;
    }
    compute_item<shape>(p, w, span_of_cluster<shape>(p, w), room, sums, [] {});
  }
  leave_sums<shape>(left, kept, sums);
  sync_cluster();  // every block has left its sums
  add_rows<shape>(p, noted, left, kept.data(), group);
  sync_cluster();  // and every block has read them
#endif
}

}  // namespace unmask::cuda::UNMASK_TARGET
