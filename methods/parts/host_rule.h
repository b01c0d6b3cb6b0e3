// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A rule as a plain loop on the host, on top of another method. That method computes token and
// confidence of the candidates; the rule chooses which of them are unmasked. It may keep a memory
// for each request. The host can read the lists on a GPU, too.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "harness/decode/policies.h"
#include "kernels/decisions.h"

namespace unmask {

// The C candidates of one request in a forward pass, C at least 1, by ascending position. Every
// list is [C].
struct host_candidates {
  const sequence& request;                        // the length of its prompt, forward passes so far
  const sequence_step& plan;                      // the current block, the tokens that are wanted
  std::span<const std::int32_t> position, token;  // position 0: the first token of the prompt
  std::span<const float> confidence;              // probability of the token
  std::span<std::uint8_t> accept;                 // decision_keep; decision_take unmasks
};

// Memory: what the rule keeps for one request; each request gets a new one.
template <class Memory>
class host_rule : public unmask_policy {
 public:
  // `base`: the method whose recipe computes token and confidence.
  explicit host_rule(std::unique_ptr<unmask_policy> base)
      : unmask_policy({.masks_by_id = base->traits().masks_by_id}), base_(std::move(base)) {}

  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) final {
    base_->judge(b, plan, head_input, head, c);
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) final {
    b.backend().synchronize();  // the host reads what operations wrote
    of_place_.resize(plan.of.size());
    for (std::size_t s = 0; s < plan.of.size(); ++s) {
      const auto first = static_cast<std::size_t>(c.begin.as<std::int32_t>()[s]);
      const auto count = static_cast<std::size_t>(c.begin.as<std::int32_t>()[s + 1]) - first;
      if (count == 0) continue;
      const sequence& q = b.at(static_cast<std::int32_t>(s));
      auto& [serial, memory] = of_place_[s];
      if (std::exchange(serial, q.serial) != q.serial) memory = {};
      const host_candidates shown{q,
                                  plan.of[s],
                                  {c.position.as<std::int32_t>() + first, count},
                                  {c.token.as<std::int32_t>() + first, count},
                                  {c.probability.as<float>() + first, count},
                                  {c.accept.as<std::uint8_t>() + first, count}};
      std::ranges::fill(shown.accept, decision_keep);
      choose(shown, memory);
    }
  }

 protected:
  virtual void choose(const host_candidates& c, Memory& memory) = 0;

 private:
  std::unique_ptr<unmask_policy> base_;
  std::vector<std::pair<std::int64_t, Memory>> of_place_;  // of each slot: its request's serial
};

}  // namespace unmask
