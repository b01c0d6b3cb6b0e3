// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// KLASS' rule: a mask is decided where the model is sure and its distribution has stopped moving for
// some forwards; where that is nowhere so, the schedule's best are.
#pragma once

#include "harness/decode/policies.h"
#include "methods/parts/kernels/history.h"

namespace unmask {

struct settled_settings {
  float threshold = 0;  // on the confidence
  bool strict = true;   // >, not >=
  float limit = 0;      // on the divergence from the last forward, nats
  std::int32_t history = 2;
  bool in_block = true;  // the rule waits for the block's own `history - 1` forwards
  op::ready_choice choice = op::ready_choice::all;
  std::int32_t at_most = 0;  // decided by the schedule where none is ready; 0: its whole count
  std::int32_t places = 0;   // distributions held of a sequence; 0: of its canvas
  bool ahead = true;         // masks behind the block are judged too: a new block has a past
  bool masks_by_id = true;   // a position decided as the mask token stays a mask
};

// Every candidate's row has to be computed in every forward.
class settled_unmask final : public unmask_policy {
 public:
  explicit settled_unmask(const settled_settings& s)
      : unmask_policy({.masks_by_id = s.masks_by_id}), settings_(s) {}
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override;
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override;

  // recipe_views::state_bytes
  std::size_t bytes() const { return bytes_; }

 private:
  void note_steps(const batch& b, const step_choice& plan);
  void grow(const batch& b, const candidate_lists& c);

  settled_settings settings_;
  tensor logits_, owner_, still_, kept_, scale_, settled_;
  shared_vector<std::int32_t> origin_, fresh_, last_, allowed_;
  std::size_t bytes_ = 0;
};

}  // namespace unmask
