// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores: noise of random decoding, sums and roundings of scores, and what the sparse methods
// compute to decide which keys matter. Sums are float64 as in the reference, in an order that
// depends on the sequence alone, so a score never depends on the batch. They differ from the
// reference's sums in the order of addition at most, far below the float32 that is stored.
#pragma once

#include "kernels/cuda/groups.h"
#include "kernels/cuda/model_core_kernels.h"
#include "kernels/random.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int score_threads = 256;

struct noise_params {
  candidate_set candidates;
  noise_source noise;
  float temperature;
  float* score;
};

UNMASK_DEVICE double draw_of(const noise_params& p, int s, int c) {
  const std::uint64_t key =
      stream_key(p.noise.seed[s], static_cast<std::uint32_t>(p.noise.step[s]),
                 static_cast<std::uint32_t>(p.candidates.position[c]));
  return uniform_open(key, score_draw);
}

// One block for each sequence. The largest draws round to 1 in float32; they stay below it.
UNMASK_KERNEL void uniform_scores_kernel(noise_params p) {
  const int s = static_cast<int>(block_index());
  const int last = p.candidates.begin[s + 1];
  for (int c = p.candidates.begin[s] + static_cast<int>(thread_index()); c < last;
       c += static_cast<int>(block_size())) {
    const float u = static_cast<float>(draw_of(p, s, c));
    p.score[c] = u < 0x1.fffffep-1F ? u : 0x1.fffffep-1F;
  }
}

// score / temperature - ln(-ln u) in float64. The two logarithms may differ from the reference's in
// the last of 53 bits, the stored float in its last bit about once in 10^8 draws.
UNMASK_KERNEL void gumbel_scores_kernel(noise_params p) {
  const int s = static_cast<int>(block_index());
  const int last = p.candidates.begin[s + 1];
  for (int c = p.candidates.begin[s] + static_cast<int>(thread_index()); c < last;
       c += static_cast<int>(block_size())) {
    const double gumbel = -log(-log(draw_of(p, s, c)));
    p.score[c] = static_cast<float>(
        static_cast<double>(p.score[c]) / static_cast<double>(p.temperature) + gumbel);
  }
}

struct combine_scores_params {
  std::int32_t count;
  const float* a;
  float wa;
  const float* b;
  float wb;
  float* out;
};

// Products of two floats are exact in float64: one rounding at the sum, one at the store.
UNMASK_KERNEL void combine_scores_kernel(combine_scores_params p) {
  const int step = static_cast<int>(grid_size() * block_size());
  for (int i = static_cast<int>(block_index() * block_size() + thread_index()); i < p.count;
       i += step) {
    const double mine = static_cast<double>(p.a[i]) * static_cast<double>(p.wa);
    const double other =
        p.b != nullptr ? static_cast<double>(p.b[i]) * static_cast<double>(p.wb) : 0.0;
    p.out[i] = static_cast<float>(mine + other);
  }
}

struct round_bf16_params {
  std::int32_t count;
  float* x;
};

UNMASK_KERNEL void round_bf16_kernel(round_bf16_params p) {
  const int step = static_cast<int>(grid_size() * block_size());
  for (int i = static_cast<int>(block_index() * block_size() + thread_index()); i < p.count;
       i += step) {
    p.x[i] = bf16_to_float(bf16_of(p.x[i]));
  }
}

struct pool_params {
  const std::int32_t* begin;
  const float* in;
  std::int32_t half;  // kernel / 2
  bool maximum;
  float* out;
};

// Grid: segments x pieces of a segment.
UNMASK_KERNEL void pool_kernel(pool_params p) {
  const int s = static_cast<int>(block_index());
  const int first = p.begin[s], last = p.begin[s + 1];
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int j = first + static_cast<int>(block_index_y() * block_size() + thread_index()); j < last;
       j += step) {
    const int low = j - p.half > first ? j - p.half : first;
    const int high = j + p.half < last - 1 ? j + p.half : last - 1;
    double sum = 0;
    float largest = float_bits(0xFF800000U);
    for (int i = low; i <= high; ++i) {
      const float x = p.in[i];
      sum += static_cast<double>(x);
      if (x > largest) largest = x;
    }
    p.out[j] = p.maximum ? largest : static_cast<float>(sum / (high - low + 1));
  }
}

// ---- scores of cached keys ----------------------------------------------------------------------

// One side of a paged cache, as kernels see it.
struct cached_keys {
  const void* data;
  dtype type;
  std::int64_t page_stride;        // elements
  std::int32_t width;              // kv_heads * dim
  const std::int32_t* page_table;  // [S, table_stride]
  std::int32_t table_stride;
};

// Element index of the key of a slot.
UNMASK_DEVICE std::int64_t key_at(const cached_keys& keys, int s, int slot) {
  const std::int64_t page =
      keys.page_table[static_cast<std::int64_t>(s) * keys.table_stride + slot / kv_page_size];
  return page * keys.page_stride + static_cast<std::int64_t>(slot % kv_page_size) * keys.width;
}

struct key_scores_params {
  const float* q;  // [S, heads, dim]
  std::int64_t q_stride;
  std::int32_t heads, dim, group;  // heads of one kv head
  cached_keys keys;
  const std::int32_t* kv_length;
  const std::int32_t* key_begin;
  const std::int32_t* key_slot;
  float* score;
};

// The mean over heads of q_h . k_{h / group} is one dot product of the key row with the sums of
// each group's queries. Grid: sequences x pieces; a warp for each key, lanes along its row.
UNMASK_KERNEL void key_scores_kernel(key_scores_params p) {
  shared_allocator shared;
  const block_group group{shared.take<std::uint64_t>(group_words)};
  const auto query = shared.take<double>(p.keys.width);
  const int s = static_cast<int>(block_index());
  const bool listed = p.key_begin != nullptr;
  const int first = listed ? p.key_begin[s] : entries_before(group, p.kv_length, s);
  const int count = listed ? p.key_begin[s + 1] - first : p.kv_length[s];
  for (int i = group.rank(); i < p.keys.width; i += group.size()) {
    const float* q = p.q + s * p.q_stride + i / p.dim * p.group * p.dim + i % p.dim;
    double sum = 0;
    for (int h = 0; h < p.group; ++h) sum += static_cast<double>(q[h * p.dim]);
    query[i] = sum;
  }
  group.sync();
  const int warps = group.size() / warp_size;
  for (int j = static_cast<int>(block_index_y()) * warps + warp_index(); j < count;
       j += static_cast<int>(grid_size_y()) * warps) {
    const std::int64_t key = key_at(p.keys, s, listed ? p.key_slot[first + j] : j);
    double sum = 0;
    for (int d = lane_index(); d < p.keys.width; d += warp_size) {
      sum += product(query[d],
                     static_cast<double>(load_float(p.keys.data, p.keys.type, key + d)));
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) p.score[first + j] = static_cast<float>(sum / p.heads);
  }
}

struct block_mean_keys_params {
  cached_keys keys;
  const std::int32_t* kv_length;
  std::int32_t block;
  const std::int32_t* block_begin;
  const std::int32_t* first_block;  // null: 0
  float* out;
  std::int64_t out_stride;
};

// Grid: sequences x pieces. A block for each key block, a thread for each dimension: the slots are
// summed in their order.
UNMASK_KERNEL void block_mean_keys_kernel(block_mean_keys_params p) {
  const int s = static_cast<int>(block_index());
  const int blocks = p.block_begin[s + 1] - p.block_begin[s];
  for (int b = static_cast<int>(block_index_y()); b < blocks;
       b += static_cast<int>(grid_size_y())) {
    const int first = (p.first_block != nullptr ? p.first_block[s] + b : b) * p.block;
    const int end = first + p.block;
    const int last = p.kv_length[s] < end ? p.kv_length[s] : end;
    float* to = p.out + (p.block_begin[s] + b) * p.out_stride;
    for (int d = static_cast<int>(thread_index()); d < p.keys.width;
         d += static_cast<int>(block_size())) {
      double sum = 0;
      for (int slot = first; slot < last; ++slot) {
        const std::int64_t at = key_at(p.keys, s, slot) + d;
        sum += static_cast<double>(load_float(p.keys.data, p.keys.type, at));
      }
      to[d] = last > first ? static_cast<float>(sum / (last - first)) : 0.0F;
    }
  }
}

// ---- FOCUS importance ---------------------------------------------------------------------------

constexpr int importance_warps = 4;
constexpr int importance_row = 256;  // masked rows of a sequence whose scores stay in shared memory

struct importance_params {
  std::int32_t heads, dim, group;
  const std::int32_t* begin;
  const std::int32_t* index;
  const float* q;
  std::int64_t q_stride;
  const float* k;
  std::int64_t k_stride;
  float scale;
  double* part;           // [entries, heads] each head's share
  float* out;
};

UNMASK_DEVICE double score_of(const importance_params& p, const float* query, int h, int row) {
  const float* key = p.k + row * p.k_stride + h / p.group * p.dim;
  double sum = 0;
  for (int d = 0; d < p.dim; ++d) {
    sum += static_cast<double>(query[d]) * static_cast<double>(key[d]);
  }
  return sum * static_cast<double>(p.scale);
}

UNMASK_DEVICE double larger(double a, double b) {
  return a > b ? a : b;
}

// Grid: sequences x heads. t_ij = max of s_ij and its neighbours in the masked list; part[j] = sum
// over i of softmax_j(t_i). A warp for each query row, lanes over keys; each warp sums its rows in
// order, then the warps are added in order.
UNMASK_KERNEL void importance_kernel(importance_params p) {
  shared_allocator shared;
  const block_group group{shared.take<std::uint64_t>(group_words)};
  const auto scores = shared.take<double>(importance_warps * importance_row);
  const auto sums = shared.take<double>(importance_warps * importance_row);
  const int s = static_cast<int>(block_index()), h = static_cast<int>(block_index_y());
  const int first = p.begin[s], n = p.begin[s + 1] - first;
  const std::int32_t* row = p.index + first;
  double* part = p.part + static_cast<std::int64_t>(first) * p.heads + h;
  const auto query_of = [&](int i) { return p.q + row[i] * p.q_stride + h * p.dim; };

  if (n <= importance_row) {
    const int base = warp_index() * importance_row;
    for (int j = lane_index(); j < n; j += warp_size) sums[base + j] = 0;
    for (int i = warp_index(); i < n; i += importance_warps) {
      const float* query = query_of(i);
      double largest = -HUGE_VAL;
      for (int j = lane_index(); j < n; j += warp_size) {
        const double x = score_of(p, query, h, row[j]);
        scores[base + j] = x;
        largest = larger(largest, x);
      }
      largest = warp_max(largest);
      sync_warp();
      // Computed twice: storing it would overwrite a score that a neighbouring lane still reads.
      const auto weight = [&](int j) {
        const double before = scores[base + (j > 0 ? j - 1 : 0)];
        const double after = scores[base + (j + 1 < n ? j + 1 : n - 1)];
        return exp(larger(larger(before, scores[base + j]), after) - largest);
      };
      double total = 0;
      for (int j = lane_index(); j < n; j += warp_size) total += weight(j);
      total = warp_sum(total);
      for (int j = lane_index(); j < n; j += warp_size) sums[base + j] += weight(j) / total;
      sync_warp();  // the next row overwrites the scores
    }
    sync_block();
    for (int j = group.rank(); j < n; j += group.size()) {
      double sum = 0;
      for (int w = 0; w < importance_warps; ++w) sum += sums[w * importance_row + j];
      part[static_cast<std::int64_t>(j) * p.heads] = sum;
    }
    return;
  }
  // Longer lists: the block takes one query row after the other and recomputes the scores.
  for (int j = group.rank(); j < n; j += group.size()) {
    part[static_cast<std::int64_t>(j) * p.heads] = 0;
  }
  for (int i = 0; i < n; ++i) {
    const float* query = query_of(i);
    const auto pooled = [&](int j) {
      const double before = score_of(p, query, h, row[j > 0 ? j - 1 : 0]);
      const double after = score_of(p, query, h, row[j + 1 < n ? j + 1 : n - 1]);
      return larger(larger(before, score_of(p, query, h, row[j])), after);
    };
    double largest = -HUGE_VAL;
    for (int j = group.rank(); j < n; j += group.size()) {
      largest = larger(largest, score_of(p, query, h, row[j]));
    }
    largest = group_max(group, largest);
    double total = 0;
    for (int j = group.rank(); j < n; j += group.size()) total += exp(pooled(j) - largest);
    total = group_sum(group, total);
    for (int j = group.rank(); j < n; j += group.size()) {
      part[static_cast<std::int64_t>(j) * p.heads] += exp(pooled(j) - largest) / total;
    }
  }
}

// out[j] = the heads' shares, summed in their order. Grid: sequences x pieces.
UNMASK_KERNEL void importance_sum_kernel(importance_params p) {
  const int s = static_cast<int>(block_index());
  const int last = p.begin[s + 1];
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int j = p.begin[s] + static_cast<int>(block_index_y() * block_size() + thread_index());
       j < last; j += step) {
    double sum = 0;
    for (int h = 0; h < p.heads; ++h) sum += p.part[static_cast<std::int64_t>(j) * p.heads + h];
    p.out[j] = static_cast<float>(sum);
  }
}

// ---- SparseD's softmax mass of tiles ------------------------------------------------------------

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
    for (int d = 0; d < p.dim; ++d) {
      sum += static_cast<double>(query[d]) *
             static_cast<double>(load_float(p.keys.data, p.keys.type, key + d));
    }
    return sum * static_cast<double>(p.scale);
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

}  // namespace unmask::cuda::UNMASK_TARGET
