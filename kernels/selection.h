// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operations that score cached keys and select the best of them.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// Selects the n best scores of each segment [begin[s], begin[s+1]), best first; equal scores keep
// their order. n of segment s is out_begin[s+1] - out_begin[s]. out[out_begin[s] ..] receives
// indices relative to the segment.
struct top_indices {
  std::int32_t segments = 0;
  const std::int32_t* begin = nullptr;
  const float* score = nullptr;
  const std::int32_t* out_begin = nullptr;
  std::int32_t* out = nullptr;
};

// Computes score[i] = mean over query heads of q[s, h] . key(slot, h / group). q is [S, heads,
// dim], and `keys` lists the slots. The cache may contain means of blocks instead of keys.
struct key_scores {
  tensor_view q;
  paged_kv cache;
  key_set keys;
  float* score = nullptr;

  std::int32_t keys_of(std::int64_t s) const {
    return keys.key_begin != nullptr ? keys.key_begin[s + 1] - keys.key_begin[s]
                                     : keys.kv_length[s];
  }
  head_sum over_heads() const {
    std::int64_t n = 0;
    for (std::int64_t s = 0; s < q.rows(); ++s) n += keys_of(s);
    return {score, n, q.shape[1]};
  }
};

// FLOPs of the scores of sequence s by one head: two for each element of a product.
inline double flops_of_head(const key_scores& o, std::int32_t s) {
  return 2.0 * o.keys_of(s) * static_cast<double>(o.q.shape[2]);
}

// Computes the attention that listed rows receive from each other. Each head and listed
// query scores the listed keys of its sequence; the scores are max-pooled (3) along keys, then
// softmax is summed over heads and queries. index[begin[s] .. begin[s+1]) lists the rows of
// sequence s; out has one value per entry.
struct importance {
  std::int32_t sequences = 0;
  const std::int32_t* begin = nullptr;
  const std::int32_t* index = nullptr;
  tensor_view q;
  tensor_view k;
  float scale = 0;
  float* out = nullptr;

  head_sum over_heads() const { return {out, begin[sequences]}; }
};

inline double flops_of_head(const importance& o, std::int32_t s) {
  const double n = o.begin[s + 1] - o.begin[s];
  return 2.0 * n * n * static_cast<double>(o.q.shape[2]);
}

}  // namespace unmask::op
