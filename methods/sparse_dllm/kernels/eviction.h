// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sparse-dLLM's eviction: scores are pooled, and what is kept is copied together.
#pragma once

#include "kernels/operation.h"

namespace unmask {

namespace op {

// Sliding max or mean over each segment, window `kernel` (odd), stride 1; out of range is
// -infinity for max and left out of the count for mean.
struct pool {
  std::int32_t segments = 0;
  const std::int32_t* begin = nullptr;
  const float* in = nullptr;
  std::int32_t kernel = 0;
  bool maximum = false;
  float* out = nullptr;
};

// Keys and values of slots from_slot[begin[s] .. begin[s+1]) in `from` become slots 0, 1, 2, ...
// of sequence s in `to`; sequences without entries are left alone.
struct kv_copy {
  std::int32_t sequences = 0;
  const std::int32_t* begin = nullptr;
  const std::int32_t* from_slot = nullptr;
  paged_kv from;
  paged_kv to;
};

// The slots that sequence s keeps, into kept[kept_begin[s] .. kept_begin[s+1]): the candidates
// slots[begin[s] + top[i]] for i in [top_begin[s], top_begin[s+1]), then suffix[s], suffix[s] + 1 ..
// for the rest.
struct list_kept {
  std::int32_t sequences = 0;
  const std::int32_t* begin = nullptr;
  const std::int32_t* slots = nullptr;
  const std::int32_t* top_begin = nullptr;
  const std::int32_t* top = nullptr;
  const std::int32_t* suffix = nullptr;
  const std::int32_t* kept_begin = nullptr;
  std::int32_t* kept = nullptr;
};

}  // namespace op
}  // namespace unmask
