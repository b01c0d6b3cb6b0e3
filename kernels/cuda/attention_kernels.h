// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ragged paged attention, float32 throughout (keys and values float32 or bfloat16):
//   out[r, h] = sum_j softmax_j(q[r, h] . k[j, h / group] * scale) v[j, h / group].
//
// The rows of a sequence times the heads that share a kv head are one list of packed rows; a tile
// is 16 of them, one work item is (sequence, kv head, tile[, split]). A first kernel counts items
// per sequence, so that nothing about the batch is needed on the host; a fixed grid walks them.
//
// Arithmetic of one packed row: keys in tiles of 32 from the sequence's first key on, one key per
// lane; online softmax inside a chunk of `attention_chunk` keys; chunks merged in order. Whether
// the chunks ran one after the other in one block or as splits in several (then merged by a second
// kernel) does not change one operation, so the choice may depend on the batch and the bits do not.
#pragma once

#include "kernels/cuda/attention_params.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int attention_warps = 4;
constexpr int attention_threads = attention_warps * warp_size;
constexpr int rows_per_warp = 4;
constexpr int attention_rows = attention_warps * rows_per_warp;  // packed rows per tile
constexpr int key_tile = 32;

// item_begin[s] = items of the sequences before s.
UNMASK_KERNEL void attention_plan_kernel(attention_params p) {
  shared_allocator shared;
  const shared_array<std::int32_t> scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const int group = p.heads / p.kv_heads, t = static_cast<int>(thread_index());
  std::int32_t before = 0;
  for (int first = 0; first < p.sequences; first += plan_threads) {
    const int s = first + t;
    std::int32_t items = 0;
    if (s < p.sequences) {
      p.keys_of[s] = given_key_count(p, s);
      p.keys_from[s] = p.key_begin != nullptr ? p.key_begin[s] : 0;
      const int packed = (p.row_begin[s + 1] - p.row_begin[s]) * group;
      items = (packed + p.tile_rows - 1) / p.tile_rows * p.kv_heads * split_count(p, p.keys_of[s]);
    }
    std::int32_t total = 0;
    const std::int32_t end = block_scan(items, scratch, &total);
    if (s < p.sequences) p.item_begin[s + 1] = before + end;
    before += total;
    sync_block();
  }
  if (t == 0) p.item_begin[0] = 0;
}

// A softmax over part of the keys: sum_j e^(s_j - m) v_j is kept beside, in registers.
struct softmax_part {
  float m;  // largest score, -infinity: no key
  float l;  // sum of e^(s - m)
};

// What both parts are scaled by to be added: a for the first, b for the second.
UNMASK_DEVICE softmax_part merge_parts(const softmax_part& x, const softmax_part& y, float* a,
                                       float* b) {
  const float m = y.m > x.m ? y.m : x.m;
  const float base = m == -INFINITY ? 0.0F : m;
  *a = expf(x.m - base);
  *b = expf(y.m - base);
  return {m, fused_multiply_add(x.l, *a, y.l * *b)};
}

constexpr std::size_t attention_shared_bytes(int dim) {
  const auto d = static_cast<std::size_t>((dim + 3) / 4 * 4);
  return sizeof(float) *
         (attention_rows * d + key_tile * (d + 1) + 3 + key_tile * d + attention_rows * key_tile);
}

// dims: 32-element pieces of a head that a lane holds one element of; dim <= 32 dims.
template <int dims>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(attention_threads, 2)
    attention_kernel(attention_params p) {
  const int dim = p.dim, group = p.heads / p.kv_heads;
  shared_allocator shared;
  const int k_pitch = (dim + 3) / 4 * 4 + 1;  // odd: lanes of a warp read different banks
  const shared_array<float> query = shared.take<float>(attention_rows * dim);
  const shared_array<float> key = shared.take<float>(key_tile * k_pitch);
  const shared_array<float> value = shared.take<float>(key_tile * dim);
  const shared_array<float> weight = shared.take<float>(attention_rows * key_tile);
  const int lane = lane_index(), warp = warp_index();
  const std::int32_t items = p.item_begin[p.sequences];
  for (std::int32_t item = static_cast<std::int32_t>(block_index()); item < items;
       item += static_cast<std::int32_t>(grid_size())) {
    const int s = sequence_of(p.item_begin, p.sequences, item);
    const int keys = p.keys_of[s], splits = split_count(p, keys);
    int rest = item - p.item_begin[s];
    const int split = rest % splits;
    rest /= splits;
    const int kv_head = rest % p.kv_heads, tile = rest / p.kv_heads;
    const int first_row = p.row_begin[s];
    const int packed = (p.row_begin[s + 1] - first_row) * group;

    // The warp's rows.
    std::int64_t row[rows_per_warp];
    std::int32_t position[rows_per_warp];
    int head[rows_per_warp];
    bool live[rows_per_warp];
    sync_block();  // the last item's queries and keys have been read
#pragma unroll
    for (int i = 0; i < rows_per_warp; ++i) {
      const int at = tile * attention_rows + warp * rows_per_warp + i;
      live[i] = at < packed;
      row[i] = first_row + (live[i] ? at / group : 0);
      head[i] = kv_head * group + (live[i] ? at % group : 0);
      position[i] = p.position[row[i]];
      const float* from = static_cast<const float*>(p.q) + row[i] * p.q_stride +
                          static_cast<std::int64_t>(head[i]) * dim;
      for (int d = lane; d < dim; d += warp_size) {
        query[(warp * rows_per_warp + i) * dim + d] = from[d];
      }
    }

    softmax_part sum[rows_per_warp];  // over the chunks done
    float total[rows_per_warp][dims];
#pragma unroll
    for (int i = 0; i < rows_per_warp; ++i) {
      sum[i] = {-INFINITY, 0.0F};
#pragma unroll
      for (int d = 0; d < dims; ++d) total[i][d] = 0;
    }
    const int first_key = splits > 1 ? split * attention_chunk : 0;
    const int last_key =
        splits > 1 && first_key + attention_chunk < keys ? first_key + attention_chunk : keys;
    for (int chunk = first_key; chunk < last_key; chunk += attention_chunk) {
      const int chunk_end = chunk + attention_chunk < last_key ? chunk + attention_chunk : last_key;
      softmax_part part[rows_per_warp];
      float o[rows_per_warp][dims];
#pragma unroll
      for (int i = 0; i < rows_per_warp; ++i) {
        part[i] = {-INFINITY, 0.0F};
#pragma unroll
        for (int d = 0; d < dims; ++d) o[i][d] = 0;
      }
      for (int j0 = chunk; j0 < chunk_end; j0 += key_tile) {
        sync_block();  // the last tile has been read
        for (int j = warp; j < key_tile; j += attention_warps) {
          const bool there = j0 + j < chunk_end;
          const std::int32_t slot = there ? slot_of_key(p, s, j0 + j) : 0;
          const std::int64_t k_at =
              there ? slot_offset(p.keys, p.place, s, slot) + kv_head * dim : 0;
          const std::int64_t v_at =
              there ? slot_offset(p.values, p.place, s, slot) + kv_head * dim : 0;
          for (int d = lane; d < dim; d += warp_size) {
            key[j * k_pitch + d] = there ? load_float(p.keys.data, p.keys.type, k_at + d) : 0.0F;
            value[j * dim + d] = there ? load_float(p.values.data, p.values.type, v_at + d) : 0.0F;
          }
        }
        sync_block();
        float score[rows_per_warp];
#pragma unroll
        for (int i = 0; i < rows_per_warp; ++i) score[i] = 0;
        for (int d = 0; d < dim; ++d) {
          const float k = key[lane * k_pitch + d];
#pragma unroll
          for (int i = 0; i < rows_per_warp; ++i) {
            score[i] = fused_multiply_add(query[(warp * rows_per_warp + i) * dim + d], k, score[i]);
          }
        }
        const bool there = j0 + lane < chunk_end;
        const std::int32_t slot = there ? slot_of_key(p, s, j0 + lane) : 0;
        float grow[rows_per_warp];
#pragma unroll
        for (int i = 0; i < rows_per_warp; ++i) {
          const bool seen = there && admits(p, s, head[i], position[i], slot);
          const float x = seen ? score[i] * p.scale : -INFINITY;
          const float top = warp_max(x);
          const float m = top > part[i].m ? top : part[i].m;
          const float base = m == -INFINITY ? 0.0F : m;
          const float w = seen ? expf(x - base) : 0.0F;
          grow[i] = expf(part[i].m - base);
          part[i] = {m, fused_multiply_add(part[i].l, grow[i], warp_sum(w))};
          weight[(warp * rows_per_warp + i) * key_tile + lane] = w;
        }
        sync_warp();
        const int count = chunk_end - j0 < key_tile ? chunk_end - j0 : key_tile;
#pragma unroll
        for (int i = 0; i < rows_per_warp; ++i) {
#pragma unroll
          for (int d = 0; d < dims; ++d) o[i][d] *= grow[i];
        }
        for (int j = 0; j < count; ++j) {
          float v[dims];
#pragma unroll
          for (int d = 0; d < dims; ++d) {
            const int at = lane + d * warp_size;
            v[d] = at < dim ? value[j * dim + at] : 0.0F;
          }
#pragma unroll
          for (int i = 0; i < rows_per_warp; ++i) {
            const float w = weight[(warp * rows_per_warp + i) * key_tile + j];
#pragma unroll
            for (int d = 0; d < dims; ++d) o[i][d] = fused_multiply_add(w, v[d], o[i][d]);
          }
        }
        sync_warp();
      }
      if (splits > 1) {
#pragma unroll
        for (int i = 0; i < rows_per_warp; ++i) {
          if (!live[i]) continue;
          float* to = p.partial + partial_place(p, row[i], head[i], split);
#pragma unroll
          for (int d = 0; d < dims; ++d) {
            if (lane + d * warp_size < dim) to[lane + d * warp_size] = o[i][d];
          }
          if (lane == 0) {
            to[dim] = part[i].m;
            to[dim + 1] = part[i].l;
          }
        }
        continue;
      }
#pragma unroll
      for (int i = 0; i < rows_per_warp; ++i) {
        float a = 0, b = 0;
        sum[i] = merge_parts(sum[i], part[i], &a, &b);
#pragma unroll
        for (int d = 0; d < dims; ++d)
          total[i][d] = fused_multiply_add(total[i][d], a, o[i][d] * b);
      }
    }
    if (splits > 1) continue;
#pragma unroll
    for (int i = 0; i < rows_per_warp; ++i) {
      if (!live[i]) continue;
      const std::int64_t to = row[i] * p.out_stride + static_cast<std::int64_t>(head[i]) * dim;
#pragma unroll
      for (int d = 0; d < dims; ++d) {
        const int at = lane + d * warp_size;
        if (at >= dim) continue;
        store_float(p.out, p.out_type, to + at, sum[i].l == 0 ? 0.0F : total[i][d] / sum[i].l);
      }
      if (p.softmax != nullptr && lane == 0) {
        float* keep = p.softmax + (row[i] * p.heads + head[i]) * 2;
        keep[0] = sum[i].m;
        keep[1] = sum[i].l;
      }
    }
  }
}

// Merges the splits of sequences that had several. One warp per (row, head).
template <int dims>
UNMASK_KERNEL void UNMASK_THREADS(attention_threads) attention_merge_kernel(attention_params p) {
  const int rows = p.row_begin[p.sequences];
  const int warps = static_cast<int>(grid_size()) * attention_warps, lane = lane_index();
  for (std::int64_t at = block_index() * attention_warps + warp_index();
       at < static_cast<std::int64_t>(rows) * p.heads; at += warps) {
    const std::int64_t row = at / p.heads;
    const int h = static_cast<int>(at % p.heads);
    const int s = sequence_of(p.row_begin, p.sequences, static_cast<std::int32_t>(row));
    const int splits = split_count(p, p.keys_of[s]);
    if (splits == 1) continue;
    softmax_part sum{-INFINITY, 0.0F};
    float total[dims];
#pragma unroll
    for (int d = 0; d < dims; ++d) total[d] = 0;
    for (int split = 0; split < splits; ++split) {
      const float* from = p.partial + partial_place(p, row, h, split);
      float a = 0, b = 0;
      sum = merge_parts(sum, {from[p.dim], from[p.dim + 1]}, &a, &b);
#pragma unroll
      for (int d = 0; d < dims; ++d) {
        const int e = lane + d * warp_size;
        if (e < p.dim) total[d] = fused_multiply_add(total[d], a, from[e] * b);
      }
    }
    const std::int64_t to = row * p.out_stride + static_cast<std::int64_t>(h) * p.dim;
#pragma unroll
    for (int d = 0; d < dims; ++d) {
      const int e = lane + d * warp_size;
      if (e >= p.dim) continue;
      store_float(p.out, p.out_type, to + e, sum.l == 0 ? 0.0F : total[d] / sum.l);
    }
    if (p.softmax != nullptr && lane == 0) {
      p.softmax[at * 2] = sum.m;
      p.softmax[at * 2 + 1] = sum.l;
    }
  }
}

constexpr std::size_t key_mass_shared_bytes(int dim) {
  return sizeof(float) * (static_cast<std::size_t>(key_tile * ((dim + 3) / 4 * 4 + 1)) + 3 +
                          attention_warps * key_tile);
}

// key_mass[j] += sum over the rows and heads of the sequence of softmax weight j, from the largest
// scores and sums that attention left. Blocks: sequences x pieces; a block takes every
// grid_size_y-th tile of 32 keys, one key per lane, and its warps share the rows.
UNMASK_KERNEL void UNMASK_THREADS(attention_threads) key_mass_kernel(attention_params p) {
  const int s = static_cast<int>(block_index()), lane = lane_index(), warp = warp_index();
  const int keys = p.keys_of[s], group = p.heads / p.kv_heads;
  shared_allocator shared;
  const int pitch = (p.dim + 3) / 4 * 4 + 1;
  const shared_array<float> key = shared.take<float>(key_tile * pitch);
  const shared_array<float> mass = shared.take<float>(attention_warps * key_tile);
  std::int64_t first = p.keys_from[s];
  if (p.key_begin == nullptr) {
    for (int before = 0; before < s; ++before) first += p.keys_of[before];
  }
  const int first_row = p.row_begin[s], rows = p.row_begin[s + 1] - first_row;
  for (int j0 = static_cast<int>(block_index_y()) * key_tile; j0 < keys;
       j0 += static_cast<int>(grid_size_y()) * key_tile) {
    const bool there = j0 + lane < keys;
    const std::int32_t slot = there ? slot_of_key(p, s, j0 + lane) : 0;
    float sum = 0;
    for (int kv_head = 0; kv_head < p.kv_heads; ++kv_head) {
      sync_block();
      for (int j = warp; j < key_tile; j += attention_warps) {
        const bool valid = j0 + j < keys;
        const std::int64_t at =
            valid ? slot_offset(p.keys, p.place, s, slot_of_key(p, s, j0 + j)) + kv_head * p.dim
                  : 0;
        for (int d = lane; d < p.dim; d += warp_size) {
          key[j * pitch + d] = valid ? load_float(p.keys.data, p.keys.type, at + d) : 0.0F;
        }
      }
      sync_block();
      for (int i = warp; i < rows * group; i += attention_warps) {
        const std::int64_t row = first_row + i / group;
        const int h = kv_head * group + i % group;
        const float* q = static_cast<const float*>(p.q) + row * p.q_stride +
                         static_cast<std::int64_t>(h) * p.dim;
        float score = 0;
        for (int d = 0; d < p.dim; ++d) {
          score = fused_multiply_add(q[d], key[lane * pitch + d], score);
        }
        const float* kept = p.softmax + (row * p.heads + h) * 2;
        if (there && admits(p, s, h, p.position[row], slot)) {
          sum += expf(fused_multiply_add(score, p.scale, -kept[0])) / kept[1];
        }
      }
    }
    mass[warp * key_tile + lane] = sum;
    sync_block();
    if (warp == 0 && there) {
      float all = 0;
      for (int w = 0; w < attention_warps; ++w) all += mass[w * key_tile + lane];
      p.key_mass[first + j0 + lane] += all;
    }
    sync_block();
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
