// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The matrix-product kernel, written once over a vector type (vec.h) and compiled per instruction
// set by compiled/gemm.cpp.
//
// One call multiplies `rows` rows of activations by one panel of weights. The panel is read in
// blocks of `block_groups` groups (one group: one k of f32, two of bf16, four of int8), small
// enough to stay in the L1 cache while the row tiles pass over it; the running sums wait in
// `partial` between blocks, so blocking does not change the order of a sum. While a block is used
// the next one is prefetched, which also runs on into the panel that follows.
//
// A register tile is MR rows by `nv` vectors. Every row of every tile size performs the same chain
// acc = fma(x[k], w[k], acc) over ascending k.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/vec.h"

namespace unmask::cpu {

struct gemm_unit {
  weight_format format = weight_format::f32;
  const std::byte* panel = nullptr;       // this panel's weights
  std::int64_t depth = 0;                 // K
  const void* a = nullptr;                // first row: float, or quantised bytes for int8
  std::int64_t a_stride = 0;              // 4-byte words from one row to the next
  const float* a_scale = nullptr;         // int8: [rows]
  const float* w_scale = nullptr;         // int8: [panel width]
  const std::int32_t* w_start = nullptr;  // int8: [panel width] where each integer sum starts
  std::int64_t rows = 0;
  float* y = nullptr;
  std::int64_t y_stride = 0;
  std::int64_t columns = 0;     // features of this panel that exist
  const float* bias = nullptr;  // [columns] or null
  bool accumulate = false;
};

// The kernels of one instruction set.
struct gemm_kernels {
  int panel_width;
  bool bias_activation;  // int8 activations are stored as value + 128
  void (*multiply)(const gemm_unit& unit);
  // One row: scale = max|x| / 127 (NaN when x has a NaN or an infinity), bytes padded with the
  // stored form of zero up to padded_depth.
  void (*quantize)(const float* x, std::int64_t depth, std::int64_t padded_depth,
                   std::uint8_t* bytes, float* scale);
};
template <class V>
const gemm_kernels& gemm_kernels_of();

#if defined(UNMASK_VEC_AVX512) || defined(UNMASK_VEC_AVX2) || defined(UNMASK_VEC_PORTABLE)

inline constexpr std::int64_t block_groups = 128;
inline constexpr std::int64_t chunk_rows = 64;

// Multiply-accumulate of one format. A 4-byte word of activations is one float or four bytes.
template <class V>
struct mac_f32 {
  using acc = typename V::f;
  static UNMASK_INLINE acc zero() { return V::zero(); }
  static UNMASK_INLINE acc load(const float* p) { return V::load(p); }
  static UNMASK_INLINE void store(float* p, acc x) { V::store(p, x); }
  static UNMASK_INLINE acc weights(const std::byte* p) {
    return V::load(reinterpret_cast<const float*>(p));
  }
  static UNMASK_INLINE acc activation(const float* p) { return V::set(*p); }
  static UNMASK_INLINE acc mac(acc c, acc a, acc b) { return V::fma(a, b, c); }
};

template <class V>
struct mac_int8 {
  using acc = typename V::i;
  static UNMASK_INLINE acc zero() { return V::zero_i(); }
  static UNMASK_INLINE acc load(const float* p) { return V::load_i(p); }
  static UNMASK_INLINE void store(float* p, acc x) { V::store_i(p, x); }
  static UNMASK_INLINE acc weights(const std::byte* p) { return V::load_i(p); }
  static UNMASK_INLINE acc activation(const float* p) {
    std::int32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return V::set_i(word);
  }
  static UNMASK_INLINE acc mac(acc c, acc a, acc b) { return V::dot4(c, a, b); }
};

// MR rows by NV vectors over `groups` groups; a points at the first group of the first row, b at
// the first group of the block. PF cache lines of `next` are prefetched per group.
template <class V, class O, int MR, int NV, int PF>
void gemm_tile(std::int64_t groups, const float* a, std::int64_t a_stride, const std::byte* b,
               const std::byte* next, float* partial, bool first) {
  using acc_t = typename O::acc;
  constexpr int bytes = NV * V::width * 4;
  acc_t acc[MR][NV];
  if (first) {
    UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = O::zero();
    }
  } else {
    UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
        acc[r][v] = O::load(partial + (r * NV + v) * V::width);
      }
    }
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    acc_t w[NV];
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) w[v] = O::weights(b + v * V::width * 4);
    UNMASK_UNROLL for (int i = 0; i < PF; ++i) __builtin_prefetch(next + i * 64, 0, 2);
    UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
      const acc_t x = O::activation(a + r * a_stride);
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = O::mac(acc[r][v], x, w[v]);
    }
    ++a;
    b += bytes;
    if constexpr (PF > 0) next += PF * 64;
  }
  UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      O::store(partial + (r * NV + v) * V::width, acc[r][v]);
    }
  }
}

// The same over bf16 weights stored in pairs of k: word n holds W[n, k] low and W[n, k + 1] high.
// `depth` counts k and may be odd at the end of the matrix.
template <class V, int MR, int NV>
void bf16_tile(std::int64_t depth, const float* a, std::int64_t a_stride, const std::byte* b,
               const std::byte* next, float* partial, bool first) {
  typename V::f acc[MR][NV];
  UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      acc[r][v] = first ? V::zero() : V::load(partial + (r * NV + v) * V::width);
    }
  }
  for (std::int64_t k = 0; k < depth; k += 2) {
    typename V::i w[NV];
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      w[v] = V::load_i(b + v * V::width * 4);
      __builtin_prefetch(next + v * V::width * 4, 0, 2);
    }
    UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
      const auto x = V::set(a[r * a_stride]);
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
        acc[r][v] = V::fma(x, V::low_bf16(w[v]), acc[r][v]);
      }
    }
    if (k + 1 < depth) {
      UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
        const auto x = V::set(a[r * a_stride + 1]);
        UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
          acc[r][v] = V::fma(x, V::high_bf16(w[v]), acc[r][v]);
        }
      }
    }
    a += 2;
    b += NV * V::width * 4;
    next += NV * V::width * 4;
  }
  UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      V::store(partial + (r * NV + v) * V::width, acc[r][v]);
    }
  }
}

// A block of bf16 pairs as a block of f32, for when several row tiles share it.
template <class V, int NV>
void widen_block(std::int64_t depth, const std::byte* b, float* out) {
  constexpr int width = NV * V::width;
  for (std::int64_t k = 0; k < depth; k += 2) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      const auto w = V::load_i(b + v * V::width * 4);
      V::store(out + v * V::width, V::low_bf16(w));
      V::store(out + width + v * V::width, V::high_bf16(w));
    }
    b += width * 4;
    out += 2 * width;
  }
}

template <class V, class O, int MR, int NV, int PF>
void edge_tile(int rows, std::int64_t groups, const float* a, std::int64_t a_stride,
               const std::byte* b, const std::byte* next, float* partial, bool first) {
  if constexpr (MR > 0) {
    if (rows == MR) {
      gemm_tile<V, O, MR, NV, PF>(groups, a, a_stride, b, next, partial, first);
    } else {
      edge_tile<V, O, MR - 1, NV, PF>(rows, groups, a, a_stride, b, next, partial, first);
    }
  }
}

template <class V, int MR, int NV>
void bf16_edge_tile(int rows, std::int64_t depth, const float* a, std::int64_t a_stride,
                    const std::byte* b, const std::byte* next, float* partial, bool first) {
  if constexpr (MR > 0) {
    if (rows == MR) {
      bf16_tile<V, MR, NV>(depth, a, a_stride, b, next, partial, first);
    } else {
      bf16_edge_tile<V, MR - 1, NV>(rows, depth, a, a_stride, b, next, partial, first);
    }
  }
}

// All row tiles of a chunk over one block.
template <class V, class O, int MR, int NV>
void block_pass(std::int64_t rows, std::int64_t groups, const float* a, std::int64_t a_stride,
                const std::byte* b, const std::byte* next, float* partial, bool first) {
  // Cache lines of the next block that each group of this block must fetch, over all tiles.
  constexpr int lines = (NV * V::width * 4 + 63) / 64;
  constexpr int width = NV * V::width;
  if (rows <= MR) {
    edge_tile<V, O, MR, NV, lines>(static_cast<int>(rows), groups, a, a_stride, b, next, partial,
                                   first);
    return;
  }
  std::int64_t r = 0;
  const bool few = rows < lines * MR;  // then fetch everything during the first tile
  for (; r + MR <= rows; r += MR) {
    const float* at = a + r * a_stride;
    float* sum = partial + r * width;
    const std::int64_t tile = r / MR;
    if (few && tile == 0) {
      gemm_tile<V, O, MR, NV, lines>(groups, at, a_stride, b, next, sum, first);
    } else if (!few && tile < lines) {
      gemm_tile<V, O, MR, NV, 1>(groups, at, a_stride, b, next + tile * groups * 64, sum, first);
    } else {
      gemm_tile<V, O, MR, NV, 0>(groups, at, a_stride, b, next, sum, first);
    }
  }
  if (r < rows) {
    edge_tile<V, O, MR - 1, NV, 0>(static_cast<int>(rows - r), groups, a + r * a_stride, a_stride,
                                   b, next, partial + r * width, first);
  }
}

// Sums to outputs: scales of int8, bias, the old y.
template <class V, int NV>
void finish_rows(const gemm_unit& u, std::int64_t row, std::int64_t rows, const float* partial) {
  constexpr int width = NV * V::width;
  const bool integer = u.format == weight_format::int8;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* y = u.y + (row + r) * u.y_stride;
    const float* sum = partial + r * width;
    alignas(64) float edge[width];
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      const int n = v * V::width;
      auto value = V::load(sum + n);
      if (integer) {
        const auto total = V::add(V::load_i(sum + n), V::load_i(u.w_start + n));
        value =
            V::mul(V::mul(V::to_float(total), V::load(u.w_scale + n)), V::set(u.a_scale[row + r]));
      }
      const bool whole = n + V::width <= u.columns;
      if (whole && u.bias != nullptr) value = V::add(value, V::load(u.bias + n));
      if (whole && u.accumulate) value = V::add(V::load(y + n), value);
      V::store(whole ? y + n : edge + n, value);
    }
    for (std::int64_t n = u.columns / V::width * V::width; n < u.columns; ++n) {
      float value = edge[n];
      if (u.bias != nullptr) value += u.bias[n];
      y[n] = u.accumulate ? y[n] + value : value;
    }
  }
}

template <class V, int MR, int NV>
void gemm_multiply(const gemm_unit& u) {
  constexpr int width = NV * V::width;
  alignas(64) float partial[chunk_rows * width];
  alignas(64) float wide[block_groups * width];
  const int per_group = u.format == weight_format::f32    ? 1
                        : u.format == weight_format::bf16 ? 2
                                                          : 4;
  const std::int64_t total = (u.depth + per_group - 1) / per_group;
  // bf16 blocks cover as many k as f32 blocks do, so that the widened block has the same size.
  const std::int64_t step = u.format == weight_format::bf16 ? block_groups / 2 : block_groups;
  for (std::int64_t row = 0; row < u.rows; row += chunk_rows) {
    const std::int64_t rows = u.rows - row < chunk_rows ? u.rows - row : chunk_rows;
    const float* chunk = static_cast<const float*>(u.a) + row * u.a_stride;
    for (std::int64_t g = 0; g < total; g += step) {
      const std::int64_t groups = total - g < step ? total - g : step;
      const std::byte* b = u.panel + g * width * 4;
      const std::byte* next = b + step * width * 4;
      const bool first = g == 0;
      if (u.format == weight_format::f32) {
        block_pass<V, mac_f32<V>, MR, NV>(rows, groups, chunk + g, u.a_stride, b, next, partial,
                                          first);
      } else if (u.format == weight_format::int8) {
        block_pass<V, mac_int8<V>, MR, NV>(rows, groups, chunk + g, u.a_stride, b, next, partial,
                                           first);
      } else {
        const std::int64_t k = 2 * g;
        const std::int64_t depth = u.depth - k < 2 * groups ? u.depth - k : 2 * groups;
        if (rows <= MR) {
          bf16_edge_tile<V, MR, NV>(static_cast<int>(rows), depth, chunk + k, u.a_stride, b, next,
                                    partial, first);
        } else {
          widen_block<V, NV>(depth, b, wide);
          block_pass<V, mac_f32<V>, MR, NV>(rows, depth, chunk + k, u.a_stride,
                                            reinterpret_cast<const std::byte*>(wide), next, partial,
                                            first);
        }
      }
    }
    finish_rows<V, NV>(u, row, rows, partial);
  }
}

template <class V>
void gemm_quantize(const float* x, std::int64_t depth, std::int64_t padded_depth,
                   std::uint8_t* bytes, float* scale) {
  constexpr int w = V::width;
  auto high = V::zero();
  auto poison = V::zero();  // x * 0: NaN once x has a NaN or an infinity
  std::int64_t k = 0;
  for (; k + w <= depth; k += w) {
    const auto v = V::load(x + k);
    high = V::max(high, V::abs(v));
    poison = V::add(poison, V::mul(v, V::zero()));
  }
  float lane[w], bad[w];
  V::store(lane, high);
  V::store(bad, poison);
  float top = 0, fault = 0;
  for (int j = 0; j < w; ++j) {
    top = lane[j] > top ? lane[j] : top;
    fault += bad[j];
  }
  for (std::int64_t t = k; t < depth; ++t) {
    const float v = __builtin_fabsf(x[t]);
    top = v > top ? v : top;
    fault += x[t] * 0.0F;
  }
  *scale = top / 127.0F + fault;
  const float inverse = top > 0 && fault == 0 ? 127.0F / top : 0.0F;
  constexpr int zero = V::bias_activation ? 128 : 0;
  std::int32_t q[w];
  for (k = 0; k + w <= depth; k += w) {
    V::store_i(q, V::to_int(V::mul(V::load(x + k), V::set(inverse))));
    for (int j = 0; j < w; ++j) bytes[k + j] = static_cast<std::uint8_t>(q[j] + zero);
  }
  if (k < depth) {
    for (int j = 0; j < w; ++j) lane[j] = k + j < depth ? x[k + j] : 0.0F;
    V::store_i(q, V::to_int(V::mul(V::load(lane), V::set(inverse))));
    for (int j = 0; k + j < depth; ++j) bytes[k + j] = static_cast<std::uint8_t>(q[j] + zero);
  }
  for (k = depth; k < padded_depth; ++k) bytes[k] = zero;
}

template <class V>
const gemm_kernels& gemm_kernels_of() {
  constexpr int MR = V::gemm_rows, NV = V::gemm_vectors;
  static constexpr gemm_kernels kernels = {NV * V::width, V::bias_activation,
                                           gemm_multiply<V, MR, NV>, gemm_quantize<V>};
  return kernels;
}

#endif

}  // namespace unmask::cpu
