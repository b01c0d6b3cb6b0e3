// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Embedding, RMSNorm, rotary positions, SwiGLU and cache traffic. All are bound by memory: one
// block per row, neighbouring threads on neighbouring elements. A row's arithmetic is the same
// whatever the other rows are: its sums run over the same threads in the same order.
#pragma once

#include "kernels/cuda/cache_access.h"

namespace unmask::cuda::UNMASK_TARGET {

struct embed_params {
  const std::int32_t* token;  // [R]
  const void* table;          // [vocabulary, width]
  dtype type;
  std::int64_t table_stride, vocabulary;
  float* out;  // [R, width]
  std::int64_t out_stride;
  int width;
};

// out[r] = table[token[r]]; NaN where the token is not in the table: a kernel cannot throw.
UNMASK_KERNEL void embed_kernel(embed_params p) {
  const std::int64_t r = block_index();
  const std::int64_t token = p.token[r];
  const bool valid = token >= 0 && token < p.vocabulary;
  for (int d = static_cast<int>(thread_index()); d < p.width; d += row_threads) {
    p.out[r * p.out_stride + d] =
        valid ? load_float(p.table, p.type, token * p.table_stride + d) : float_bits(0x7FC00000U);
  }
}

struct rms_norm_params {
  const float* x;       // [R, width]
  const float* weight;  // [width]
  void* out;            // [R, width], may be x
  dtype out_type;
  std::int64_t x_stride, out_stride;
  int width;
  bool quads;  // in_groups(4): x, weight and out
  float eps;
};

constexpr int norm_quads = 8;  // of a row that a thread holds between the sum and the result

// out = x / sqrt(mean(x^2) + eps) * weight. A row of up to 4096 elements is read once.
UNMASK_KERNEL void rms_norm_kernel(rms_norm_params p) {
  shared_allocator shared;
  const shared_array<float> scratch = shared.take<float>(row_threads / warp_size);
  const float* x = p.x + block_index() * p.x_stride;
  const std::int64_t out = static_cast<std::int64_t>(block_index()) * p.out_stride;
  const int first = static_cast<int>(thread_index());
  float squares = 0;
  if (p.quads && p.width <= 4 * norm_quads * row_threads) {
    float_quad held[norm_quads];
#pragma unroll
    for (int i = 0; i < norm_quads; ++i) {
      const int d = 4 * (first + i * row_threads);
      if (d >= p.width) continue;
      held[i] = load_quad(x, dtype::f32, d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        squares = fused_multiply_add(held[i].x[e], held[i].x[e], squares);
      }
    }
    const float factor =
        reciprocal_sqrt(block_sum(squares, scratch) / static_cast<float>(p.width) + p.eps);
#pragma unroll
    for (int i = 0; i < norm_quads; ++i) {
      const int d = 4 * (first + i * row_threads);
      if (d >= p.width) continue;
      const float_quad w = load_quad(p.weight, dtype::f32, d);
#pragma unroll
      for (int e = 0; e < 4; ++e) held[i].x[e] = held[i].x[e] * factor * w.x[e];
      store_quad(p.out, p.out_type, out + d, held[i]);
    }
    return;
  }
  for (int d = first; d < p.width; d += row_threads) {
    squares = fused_multiply_add(x[d], x[d], squares);
  }
  const float mean = block_sum(squares, scratch) / static_cast<float>(p.width);
  const float factor = reciprocal_sqrt(mean + p.eps);
  for (int d = first; d < p.width; d += row_threads) {
    store_float(p.out, p.out_type, out + d, x[d] * factor * p.weight[d]);
  }
}

struct head_norm_rope_params {
  void* x;                       // [R, heads, dim] in place
  const float* norm_weight;      // [dim] or null
  const float* frequency;        // [half]
  const std::int32_t* position;  // [R]
  std::int64_t x_stride;
  int heads, dim, half, apart;  // lanes_apart
  float eps, magnitude;
};

// cos and sin of position * frequency_i, rounded to float32 before, times the magnitude, for the
// block's row.
UNMASK_DEVICE void fill_angles(std::int32_t position, const float* frequency, float magnitude,
                               int half, const shared_array<float>& cosine,
                               const shared_array<float>& sine) {
  for (int i = static_cast<int>(thread_index()); i < half; i += row_threads) {
    float c = 0, s = 0;
    sine_and_cosine(static_cast<float>(position) * frequency[i], &s, &c);
    cosine[i] = magnitude * c;
    sine[i] = magnitude * s;
  }
}

// RMSNorm over the head at x[at], where there is a weight, then (x_i, x_j) <- (x_i cos a - x_j sin a,
// x_j cos a + x_i sin a) with j = i + half. In place, by one warp; rounded once, when it is stored.
template <dtype type>
UNMASK_DEVICE void norm_and_rotate(void* x, std::int64_t at, const float* norm_weight, int dim,
                                   int half, float eps, const shared_array<float>& cosine,
                                   const shared_array<float>& sine) {
  const int lane = lane_index();
  const bool norm = norm_weight != nullptr;
  float factor = 1;
  if (norm) {
    float squares = 0;
    for (int d = lane; d < dim; d += warp_size) {
      const float e = load_float(x, type, at + d);
      squares = fused_multiply_add(e, e, squares);
    }
    factor = reciprocal_sqrt(warp_sum(squares) / static_cast<float>(dim) + eps);
  }
  const auto normed = [&](int d) {
    const float e = load_float(x, type, at + d);
    return norm ? e * factor * norm_weight[d] : e;
  };
  for (int i = lane; i < half; i += warp_size) {
    const int j = i + half;
    const float a = normed(i), b = normed(j);
    store_float(x, type, at + i, fused_multiply_add(a, cosine[i], -(b * sine[i])));
    store_float(x, type, at + j, fused_multiply_add(b, cosine[i], a * sine[i]));
  }
  if (!norm) return;
  for (int d = 2 * half + lane; d < dim; d += warp_size) store_float(x, type, at + d, normed(d));
}

// The same for a head of 128 elements of which 8, 16, .. 128 rotate, four on each lane; the partner of
// a lane is `apart` lanes away. Returns the lane's elements, as they are stored.
template <dtype type>
UNMASK_DEVICE float_quad norm_and_rotate_quad(void* x, std::int64_t at, const float* norm_weight,
                                              int apart, float eps,
                                              const shared_array<float>& cosine,
                                              const shared_array<float>& sine) {
  const int lane = lane_index();
  float_quad mine = load_quad(x, type, at + 4 * lane);
  if (norm_weight != nullptr) {
    float squares = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) squares = fused_multiply_add(mine.x[e], mine.x[e], squares);
    const float factor = reciprocal_sqrt(warp_sum(squares) / 128.0F + eps);
    const float_quad w = load_quad(norm_weight, dtype::f32, 4 * lane);
#pragma unroll
    for (int e = 0; e < 4; ++e) mine.x[e] = mine.x[e] * factor * w.x[e];
  }
  const bool second = (lane & apart) != 0, rotates = lane < 2 * apart;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float other = shuffle_xor(mine.x[e], apart);
    if (!rotates) continue;
    const int i = 4 * (lane & (apart - 1)) + e;
    mine.x[e] = fused_multiply_add(mine.x[e], cosine[i], (second ? other : -other) * sine[i]);
  }
  store_quad(x, type, at + 4 * lane, mine);
  return type == dtype::f32 ? mine : load_quad(x, type, at + 4 * lane);
}

// Lanes between partners, 0: elements are taken one by one. norm_weight: [dim], or no data.
inline int lanes_apart(const tensor_view& heads, const tensor_view& norm_weight, int dim,
                       int half) {
  const int apart = half / 4;
  const bool power = apart > 0 && (apart & (apart - 1)) == 0;
  const bool quads =
      in_groups(4, heads, dim) && (norm_weight.data == nullptr || in_groups(4, norm_weight, dim));
  return dim == 128 && half % 4 == 0 && power && quads ? apart : 0;
}

// A warp takes one head at a time; the row's sines are computed once for all of them.
template <dtype type>
UNMASK_KERNEL void head_norm_rope_kernel(head_norm_rope_params p) {
  shared_allocator shared;
  const shared_array<float> cosine = shared.take<float>(p.half), sine = shared.take<float>(p.half);
  fill_angles(p.position[block_index()], p.frequency, p.magnitude, p.half, cosine, sine);
  sync_block();
  for (int h = warp_index(); h < p.heads; h += row_threads / warp_size) {
    const std::int64_t at = block_index() * p.x_stride + static_cast<std::int64_t>(h) * p.dim;
    if (p.apart > 0) {
      norm_and_rotate_quad<type>(p.x, at, p.norm_weight, p.apart, p.eps, cosine, sine);
    } else {
      norm_and_rotate<type>(p.x, at, p.norm_weight, p.dim, p.half, p.eps, cosine, sine);
    }
  }
}

struct silu_mul_params {
  const void* gate_up;  // [R, 2 width]
  void* out;            // [R, width]
  dtype gate_up_type, out_type;
  std::int64_t gate_up_stride, out_stride;
  int width;
  bool pieces;  // bfloat16 in and out, in_groups(8)
};

UNMASK_DEVICE float silu(float g) {
  return g / (1.0F + expf(-g));
}

// out = g / (1 + e^-g) * up. Blocks: rows x pieces of a row.
UNMASK_KERNEL void silu_mul_kernel(silu_mul_params p) {
  const std::int64_t gate = static_cast<std::int64_t>(block_index()) * p.gate_up_stride;
  const std::int64_t out = static_cast<std::int64_t>(block_index()) * p.out_stride;
  const int step = row_threads * static_cast<int>(grid_size_y());
  const int first = static_cast<int>(block_index_y() * row_threads + thread_index());
  if (p.pieces) {
    const auto* in = static_cast<const std::uint16_t*>(p.gate_up) + gate;
    auto* to = static_cast<std::uint16_t*>(p.out) + out;
    for (int f = 8 * first; f < p.width; f += 8 * step) {
      const bf16_piece g = word_at<bf16_piece>(in + f);
      const bf16_piece u = word_at<bf16_piece>(in + p.width + f);
      bf16_piece y;
#pragma unroll
      for (int i = 0; i < 4; ++i) y.pair[i] = gated_pair(g.pair[i], u.pair[i]);
      word_at<bf16_piece>(to + f) = y;
    }
    return;
  }
  for (int f = first; f < p.width; f += step) {
    const float g = load_float(p.gate_up, p.gate_up_type, gate + f);
    const float u = load_float(p.gate_up, p.gate_up_type, gate + p.width + f);
    store_float(p.out, p.out_type, out + f, silu(g) * u);
  }
}

struct kv_rows_params {
  const std::int32_t* sequence;  // [R]
  const std::int32_t* slot;      // [R]
  cache_place place;
  cache_side side[2];
  void* row[2];  // [R, width]; null: this side stays as it is
  std::int64_t row_stride[2];
  bool accumulate;  // reading only
};

inline kv_rows_params rows_of(const row_set& rows, const paged_kv& cache, const tensor_view& k,
                              const tensor_view& v, bool accumulate) {
  return {rows.sequence,
          rows.slot != nullptr ? rows.slot : rows.position,
          {cache.page_table, cache.table_stride},
          {side_of(cache.keys), side_of(cache.values)},
          {k.data, v.data},
          {k.row_stride, v.row_stride},
          accumulate};
}

// cache[slot[r]] = row[r], of `type`. Blocks: rows x (keys, values).
template <dtype type>
UNMASK_KERNEL void kv_write_kernel(kv_rows_params p) {
  const int which = static_cast<int>(block_index_y());
  const std::int64_t r = block_index();
  const void* from = p.row[which];
  if (from == nullptr || p.sequence[r] < 0) return;  // a padding row stores nothing
  const cache_side side = p.side[which];
  const std::int64_t to = slot_offset(side, p.place, p.sequence[r], p.slot[r]);
  for (int d = static_cast<int>(thread_index()); d < side.width; d += row_threads) {
    store_float(side.data, side.type, to + d, load_float(from, type, r * p.row_stride[which] + d));
  }
}

struct rotate_and_store_params {
  void* part[3];  // q [R, heads, dim], k and v [R, kv_heads, dim]
  std::int64_t row_stride[3];
  int heads, kv_heads, dim, half, apart;
  const float* norm_weight[2];  // of q and k: [dim] or null
  const float* frequency;       // [half]
  float eps, magnitude;
  const std::int32_t* sequence;  // [R]
  const std::int32_t* position;  // [R]
  const std::int32_t* slot;      // [R]
  cache_place place;
  cache_side side[2];
};

// head_norm_rope of q and k and kv_write of k and v in one pass, bit for bit. Blocks: rows x
// pieces; the warps of a row's pieces share its heads, those of q, then of k, then of v.
template <dtype type>
UNMASK_KERNEL void rotate_and_store_kernel(rotate_and_store_params p) {
  shared_allocator shared;
  const shared_array<float> cosine = shared.take<float>(p.half), sine = shared.take<float>(p.half);
  const std::int64_t r = block_index();
  fill_angles(p.position[r], p.frequency, p.magnitude, p.half, cosine, sine);
  sync_block();
  const int lane = lane_index(), sequence = p.sequence[r], slot = p.slot[r];
  const int warps = row_threads / warp_size;
  for (int h = static_cast<int>(block_index_y()) * warps + warp_index();
       h < p.heads + 2 * p.kv_heads; h += static_cast<int>(grid_size_y()) * warps) {
    const int part = h < p.heads ? 0 : (h < p.heads + p.kv_heads ? 1 : 2);
    const int head = part == 0 ? h : h - p.heads - (part - 1) * p.kv_heads;
    void* x = p.part[part];
    const std::int64_t at = r * p.row_stride[part] + static_cast<std::int64_t>(head) * p.dim;
    float_quad quad{};
    if (p.apart > 0) {
      quad = part < 2 ? norm_and_rotate_quad<type>(x, at, p.norm_weight[part], p.apart, p.eps,
                                                   cosine, sine)
                      : load_quad(x, type, at + 4 * lane);
    } else if (part < 2) {
      norm_and_rotate<type>(x, at, p.norm_weight[part], p.dim, p.half, p.eps, cosine, sine);
    }
    if (part == 0 || sequence < 0) continue;
    const cache_side& side = p.side[part - 1];
    const std::int64_t to =
        slot_offset(side, p.place, sequence, slot) + static_cast<std::int64_t>(head) * p.dim;
    if (p.apart > 0) {
      store_quad(side.data, side.type, to + 4 * lane, quad);
      continue;
    }
    sync_warp();  // a lane stores what others rotated
    for (int d = lane; d < p.dim; d += warp_size) {
      store_float(side.data, side.type, to + d, load_float(x, type, at + d));
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
