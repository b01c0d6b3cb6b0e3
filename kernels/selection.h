// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores of cached keys, and the best of them.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// Stable top-n of each segment [begin[s], begin[s+1]) of score, best first: index relative to
// the segment into out[out_begin[s] ..], out_begin[s+1] - out_begin[s] = n of segment s.
struct top_indices {
  std::int32_t segments = 0;
  const std::int32_t* begin = nullptr;
  const float* score = nullptr;
  const std::int32_t* out_begin = nullptr;
  std::int32_t* out = nullptr;
};

// score[i] = mean over query heads of q[s, h] . key(slot, h / group); q [S, heads, dim], slots
// listed by keys. Means of blocks may stand in for keys.
struct key_scores {
  tensor_view q;
  paged_kv cache;
  key_set keys;
  float* score = nullptr;
};

// The attention that listed rows receive from each other: per head and listed query, scores over
// the listed keys of the same sequence, max-pool 3 along keys, softmax, summed over heads and
// queries. index[begin[s] .. begin[s+1]) are the listed rows; out has one value per entry.
struct importance {
  std::int32_t sequences = 0;
  const std::int32_t* begin = nullptr;
  const std::int32_t* index = nullptr;
  tensor_view q;
  tensor_view k;
  float scale = 0;
  float* out = nullptr;
};

}  // namespace unmask::op
