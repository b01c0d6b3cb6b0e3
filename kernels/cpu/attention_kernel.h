// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The attention kernel, written once over a vector type (vec.h).
//
// Vector lanes are query vectors: the rows of one sequence times the query heads that share a KV
// head. Keys and values are read in place, one broadcast scalar at a time, so nothing is
// transposed but the queries, and the softmax of a lane never looks at another lane:
//   S^T [key, lane]  = K [key, dim] Q^T [dim, lane]          Q is multiplied by the scale first
//   O^T [dim, lane] = O^T * exp(m_old - m_new) + V^T [dim, key] P^T [key, lane]
// with the running maximum m and the running sum l of the online softmax (Milakov and Gimelshein
// 2018), over blocks of one KV page, 64 keys, from the sequence's first key on.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/backend.h"
#include "kernels/cpu/vec.h"

namespace unmask::cpu {

inline constexpr int max_lanes = 32;

// Keys and values beyond this, in bytes, come from memory. Less than it stays in the caches of a
// quiet machine, and asking for it ahead costs 3 to 5 % (AMD EPYC, Zen 4, 32 MB of third cache).
inline constexpr std::int64_t cache_bytes = 6 << 20;

// A run of consecutive keys inside one page.
struct key_run {
  std::int32_t first = 0, count = 0;
};

// One tile of query vectors against the keys of its sequence.
struct attention_tile {
  std::int64_t dim = 0;
  int lanes = 0;                               // query vectors, at most attention_kernels::lanes
  const float* query[max_lanes];               // [dim] each
  float* out[max_lanes];                       // [dim] each
  std::int32_t limit[max_lanes];               // keys at slots below it are admitted
  std::int32_t low_limit = 0, high_limit = 0;  // smallest and largest of `limit`
  float scale = 1.0F;
  const float* keys = nullptr;    // of this KV head: page p, place i at (p * 64 + i) * stride
  const float* values = nullptr;  // null: only peak and inverse_sum are wanted, no `out`
  std::int64_t stride = 0;        // floats from one slot to the next
  const std::int32_t* page_table = nullptr;  // of this sequence
  const std::int32_t* list = nullptr;        // slots, or null for 0, 1, 2, ...
  std::int32_t count = 0;                    // keys
  // [count] bit view[lane] is 1 where that lane sees the key; null: every lane sees every key.
  const std::uint32_t* seen = nullptr;
  std::uint8_t view[max_lanes];
  const key_run* runs = nullptr;  // the only keys that are read, ascending; null: all, page by page
  std::int32_t run_count = 0;
  float* scratch = nullptr;  // attention_scratch(dim) floats, 64-byte aligned
  float* peak = nullptr;     // [lanes] final m, and [lanes] 1 / l; null when not wanted
  float* inverse_sum = nullptr;
};

// Keys are taken page by page (in a list: 64 by 64), or run by run.
inline key_run page_run(const attention_tile& t, std::int32_t first) {
  const std::int32_t left = t.count - first;
  return {first, left < kv_page_size ? left : kv_page_size};
}
inline std::int32_t run_total(const attention_tile& t) {
  return t.runs != nullptr ? t.run_count : (t.count + kv_page_size - 1) / kv_page_size;
}
inline key_run run_at(const attention_tile& t, std::int32_t index) {
  return t.runs != nullptr ? t.runs[index] : page_run(t, index * kv_page_size);
}

// Where the key at a slot of the sequence lies in its pages.
inline std::int64_t place_of(const attention_tile& t, std::int32_t slot) {
  return std::int64_t{t.page_table[slot / kv_page_size]} * kv_page_size + slot % kv_page_size;
}

// Floats of scratch of one tile: Q^T and O^T, scores, gathered keys and values.
inline std::int64_t attention_scratch(std::int64_t dim) {
  return 2 * dim * max_lanes + kv_page_size * max_lanes + 2 * kv_page_size * dim + 64;
}

struct attention_kernels {
  int lanes;
  void (*run)(const attention_tile& tile);
  // mass[i] += sum over lanes of the softmax weight of key keys.first + i, given the peak and
  // inverse_sum that run has left.
  void (*mass)(const attention_tile& tile, key_run keys, float* mass);
  // mass[slot / size] += sum over lanes of the softmax weights of the tile's runs, in one pass and
  // without `out`; every key of the runs is admitted. segments: segment_scratch() floats.
  void (*block_mass)(const attention_tile& tile, std::int32_t size, float* segments, double* mass);
  // sum[slot * max_lanes + lane] += the softmax weight of the key at `slot`, every one of the
  // tile's `count` slots admitted, without `out`. score: count * max_lanes floats.
  void (*weights)(const attention_tile& tile, float* score, float* sum);
};

// A segment is what one run holds of one block of `size` keys.
inline std::int64_t segment_scratch(std::int64_t keys, std::int64_t size) {
  const std::int64_t runs = keys / kv_page_size + 2, blocks = keys / size + 2;
  return (2 * runs + blocks) * max_lanes;
}

template <class V>
const attention_kernels& attention_kernels_of();

#if defined(UNMASK_VEC_AVX512) || defined(UNMASK_VEC_AVX2) || defined(UNMASK_VEC_PORTABLE)

// c[r, lane] = (c[r, lane] * carry[lane] or 0) + sum_g a(r, g) b[g, lane], MR rows by NV vectors.
// a(r, g) = a[r * stride + g], or a[g * stride + r] when Across.
template <class V, int MR, int NV, bool Across>
UNMASK_INLINE void lane_product(std::int64_t groups, const float* a, std::int64_t stride,
                                const float* b, float* c, const float* carry) {
  constexpr int width = NV * V::width;
  typename V::f acc[MR][NV];
  UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      const int at = v * V::width;
      acc[r][v] = Across ? V::mul(V::load(c + r * width + at), V::load(carry + at)) : V::zero();
    }
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    typename V::f x[NV];
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) x[v] = V::load(b + v * V::width);
    UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
      const auto w = V::set(Across ? a[r] : a[r * stride]);
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = V::fma(w, x[v], acc[r][v]);
    }
    a += Across ? stride : 1;
    b += width;
  }
  UNMASK_UNROLL for (int r = 0; r < MR; ++r) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      V::store(c + r * width + v * V::width, acc[r][v]);
    }
  }
}

// The keys or the values of the next block, asked for while this block is computed. Other heads lie
// between the rows of one head, and pages end: a processor does not foresee these addresses.
struct rows_ahead {
  const attention_tile* tile = nullptr;
  const float* rows = nullptr;  // keys or values of the tile; null: there is no next block
  key_run run;

  // The next `part` of `parts` equal parts.
  UNMASK_INLINE void ask(std::int64_t part, std::int64_t parts) const {
    if (rows == nullptr) return;
    const std::int64_t first = run.first + run.count * part / parts;
    const std::int64_t last = run.first + run.count * (part + 1) / parts;
    if (tile->list != nullptr) {
      for (std::int64_t i = first; i < last; ++i) ask_row(place_of(*tile, tile->list[i]));
      return;
    }
    const std::int64_t place = place_of(*tile, run.first) - run.first;  // a run lies in one page
    for (std::int64_t i = first; i < last; ++i) ask_row(place + i);
  }

 private:
  UNMASK_INLINE void ask_row(std::int64_t place) const {
    constexpr std::int64_t line = 64 / sizeof(float);
    const float* row = rows + place * tile->stride;
    for (std::int64_t d = 0; d < tile->dim; d += line) __builtin_prefetch(row + d, 0, 2);
  }
};

struct nothing_ahead {
  UNMASK_INLINE void ask(std::int64_t /*part*/, std::int64_t /*parts*/) const {}
};

// Computes all `rows` rows of a product, MR at a time and the rest in smaller and smaller tiles.
template <class V, int MR, int NV, bool Across, class Next = nothing_ahead>
void lane_products(std::int64_t rows, std::int64_t groups, const float* a, std::int64_t stride,
                   const float* b, float* c, const float* carry, const Next& next = {}) {
  constexpr int width = NV * V::width;
  const std::int64_t step = Across ? 1 : stride, tiles = rows / MR;
  std::int64_t r = 0;
  for (; r + MR <= rows; r += MR) {
    next.ask(r / MR, tiles);
    lane_product<V, MR, NV, Across>(groups, a + r * step, stride, b, c + r * width, carry);
  }
  if constexpr (MR > 1) {
    if (r < rows) {
      lane_products<V, MR / 2, NV, Across>(rows - r, groups, a + r * step, stride, b, c + r * width,
                                           carry);
    }
  }
}

// Rows of one block: a pointer and a distance, straight into the page or into gathered copies.
struct key_block {
  const float* keys;
  const float* values;
  std::int64_t stride;
  std::int32_t count;
};

inline key_block take_block(const attention_tile& t, key_run run, float* gathered,
                            bool with_values) {
  const std::int32_t first = run.first, count = run.count;
  if (t.list == nullptr) {
    const std::int64_t place = place_of(t, first);
    return {t.keys + place * t.stride, with_values ? t.values + place * t.stride : nullptr,
            t.stride, count};
  }
  const std::int32_t* list = t.list + first;
  std::int32_t next = 1;
  while (next < count && list[next] == list[0] + next && list[next] % kv_page_size != 0) ++next;
  if (next == count) {  // side by side in one page: read where they lie
    const std::int64_t place = place_of(t, list[0]);
    return {t.keys + place * t.stride, with_values ? t.values + place * t.stride : nullptr,
            t.stride, count};
  }
  float* keys = gathered;
  float* values = gathered + kv_page_size * t.dim;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int64_t place = place_of(t, list[i]);
    const auto bytes = static_cast<std::size_t>(t.dim) * sizeof(float);
    __builtin_memcpy(keys + i * t.dim, t.keys + place * t.stride, bytes);
    if (with_values) __builtin_memcpy(values + i * t.dim, t.values + place * t.stride, bytes);
  }
  return {keys, values, t.dim, count};
}

// Scratch of one tile, cut into its parts.
template <int Width>
struct tile_memory {
  float *query, *sum, *score, *gathered;
  explicit tile_memory(const attention_tile& t)
      : query(t.scratch),
        sum(query + t.dim * Width),
        score(sum + t.dim * Width),
        gathered(score + kv_page_size * Width) {}
};

// Q^T times the scale; lanes beyond the last query hold zeros.
template <int Width>
void load_queries(const attention_tile& t, float* out) {
  for (std::int64_t d = 0; d < t.dim; ++d) {
    for (int j = 0; j < Width; ++j) {
      out[d * Width + j] = j < t.lanes ? t.query[j][d] * t.scale : 0.0F;
    }
  }
}

// Minus infinity if the view of a lane does not contain a key of the block that begins at key
// `first`.
template <int Width>
void hide_unseen(const attention_tile& t, std::int32_t first, std::int32_t count, float* score) {
  for (std::int32_t i = 0; i < count; ++i) {
    const std::uint32_t seen = t.seen[first + i];
    if (seen == ~std::uint32_t{0}) continue;
    for (int j = 0; j < t.lanes; ++j) {
      if (((seen >> t.view[j]) & 1U) == 0) score[i * Width + j] = -__builtin_inff();
    }
  }
}

// Computes the scores of one block, minus infinity for keys that a lane does not see.
template <class V, int MR, int NV, class Next = nothing_ahead>
void score_block(const attention_tile& t, const key_block& block, std::int32_t first,
                 const std::int32_t* limit, const float* query, float* score,
                 const Next& next = {}) {
  constexpr int width = NV * V::width;
  lane_products<V, MR, NV, false>(block.count, t.dim, block.keys, block.stride, query, score,
                                  nullptr, next);
  if (t.seen != nullptr) hide_unseen<width>(t, first, block.count, score);
  if (t.list == nullptr && first + block.count <= t.low_limit) return;
  const auto never = V::set(-__builtin_inff());
  for (std::int32_t i = 0; i < block.count; ++i) {
    const std::int32_t slot = t.list == nullptr ? first + i : t.list[first + i];
    if (slot < t.low_limit) continue;
    float* s = score + i * width;
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      const auto admitted = V::less(V::set_i(slot), V::load_i(limit + v * V::width));
      V::store(s + v * V::width, V::select(admitted, V::load(s + v * V::width), never));
    }
  }
}

template <int Width>
void load_limits(const attention_tile& t, std::int32_t* limit) {
  for (int j = 0; j < Width; ++j) limit[j] = j < t.lanes ? t.limit[j] : t.limit[0];
}

template <class V, int MR, int NV, bool Far>
void attention_run_lanes(const attention_tile& t) {
  constexpr int width = NV * V::width;
  const tile_memory<width> memory(t);
  alignas(64) std::int32_t limit[width];
  alignas(64) float peak[width], carry[width], total[width];
  load_limits<width>(t, limit);
  load_queries<width>(t, memory.query);
  for (std::int64_t i = 0; i < t.dim * width; ++i) memory.sum[i] = 0.0F;
  typename V::f m[NV], l[NV];
  UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
    m[v] = V::set(-__builtin_inff());
    l[v] = V::zero();
  }
  const std::int32_t runs = run_total(t);
  for (std::int32_t at = 0; at < runs; ++at) {
    const key_run run = run_at(t, at);
    if (t.list == nullptr && run.first >= t.high_limit) break;
    const key_block block = take_block(t, run, memory.gathered, t.values != nullptr);
    std::conditional_t<Far, rows_ahead, nothing_ahead> next_keys, next_values;
    if constexpr (Far) {
      if (at + 1 < runs) {
        next_keys = {&t, t.keys, run_at(t, at + 1)};
        next_values = {&t, t.values, next_keys.run};
      }
    }
    score_block<V, MR, NV>(t, block, run.first, limit, memory.query, memory.score, next_keys);
    typename V::f now[NV], base[NV], part[NV];
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) now[v] = m[v];
    for (std::int32_t i = 0; i < block.count; ++i) {
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
        now[v] = V::max(now[v], V::load(memory.score + i * width + v * V::width));
      }
    }
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      // A lane that has seen no key yet subtracts 0 instead of minus infinity.
      const auto seen = V::less(V::set(-__builtin_inff()), now[v]);
      const auto unseen_zero = V::select(seen, now[v], V::zero());
      base[v] = unseen_zero;
      const auto shrink = exp_nonpositive<V>(V::sub(m[v], base[v]));
      V::store(carry + v * V::width, shrink);
      l[v] = V::mul(l[v], shrink);
      m[v] = now[v];
      part[v] = V::zero();
    }
    for (std::int32_t i = 0; i < block.count; ++i) {
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
        float* s = memory.score + i * width + v * V::width;
        const auto p = exp_nonpositive<V>(V::sub(V::load(s), base[v]));
        V::store(s, p);
        part[v] = V::add(part[v], p);
      }
    }
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) l[v] = V::add(l[v], part[v]);
    if (t.values == nullptr) continue;
    lane_products<V, MR, NV, true>(t.dim, block.count, block.values, block.stride, memory.score,
                                   memory.sum, carry, next_values);
  }
  UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
    V::store(peak + v * V::width, m[v]);
    V::store(total + v * V::width, l[v]);
  }
  for (int j = 0; j < t.lanes; ++j) {
    const float inverse = total[j] == 0.0F ? 0.0F : 1.0F / total[j];  // 0: no key was admitted
    // Adding 0 turns -0 into 0: whether a fully masked block was visited must not show.
    for (std::int64_t d = 0; d < t.dim && t.values != nullptr; ++d) {
      t.out[j][d] = memory.sum[d * width + j] * inverse + 0.0F;
    }
    if (t.peak != nullptr) {
      t.peak[j] = total[j] == 0.0F ? 0.0F : peak[j];
      t.inverse_sum[j] = inverse;
    }
  }
}

template <class V, int MR, int NV>
void attention_mass_lanes(const attention_tile& t, key_run keys, float* mass) {
  constexpr int width = NV * V::width;
  if (t.list == nullptr && keys.first >= t.high_limit) return;
  const tile_memory<width> memory(t);
  alignas(64) std::int32_t limit[width];
  alignas(64) float peak[width], inverse[width];
  load_limits<width>(t, limit);
  load_queries<width>(t, memory.query);
  for (int j = 0; j < width; ++j) {
    peak[j] = j < t.lanes ? t.peak[j] : 0.0F;
    inverse[j] = j < t.lanes ? t.inverse_sum[j] : 0.0F;
  }
  const key_block block = take_block(t, keys, memory.gathered, false);
  score_block<V, MR, NV>(t, block, keys.first, limit, memory.query, memory.score);
  for (std::int32_t i = 0; i < block.count; ++i) {
    float* s = memory.score + i * width;
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      const int at = v * V::width;
      const auto p = exp_nonpositive<V>(V::sub(V::load(s + at), V::load(peak + at)));
      V::store(s + at, V::mul(p, V::load(inverse + at)));
    }
  }
  // Lanes in ascending order for every key; keys side by side hide the latency of the additions.
  constexpr std::int32_t together = 8;
  for (std::int32_t i = 0; i < block.count; i += together) {
    const std::int32_t n = block.count - i < together ? block.count - i : together;
    float sum[together] = {};
    const float* s = memory.score + i * width;
    if (n == together) {
      for (int j = 0; j < t.lanes; ++j) {
        UNMASK_UNROLL for (int k = 0; k < together; ++k) sum[k] += s[k * width + j];
      }
    } else {
      for (std::int32_t k = 0; k < n; ++k) {
        for (int j = 0; j < t.lanes; ++j) sum[k] += s[k * width + j];
      }
    }
    for (std::int32_t k = 0; k < n; ++k) mass[i + k] += sum[k];
  }
}

// The online softmax once more, without values: the sum of exponentials of every segment is kept
// relative to the maximum so far, and becomes a weight when the final maximum and sum are known.
template <class V, int MR, int NV>
void attention_block_mass_lanes(const attention_tile& t, std::int32_t size, float* segments,
                                double* mass) {
  constexpr int width = NV * V::width;
  const tile_memory<width> memory(t);
  load_queries<width>(t, memory.query);
  float* peaks = segments;  // [runs, width] the maximum up to and including a run
  float* sums = peaks + std::int64_t{t.run_count} * width;  // [segments, width]
  typename V::f m[NV], l[NV];
  UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
    m[v] = V::set(-__builtin_inff());
    l[v] = V::zero();
  }
  const auto end_of = [&](key_run run, std::int32_t slot) {
    const std::int32_t block_end = (slot / size + 1) * size, run_end = run.first + run.count;
    return block_end < run_end ? block_end : run_end;
  };
  float* sum = sums;
  for (std::int32_t at = 0; at < t.run_count; ++at) {
    const key_run run = t.runs[at];
    const key_block block = take_block(t, run, memory.gathered, false);
    lane_products<V, MR, NV, false>(block.count, t.dim, block.keys, block.stride, memory.query,
                                    memory.score, nullptr);
    for (std::int32_t i = 0; i < block.count; ++i) {
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
        m[v] = V::max(m[v], V::load(memory.score + i * width + v * V::width));
      }
    }
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) V::store(peaks + at * width + v * V::width, m[v]);
    for (std::int32_t slot = run.first; slot < run.first + run.count; sum += width) {
      typename V::f part[NV];
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) part[v] = V::zero();
      for (const std::int32_t end = end_of(run, slot); slot < end; ++slot) {
        const float* s = memory.score + (slot - run.first) * width;
        UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
          part[v] = V::add(part[v], exp_nonpositive<V>(V::sub(V::load(s + v * V::width), m[v])));
        }
      }
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) V::store(sum + v * V::width, part[v]);
    }
  }
  sum = sums;
  for (std::int32_t at = 0; at < t.run_count; ++at) {
    const key_run run = t.runs[at];
    typename V::f shrink[NV];
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      shrink[v] = exp_nonpositive<V>(V::sub(V::load(peaks + at * width + v * V::width), m[v]));
    }
    for (std::int32_t slot = run.first; slot < run.first + run.count; sum += width) {
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
        const auto scaled = V::mul(V::load(sum + v * V::width), shrink[v]);
        V::store(sum + v * V::width, scaled);
        l[v] = V::add(l[v], scaled);
      }
      slot = end_of(run, slot);
    }
  }
  alignas(64) float inverse[width], weight[width];
  UNMASK_UNROLL for (int v = 0; v < NV; ++v) V::store(inverse + v * V::width, l[v]);
  for (int j = 0; j < width; ++j) inverse[j] = j < t.lanes ? 1.0F / inverse[j] : 0.0F;
  sum = sums;
  for (std::int32_t at = 0; at < t.run_count; ++at) {
    const key_run run = t.runs[at];
    for (std::int32_t slot = run.first; slot < run.first + run.count; sum += width) {
      UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
        V::store(weight + v * V::width,
                 V::mul(V::load(sum + v * V::width), V::load(inverse + v * V::width)));
      }
      // By halves: a chain of additions as long as the vector is wide would cost more than it adds.
      for (int half = width / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) weight[j] += weight[j + half];
      }
      mass[slot / size] += double{weight[0]};
      slot = end_of(run, slot);
    }
  }
}

// All scores are kept until the maximum is known: every weight is wanted, not a sum over keys.
template <class V, int MR, int NV>
void attention_weights_lanes(const attention_tile& t, float* score, float* sum) {
  constexpr int width = NV * V::width;
  const tile_memory<width> memory(t);
  load_queries<width>(t, memory.query);
  typename V::f peak[NV], total[NV];
  UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
    peak[v] = V::set(-__builtin_inff());
    total[v] = V::zero();
  }
  for (std::int32_t first = 0; first < t.count; first += kv_page_size) {
    const key_block block = take_block(t, page_run(t, first), memory.gathered, false);
    lane_products<V, MR, NV, false>(block.count, t.dim, block.keys, block.stride, memory.query,
                                    score + std::int64_t{first} * width, nullptr);
  }
  for (std::int32_t i = 0; i < t.count; ++i) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      peak[v] = V::max(peak[v], V::load(score + std::int64_t{i} * width + v * V::width));
    }
  }
  for (std::int32_t i = 0; i < t.count; ++i) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      float* s = score + std::int64_t{i} * width + v * V::width;
      const auto p = exp_nonpositive<V>(V::sub(V::load(s), peak[v]));
      V::store(s, p);
      total[v] = V::add(total[v], p);
    }
  }
  UNMASK_UNROLL for (int v = 0; v < NV; ++v) total[v] = V::set(1.0F) / total[v];
  for (std::int32_t i = 0; i < t.count; ++i) {
    UNMASK_UNROLL for (int v = 0; v < NV; ++v) {
      float* to = sum + std::int64_t{i} * max_lanes + v * V::width;
      const auto p = V::load(score + std::int64_t{i} * width + v * V::width);
      V::store(to, V::fma(p, total[v], V::load(to)));
    }
  }
}

template <class V, int MR>
void attention_weights(const attention_tile& t, float* score, float* sum) {
  if (t.lanes <= V::width) {
    attention_weights_lanes<V, MR, 1>(t, score, sum);
  } else {
    attention_weights_lanes<V, MR, 2>(t, score, sum);
  }
}

template <class V, int MR>
void attention_block_mass(const attention_tile& t, std::int32_t size, float* segments,
                          double* mass) {
  if (t.lanes <= V::width) {
    attention_block_mass_lanes<V, MR, 1>(t, size, segments, mass);
  } else {
    attention_block_mass_lanes<V, MR, 2>(t, size, segments, mass);
  }
}

template <class V, int MR, bool Far>
void attention_run_any(const attention_tile& t) {
  if (t.lanes <= V::width) {
    attention_run_lanes<V, MR, 1, Far>(t);
  } else {
    attention_run_lanes<V, MR, 2, Far>(t);
  }
}

template <class V, int MR>
void attention_run(const attention_tile& t) {
  // The other heads' keys and values go through the same cache.
  if (t.count * t.stride * std::int64_t{2 * sizeof(float)} > cache_bytes) {
    attention_run_any<V, MR, true>(t);
  } else {
    attention_run_any<V, MR, false>(t);
  }
}

template <class V, int MR>
void attention_mass(const attention_tile& t, key_run keys, float* mass) {
  if (t.lanes <= V::width) {
    attention_mass_lanes<V, MR, 1>(t, keys, mass);
  } else {
    attention_mass_lanes<V, MR, 2>(t, keys, mass);
  }
}

template <class V>
const attention_kernels& attention_kernels_of() {
  constexpr int MR = V::attention_rows;
  static constexpr attention_kernels kernels = {2 * V::width, attention_run<V, MR>,
                                                attention_mass<V, MR>, attention_block_mass<V, MR>,
                                                attention_weights<V, MR>};
  return kernels;
}

#endif

}  // namespace unmask::cpu
