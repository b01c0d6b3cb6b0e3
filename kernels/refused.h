// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Tokens that a head never says: op::confidence takes their logits for -infinity, whoever asks, so that
// no method needs a line for a model that refuses some. op::logits gives logits as they are, so it ends
// with a usage error for such a head: who asked would choose among tokens that are refused.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace unmask {

// Holds as long as it lives. The head must outlive it; one refusal of a head at a time.
class refusal {
 public:
  refusal(const packed_matrix& head, std::vector<std::int32_t> tokens);
  ~refusal();
  refusal(const refusal&) = delete;
  refusal& operator=(const refusal&) = delete;

 private:
  const packed_matrix* head_;
};

// What a call bans, and what the head refuses: valid as long as the refusal. In memory that every
// backend reads.
struct token_list {
  const std::int32_t* token = nullptr;
  std::int32_t count = 0;
};
token_list with_refused(const packed_matrix& head, const token_list& banned);

// While one lives, logits of any head are given as they are: for checks of a model.
class all_logits {
 public:
  all_logits();
  ~all_logits();
  all_logits(const all_logits&) = delete;
  all_logits& operator=(const all_logits&) = delete;
};
// Usage error for a head that refuses tokens, but while an all_logits lives.
void check_whole_logits(const packed_matrix& head);

}  // namespace unmask
