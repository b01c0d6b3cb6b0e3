// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores of cached tokens and which of them to keep.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"

namespace unmask::cpu {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

const float* cached(const paged_kv& cache, std::int32_t s, std::int32_t slot) {
  const std::int32_t page = cache.page_table[s * cache.table_stride + slot / kv_page_size];
  return cache.keys.row<float>(page) +
         (slot % kv_page_size) * cache.keys.shape[2] * cache.keys.shape[3];
}

}  // namespace

void backend::top_indices(std::int32_t segments, const std::int32_t* begin, const float* score,
                          const std::int32_t* out_begin, std::int32_t* out) const {
  thread_local scratch memory;
  for (std::int32_t s = 0; s < segments; ++s) {
    const std::int32_t m = begin[s + 1] - begin[s], n = out_begin[s + 1] - out_begin[s];
    if (n > m) throw std::logic_error("top_indices: segment too short");
    std::uint64_t* key = memory.get<std::uint64_t>(std::int64_t{m});
    for (std::int32_t i = 0; i < m; ++i) {
      key[i] = rank_key(score[begin[s] + i], static_cast<std::uint32_t>(i));
    }
    if (n < m) std::nth_element(key, key + n, key + m);
    std::sort(key, key + n);
    for (std::int32_t i = 0; i < n; ++i) {
      out[out_begin[s] + i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(key[i]));
    }
  }
}

void backend::pool(std::int32_t segments, const std::int32_t* begin, const float* in,
                   std::int32_t kernel, bool maximum, float* out) const {
  if (kernel < 1 || kernel % 2 == 0) throw std::logic_error("pool: the window must be odd");
  for (std::int32_t s = 0; s < segments; ++s) {
    for (std::int32_t j = begin[s]; j < begin[s + 1]; ++j) {
      const std::int32_t low = std::max(begin[s], j - kernel / 2);
      const std::int32_t high = std::min(begin[s + 1] - 1, j + kernel / 2);
      if (maximum) {
        float largest = minus_infinity;
        for (std::int32_t i = low; i <= high; ++i) largest = in[i] > largest ? in[i] : largest;
        out[j] = largest;
      } else {
        double sum = 0;
        for (std::int32_t i = low; i <= high; ++i) sum += double{in[i]};
        out[j] = static_cast<float>(sum / (high - low + 1));
      }
    }
  }
}

// mean_h q_h . k_{h / group} = (sum over kv heads) (mean of the group's queries) . k: one dot
// product along the whole key row.
void backend::key_scores(const tensor_view& q, const paged_kv& cache, const key_set& keys,
                         float* score) const {
  thread_local scratch memory;
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t heads = q.shape[1], dim = q.shape[2], kv_heads = cache.keys.shape[2];
  const std::int64_t group = heads / kv_heads, width = kv_heads * dim;
  const bool listed = keys.key_begin != nullptr;
  std::int64_t first = listed ? keys.key_begin[0] : 0;
  float* mean = memory.get<float>(width);
  for (std::int32_t s = 0; s < q.rows(); ++s) {
    for (std::int64_t d = 0; d < width; ++d) {
      const float* query = q.row<float>(s) + d / dim * group * dim + d % dim;
      double sum = 0;
      for (std::int64_t h = 0; h < group; ++h) sum += double{query[h * dim]};
      mean[d] = static_cast<float>(sum / static_cast<double>(heads));
    }
    const std::int64_t count =
        listed ? keys.key_begin[s + 1] - keys.key_begin[s] : keys.kv_length[s];
#pragma omp parallel for schedule(static) if (count * width > parallel_elements)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int32_t slot = listed ? keys.key_slot[first + j] : static_cast<std::int32_t>(j);
      score[first + j] = kernels.dot(mean, cached(cache, s, slot), width);
    }
    first += count;
  }
}

void backend::block_mean_keys(std::int32_t sequences, const paged_kv& cache,
                              const std::int32_t* kv_length, std::int32_t block,
                              const std::int32_t* block_begin, const tensor_view& out,
                              const std::int32_t* first_block) const {
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t width = out.columns();
  for (std::int32_t s = 0; s < sequences; ++s) {
    const std::int32_t blocks = block_begin[s + 1] - block_begin[s];
#pragma omp parallel for schedule(static) if (blocks * block * width > parallel_elements)
    for (std::int32_t b = 0; b < blocks; ++b) {
      thread_local scratch memory;
      double* sum = memory.get<double>(width);
      std::fill(sum, sum + width, 0.0);
      const std::int32_t at = first_block != nullptr ? first_block[s] + b : b;
      const std::int32_t first = at * block, last = std::min(kv_length[s], first + block);
      for (std::int32_t slot = first; slot < last; ++slot) {
        kernels.add_to(sum, cached(cache, s, slot), width);
      }
      const std::int32_t count = std::max(1, last - first);
      float* to = out.row<float>(block_begin[s] + b);
      for (std::int64_t d = 0; d < width; ++d) to[d] = static_cast<float>(sum[d] / count);
    }
  }
}

void backend::importance(std::int32_t sequences, const std::int32_t* begin,
                         const std::int32_t* index, const tensor_view& q, const tensor_view& k,
                         float scale, float* out) const {
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t heads = q.shape[1], dim = q.shape[2], kv_heads = k.shape[1];
  const std::int64_t group = heads / kv_heads;
  std::int64_t work = 0;
  for (std::int32_t s = 0; s < sequences; ++s) {
    const std::int64_t n = begin[s + 1] - begin[s];
    work += n * n * heads * dim;
  }
#pragma omp parallel for schedule(dynamic) if (work > 16 * parallel_elements)
  for (std::int32_t s = 0; s < sequences; ++s) {
    thread_local scratch float_memory, double_memory;
    const std::int64_t n = begin[s + 1] - begin[s];
    const std::int32_t* row = index + begin[s];
    constexpr std::int64_t padding = 32;  // a whole vector may be read past the end
    float* queries = float_memory.get<float>(2 * n * dim + n * n + n + 2 * padding);
    float* keys = queries + n * dim;
    float* score = keys + n * dim;
    float* line = score + n * n;
    double* sum = double_memory.get<double>(n);
    std::fill(sum, sum + n, 0.0);
    const std::size_t bytes = static_cast<std::size_t>(dim) * sizeof(float);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(queries + i * dim, q.row<float>(row[i]) + h * dim, bytes);
        if (h % group == 0) {
          std::memcpy(keys + i * dim, k.row<float>(row[i]) + h / group * dim, bytes);
        }
      }
      kernels.dots(queries, dim, n, keys, dim, n, dim, score, n);
      for (std::int64_t i = 0; i < n; ++i) {
        kernels.pooled_softmax(score + i * n, scale, n, line, sum);
      }
    }
    for (std::int64_t j = 0; j < n; ++j) out[begin[s] + j] = static_cast<float>(sum[j]);
  }
}

void backend::mark_top(const row_set& some, const float* score, const std::int32_t* count,
                       const tensor_view& flags) const {
  thread_local scratch memory;
  for (std::int32_t s = 0; s < some.sequences; ++s) {
    const std::int32_t begin = some.row_begin[s], m = some.row_begin[s + 1] - begin;
    const std::int32_t n = std::min(count[s], m);
    std::uint64_t* key = memory.get<std::uint64_t>(std::int64_t{m});
    std::uint8_t* flag = flags.row<std::uint8_t>(s);
    for (std::int32_t i = 0; i < m; ++i) {
      key[i] = rank_key(score[begin + i], static_cast<std::uint32_t>(i));
      flag[some.position[begin + i]] = 0;
    }
    if (n > 0 && n < m) std::nth_element(key, key + n, key + m);
    for (std::int32_t i = 0; i < n; ++i) {
      flag[some.position[begin + static_cast<std::int32_t>(static_cast<std::uint32_t>(key[i]))]] =
          1;
    }
  }
}

}  // namespace unmask::cpu
