// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD's attention patterns: how much softmax mass each tile holds and which tiles are kept.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/reference/ops.h"

namespace unmask::reference {

// out_shij = size^-2 sum_{r in block i} sum_{k in block j} softmax_k(q_rh . key_kh scale), the
// softmax over [first_slot_s, kv_length_s).
void backend::block_mass(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                         const std::int32_t* kv_length, const std::int32_t* first_slot,
                         std::int32_t size, float scale, const tensor_view& out) const {
  const std::int64_t heads = q.shape[1], dim = q.shape[2], blocks = out.shape[3];
  const std::int64_t group = heads / cache.keys.shape[2];
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    const std::int32_t count = kv_length[s] - first_slot[s];
    const std::int32_t used = (kv_length[s] + size - 1) / size;
    for (std::int64_t h = 0; h < heads && kv_length[s] > 0; ++h) {
      std::vector<double> mass(static_cast<std::size_t>(used * used), 0.0);
      for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
        std::vector<double> weight(static_cast<std::size_t>(count));
        for (std::int32_t j = 0; j < count; ++j) {
          const std::int32_t slot = first_slot[s] + j;
          const std::int32_t page = cache.page_table[s * cache.table_stride + slot / kv_page_size];
          const float* key = cache.keys.row<float>(page) +
                             ((slot % kv_page_size) * cache.keys.shape[2] + h / group) * dim;
          double dot = 0;
          for (std::int64_t d = 0; d < dim; ++d)
            dot += double{q.row<float>(r)[h * dim + d]} * key[d];
          weight[j] = dot * scale;
        }
        const double largest = *std::max_element(weight.begin(), weight.end());
        double total = 0;
        for (double& w : weight) total += w = std::exp(w - largest);
        for (std::int32_t j = 0; j < count; ++j) {
          const std::int32_t key_block = (first_slot[s] + j) / size;
          mass[rows.position[r] / size * used + key_block] += weight[j] / total;
        }
      }
      for (std::int32_t i = 0; i < used; ++i) {
        for (std::int32_t j = first_slot[s] / size; j < used; ++j) {
          out.row<float>(s)[(h * blocks + i) * blocks + j] =
              static_cast<float>(mass[i * used + j] / (double{1} * size * size));
        }
      }
    }
  }
}

// keep_shij = whether j is among the count_s largest mass_shij of [first_s, used_s), for j <
// limit_s; lowest j first on ties.
void backend::keep_top_blocks(const tensor_view& mass, const std::int32_t* used,
                              const std::int32_t* first, const std::int32_t* limit,
                              const std::int32_t* count, const tensor_view& keep) const {
  const std::int64_t heads = mass.shape[1], blocks = mass.shape[3];
  for (std::int32_t s = 0; s < mass.rows(); ++s) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int32_t i = 0; i < used[s]; ++i) {
        const float* score = mass.row<float>(s) + (h * blocks + i) * blocks;
        std::uint8_t* flag = keep.row<std::uint8_t>(s) + (h * blocks + i) * blocks;
        std::vector<std::int32_t> order(static_cast<std::size_t>(used[s] - first[s]));
        std::iota(order.begin(), order.end(), first[s]);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int32_t a, std::int32_t b) { return score[a] > score[b]; });
        for (std::int32_t n = 0; n < used[s] - first[s]; ++n) {
          if (order[n] < limit[s]) flag[order[n]] = n < count[s] ? 1 : 0;
        }
      }
    }
  }
}

// out_si = (1 / heads) sum_h sum_j keep_shij |block j|.
void backend::block_mask_keys(const tensor_view& keep, const std::uint8_t* applies,
                              std::int32_t size, const std::int32_t* kv_length,
                              const tensor_view& out) const {
  const std::int64_t heads = keep.shape[1], blocks = keep.shape[3];
  for (std::int32_t s = 0; s < keep.rows(); ++s) {
    if (applies[s] == 0) continue;
    for (std::int32_t i = 0; i * size < kv_length[s]; ++i) {
      std::int64_t keys = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int32_t j = 0; j * size < kv_length[s]; ++j) {
          if (keep.row<std::uint8_t>(s)[(h * blocks + i) * blocks + j] == 0) continue;
          keys += std::min(size, kv_length[s] - j * size);
        }
      }
      out.row<float>(s)[i] =
          static_cast<float>(static_cast<double>(keys) / static_cast<double>(heads));
    }
  }
}

}  // namespace unmask::reference
