// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores of cached tokens and which of them to keep, for the sparse and evicting methods.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/reference/ops.h"

namespace unmask::reference {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

const float* cached(const paged_kv& cache, const tensor_view& side, std::int32_t s,
                    std::int32_t slot) {
  const std::int32_t page = cache.page_table[s * cache.table_stride + slot / kv_page_size];
  return side.row<float>(page) + (slot % kv_page_size) * side.shape[2] * side.shape[3];
}

}  // namespace

// The first n of each segment in descending order of score, lowest index first on ties; NaN comes
// after every number.
void backend::top_indices(std::int32_t segments, const std::int32_t* begin, const float* score,
                          const std::int32_t* out_begin, std::int32_t* out) const {
  for (std::int32_t s = 0; s < segments; ++s) {
    const std::int32_t n = out_begin[s + 1] - out_begin[s];
    if (n > begin[s + 1] - begin[s]) throw std::logic_error("top_indices: segment too short");
    std::vector<std::int32_t> order(static_cast<std::size_t>(begin[s + 1] - begin[s]));
    std::iota(order.begin(), order.end(), 0);
    const float* value = score + begin[s];
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      if (std::isnan(value[a]) || std::isnan(value[b])) {
        return std::isnan(value[b]) && !std::isnan(value[a]);
      }
      return value[a] > value[b];
    });
    std::copy_n(order.begin(), n, out + out_begin[s]);
  }
}

// out_j = max or mean of in over [j - kernel / 2, j + kernel / 2] inside the segment.
void backend::pool(std::int32_t segments, const std::int32_t* begin, const float* in,
                   std::int32_t kernel, bool maximum, float* out) const {
  if (kernel < 1 || kernel % 2 == 0) throw std::logic_error("pool: the window must be odd");
  for (std::int32_t s = 0; s < segments; ++s) {
    for (std::int32_t j = begin[s]; j < begin[s + 1]; ++j) {
      const std::int32_t low = std::max(begin[s], j - kernel / 2);
      const std::int32_t high = std::min(begin[s + 1] - 1, j + kernel / 2);
      double sum = 0;
      float largest = minus_infinity;
      for (std::int32_t i = low; i <= high; ++i) {
        sum += in[i];
        if (in[i] > largest) largest = in[i];
      }
      out[j] = maximum ? largest : static_cast<float>(sum / (high - low + 1));
    }
  }
}

// score = (1 / heads) sum_h q[s, h] . key[slot, h / group].
void backend::key_scores(const tensor_view& q, const paged_kv& cache, const key_set& keys,
                         float* score) const {
  const std::int64_t heads = q.shape[1], dim = q.shape[2];
  const std::int64_t group = heads / cache.keys.shape[2];
  std::int64_t next = keys.key_begin != nullptr ? keys.key_begin[0] : 0;
  for (std::int32_t s = 0; s < q.rows(); ++s) {
    const bool listed = keys.key_begin != nullptr;
    const std::int32_t count =
        listed ? keys.key_begin[s + 1] - keys.key_begin[s] : keys.kv_length[s];
    for (std::int32_t j = 0; j < count; ++j, ++next) {
      const float* key = cached(cache, cache.keys, s, listed ? keys.key_slot[next] : j);
      double sum = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t d = 0; d < dim; ++d) {
          sum += double{q.row<float>(s)[h * dim + d]} * key[h / group * dim + d];
        }
      }
      score[next] = static_cast<float>(sum / static_cast<double>(heads));
    }
  }
}

// out[b] = mean of the keys of slots [b block, (b + 1) block) that exist.
void backend::block_mean_keys(std::int32_t sequences, const paged_kv& cache,
                              const std::int32_t* kv_length, std::int32_t block,
                              const std::int32_t* block_begin, const tensor_view& out,
                              const std::int32_t* first_block) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    for (std::int32_t b = 0; b < block_begin[s + 1] - block_begin[s]; ++b) {
      const std::int32_t at = first_block != nullptr ? first_block[s] + b : b;
      const std::int32_t first = at * block, last = std::min(kv_length[s], first + block);
      for (std::int64_t d = 0; d < out.columns(); ++d) {
        double sum = 0;
        for (std::int32_t slot = first; slot < last; ++slot) {
          sum += cached(cache, cache.keys, s, slot)[d];
        }
        out.row<float>(block_begin[s] + b)[d] =
            last > first ? static_cast<float>(sum / (last - first)) : 0.0F;
      }
    }
  }
}

// s_ij = q_i . k_j * scale per head over the masked rows of a sequence; t_ij = max(s_i,j-1, s_ij,
// s_i,j+1); I_j = sum over heads and i of softmax_j(t_i)_j.
void backend::importance(std::int32_t sequences, const std::int32_t* begin,
                         const std::int32_t* index, const tensor_view& q, const tensor_view& k,
                         float scale, float* out) const {
  const std::int64_t heads = q.shape[1], dim = q.shape[2], group = heads / k.shape[1];
  for (std::int32_t s = 0; s < sequences; ++s) {
    const std::int32_t n = begin[s + 1] - begin[s];
    const std::int32_t* row = index + begin[s];
    std::vector<double> sum(static_cast<std::size_t>(n), 0.0), dot(sum), pooled(sum);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int32_t i = 0; i < n; ++i) {
        const float* query = q.row<float>(row[i]) + h * dim;
        for (std::int32_t j = 0; j < n; ++j) {
          const float* key = k.row<float>(row[j]) + h / group * dim;
          dot[j] = 0;
          for (std::int64_t d = 0; d < dim; ++d) dot[j] += double{query[d]} * key[d];
          dot[j] *= scale;
        }
        double total = 0;
        const double largest = *std::max_element(dot.begin(), dot.end());
        for (std::int32_t j = 0; j < n; ++j) {
          pooled[j] = std::max({dot[std::max(j - 1, 0)], dot[j], dot[std::min(j + 1, n - 1)]});
          pooled[j] = std::exp(pooled[j] - largest);
          total += pooled[j];
        }
        for (std::int32_t j = 0; j < n; ++j) sum[j] += pooled[j] / total;
      }
    }
    for (std::int32_t j = 0; j < n; ++j) out[begin[s] + j] = static_cast<float>(sum[j]);
  }
}

// flags[s, position] = 1 for the count_s entries of highest score, lowest index first on ties and
// NaN after every number.
void backend::mark_top(const row_set& some, const float* score, const std::int32_t* count,
                       const tensor_view& flags) const {
  for (std::int32_t s = 0; s < some.sequences; ++s) {
    const std::int32_t n = some.row_begin[s + 1] - some.row_begin[s];
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), some.row_begin[s]);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      if (std::isnan(score[a]) || std::isnan(score[b])) {
        return std::isnan(score[b]) && !std::isnan(score[a]);
      }
      return score[a] > score[b];
    });
    for (std::int32_t i = 0; i < n; ++i) {
      flags.row<std::uint8_t>(s)[some.position[order[i]]] = i < count[s] ? 1 : 0;
    }
  }
}

}  // namespace unmask::reference
