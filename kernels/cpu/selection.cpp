// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores of cached tokens and which of them to keep.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/selection.h"

namespace unmask::cpu {

namespace {

void top_indices(const op::top_indices& args) {
  thread_local scratch memory;
  for (std::int32_t s = 0; s < args.segments; ++s) {
    const std::int32_t m = args.begin[s + 1] - args.begin[s],
                       n = args.out_begin[s + 1] - args.out_begin[s];
    if (n > m) throw std::logic_error("top_indices: segment too short");
    std::uint64_t* key = memory.get<std::uint64_t>(std::int64_t{m});
    for (std::int32_t i = 0; i < m; ++i) {
      key[i] = rank_key(args.score[args.begin[s] + i], static_cast<std::uint32_t>(i));
    }
    if (n < m) std::nth_element(key, key + n, key + m);
    std::sort(key, key + n);
    for (std::int32_t i = 0; i < n; ++i) {
      args.out[args.out_begin[s] + i] =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(key[i]));
    }
  }
}

// mean_h q_h . k_{h / group} = (sum over kv heads) (mean of the group's queries) . k: one dot
// product along the whole key row.
void key_scores(const backend& cpu, const op::key_scores& args) {
  thread_local scratch memory;
  const row_kernels& kernels = cpu.rows();
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2],
                     kv_heads = args.cache.keys.shape[2];
  const std::int64_t group = heads / kv_heads, width = kv_heads * dim;
  const bool listed = args.keys.key_begin != nullptr;
  std::int64_t first = listed ? args.keys.key_begin[0] : 0;
  float* mean = memory.get<float>(width);
  for (std::int32_t s = 0; s < args.q.rows(); ++s) {
    for (std::int64_t d = 0; d < width; ++d) {
      const float* query = args.q.row<float>(s) + d / dim * group * dim + d % dim;
      double sum = 0;
      for (std::int64_t h = 0; h < group; ++h) sum += double{query[h * dim]};
      mean[d] = static_cast<float>(sum / static_cast<double>(heads));
    }
    const std::int64_t count =
        listed ? args.keys.key_begin[s + 1] - args.keys.key_begin[s] : args.keys.kv_length[s];
#pragma omp parallel for schedule(static) if (count * width > parallel_elements)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int32_t slot =
          listed ? args.keys.key_slot[first + j] : static_cast<std::int32_t>(j);
      args.score[first + j] = kernels.dot(mean, cached(args.cache, s, slot), width);
    }
    first += count;
  }
}

// Heads are the outer loop, because those of a group share the keys that are copied side by side once.
void importance(const backend& cpu, const op::importance& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2], kv_heads = args.k.shape[1];
  const std::int64_t group = heads / kv_heads;
  std::int64_t work = 0;
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::int64_t n = args.begin[s + 1] - args.begin[s];
    work += n * n * heads * dim;
  }
#pragma omp parallel for schedule(dynamic) if (work > 16 * parallel_elements)
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    thread_local scratch float_memory, double_memory;
    const std::int64_t n = args.begin[s + 1] - args.begin[s];
    const std::int32_t* row = args.index + args.begin[s];
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
        std::memcpy(queries + i * dim, args.q.row<float>(row[i]) + h * dim, bytes);
        if (h % group == 0) {
          std::memcpy(keys + i * dim, args.k.row<float>(row[i]) + h / group * dim, bytes);
        }
      }
      kernels.dots(queries, dim, n, keys, dim, n, dim, score, n);
      for (std::int64_t i = 0; i < n; ++i) {
        kernels.pooled_softmax(score + i * n, args.scale, n, line, sum);
      }
    }
    for (std::int64_t j = 0; j < n; ++j) args.out[args.begin[s] + j] = static_cast<float>(sum[j]);
  }
}

}  // namespace

const register_operations<top_indices, key_scores, importance> registered(target::cpu);

}  // namespace unmask::cpu
