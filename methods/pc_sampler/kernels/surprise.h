// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Candidates ranked by place and by how rare their tokens are.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// score[c] = weight[position - first[s]] min(limit, probability[c] surprise[token[c]]), each product
// rounded to float32. weight [places] and surprise [V] float32; a place behind the last has its
// weight.
struct surprise_scores {
  candidate_set candidates;
  const std::int32_t* first = nullptr;  // [S]
  const float* weight = nullptr;
  std::int32_t places = 0;
  const float* surprise = nullptr;
  const std::int32_t* token = nullptr;
  const float* probability = nullptr;
  float limit = 0;
  float* score = nullptr;
};

}  // namespace unmask::op
