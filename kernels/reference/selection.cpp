// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores of cached tokens and which of them to keep, for the sparse and evicting methods.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/reference/backend.h"
#include "kernels/selection.h"

namespace unmask::reference {

namespace {

// The first n of each segment in descending order of score, lowest index first on ties; NaN comes
// after every number.
void top_indices(const op::top_indices& args) {
  for (std::int32_t s = 0; s < args.segments; ++s) {
    const std::int32_t n = args.out_begin[s + 1] - args.out_begin[s];
    if (n > args.begin[s + 1] - args.begin[s])
      throw std::logic_error("top_indices: segment too short");
    std::vector<std::int32_t> order(static_cast<std::size_t>(args.begin[s + 1] - args.begin[s]));
    std::iota(order.begin(), order.end(), 0);
    const float* value = args.score + args.begin[s];
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      if (std::isnan(value[a]) || std::isnan(value[b])) {
        return std::isnan(value[b]) && !std::isnan(value[a]);
      }
      return value[a] > value[b];
    });
    std::copy_n(order.begin(), n, args.out + args.out_begin[s]);
  }
}

// score = (1 / heads) sum_h q[s, h] . key[slot, h / group].
void key_scores(const op::key_scores& args) {
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2];
  const std::int64_t group = heads / args.cache.keys.shape[2];
  std::int64_t next = args.keys.key_begin != nullptr ? args.keys.key_begin[0] : 0;
  for (std::int32_t s = 0; s < args.q.rows(); ++s) {
    const bool listed = args.keys.key_begin != nullptr;
    const std::int32_t count =
        listed ? args.keys.key_begin[s + 1] - args.keys.key_begin[s] : args.keys.kv_length[s];
    for (std::int32_t j = 0; j < count; ++j, ++next) {
      const float* key =
          slot_row(args.cache, args.cache.keys, s, listed ? args.keys.key_slot[next] : j);
      double sum = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t d = 0; d < dim; ++d) {
          sum += double{args.q.row<float>(s)[h * dim + d]} * key[h / group * dim + d];
        }
      }
      args.score[next] = static_cast<float>(sum / static_cast<double>(heads));
    }
  }
}

// s_ij = q_i . k_j * scale per head over the masked rows of a sequence; t_ij = max(s_i,j-1, s_ij,
// s_i,j+1); I_j = sum over heads and i of softmax_j(t_i)_j.
void importance(const op::importance& args) {
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2],
                     group = heads / args.k.shape[1];
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::int32_t n = args.begin[s + 1] - args.begin[s];
    const std::int32_t* row = args.index + args.begin[s];
    std::vector<double> sum(static_cast<std::size_t>(n), 0.0), dot(sum), pooled(sum);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int32_t i = 0; i < n; ++i) {
        const float* query = args.q.row<float>(row[i]) + h * dim;
        for (std::int32_t j = 0; j < n; ++j) {
          const float* key = args.k.row<float>(row[j]) + h / group * dim;
          dot[j] = 0;
          for (std::int64_t d = 0; d < dim; ++d) dot[j] += double{query[d]} * key[d];
          dot[j] *= args.scale;
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
    for (std::int32_t j = 0; j < n; ++j) args.out[args.begin[s] + j] = static_cast<float>(sum[j]);
  }
}

}  // namespace

const register_operations<top_indices, key_scores, importance> registered(target::reference);

}  // namespace unmask::reference
