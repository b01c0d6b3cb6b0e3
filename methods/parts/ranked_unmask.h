// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The decision rules of the official whole-canvas loops, shared by every method that decodes LLaDA
// or Dream: rank the masked candidates by what the head says and take the best.
#pragma once

#include <string>

#include "harness/decode/policies.h"
#include "kernels/shared_vector.h"

namespace unmask {

struct unmask_settings {
  std::string score = "low_confidence";  // what ranks candidates
  // Rank as a float64 softmax does, also among tokens whose probability rounds to 1 in float32
  // (low_confidence without threshold or factor).
  bool rank_in_double = false;
  float threshold = 0, factor = 0;
  bool factor_of_canvas = false;     // masks that are no candidates are in the factor's list too
  float gamma = 0;                   // EB-sampler's bound on entropies, nats; 0: off
  float gumbel_temperature = 0;      // LLaDA sampling
  float temperature = 0, top_p = 1;  // Dream sampling
  std::int32_t top_k = 0;
  bool original_confidence = false;  // rank by the logits before temperature, top_p and top_k
  float alg_temp = 0;
  float transfer_eps = 0;           // Dream "origin": eps of the time schedule
  std::int32_t transfer_steps = 0;  // and its steps; 0: gen_length
  bool limit_to_quota = false;      // Dream confidence_threshold: at most quota tokens
  // Dimple: all above the threshold; the quota where there is none, without a threshold and in the last
  // step.
  bool or_quota = false;
  bool leftmost = false;  // Dimple's alg autoregressive: the first mask alone
};

// Ranks masked positions by what the head says and takes the best.
class ranked_unmask : public unmask_policy {
 public:
  explicit ranked_unmask(unmask_settings s) : unmask_policy({true}), settings_(std::move(s)) {}
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override;
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override;

 protected:
  // What candidates are ranked by, [C].
  float* score(candidate_lists& c) const;

 private:
  void grow(const backend& backend, std::int64_t rows, std::int64_t vocabulary);
  void decide_or_quota(const batch& b, const step_choice& plan, candidate_lists& c);
  const std::int32_t* count_behind(const batch& b, const step_choice& plan, candidate_lists& c);
  unmask_settings settings_;
  tensor logits_, also_;
  shared_vector<std::int32_t> behind_;  // [S] of op::accept_factor
  shared_vector<std::int32_t> quota_;   // [S] of a rule that may leave it aside
};

// Dream "origin": every masked token is decided with probability 1 - t_{i+1} / t_i.
class random_transfer final : public unmask_policy {
 public:
  explicit random_transfer(unmask_settings s)
      : unmask_policy({true}), settings_(s), judge_(std::move(s)) {}
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override;
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override;

 private:
  unmask_settings settings_;
  ranked_unmask judge_;
  shared_vector<std::int32_t> one_begin_;  // [S, 2] each sequence as a batch of its own
};

}  // namespace unmask
