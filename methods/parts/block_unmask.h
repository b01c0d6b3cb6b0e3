// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Chooses which positions of a block are unmasked, by one of five rules: LMDeploy's three, SDAR's
// variant of the first of them, and EB-sampler's bound on entropies.
#pragma once

#include <string>

#include "harness/decode/policies.h"

namespace unmask {

struct block_unmask_settings {
  std::string remasking = "low_confidence_dynamic";
  float threshold = 0;
  float gamma = 0;  // remasking "entropy_bound": nats
  bool strict = false;
  float temperature = 1;
  bool at_least_quota = false;  // SDAR: at least as many as the schedule says
  std::int32_t block = 32;
  bool sampled = false;      // draw from softmax(logits / temperature) instead of the arg-max
  bool bf16 = false;         // compare in bfloat16, as a bfloat16 model does
  bool masks_by_id = false;  // a position that is unmasked as the mask token stays a mask
};

class block_unmask : public unmask_policy {
 public:
  // `more`: further decisions, by a rule that extends these.
  explicit block_unmask(block_unmask_settings s, unmask_traits more = {});
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override;
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override;

 protected:
  const block_unmask_settings& settings() const { return settings_; }
  bool by_entropy() const { return settings_.remasking == "entropy_bound"; }
  // The rule with another score [C] than the confidence.
  void decide_by(const float* score, const batch& b, const step_choice& plan, candidate_lists& c);

 private:
  block_unmask_settings settings_;
  tensor also_, logits_;
};

}  // namespace unmask
