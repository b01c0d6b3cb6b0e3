// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Verification of drafts: branches of one canvas that one forward computes side by side.
#pragma once

#include "kernels/decisions.h"

namespace unmask::op {

// A sequence's rows are `branches` times `width`, and its candidates are the masks of each branch, one
// branch after the other. Branch 0 is the canvas; branch i holds the guess of every mask p with
// turn[p] <= i as well. What a branch decides itself, its step:
//   order of its masks: block (`block` > 0), then confidence descending (in_order: not), then position;
//   the `per_step` first of them; with `use_threshold` all of the earliest block's with confidence >=
//   threshold (in_order: the leading run of those), where there are any; with first_only[s] the first
//   position alone.
// chosen = 0, and then again and again the largest j > chosen whose branch lies in what branch `chosen`
// is after its step (`exact`: equals it). Then, of branch 0's candidates:
//   guesses that the chosen branch holds and tokens of its step are taken, token[c] is set to them;
//   any other position keeps the chosen branch's prediction as its new guess, and turn = 1 + (its place
//   in the order, behind those taken) / per_step.
// Candidates of other branches are kept. left: masks of the chosen branch; left_in_block: of those,
// before block_last; all three stay where branches[s] is 0.
struct verify_drafts {
  candidate_set candidates;
  const std::int32_t* row_begin = nullptr;   // [S+1]
  const std::int32_t* branches = nullptr;    // [S]
  const std::int32_t* width = nullptr;       // [S]
  const std::int32_t* first_only = nullptr;  // [S]
  const std::int32_t* block_last = nullptr;  // [S]
  const float* confidence = nullptr;
  std::int32_t per_step = 1;
  bool use_threshold = false;
  float threshold = 0;
  bool in_order = false;
  bool exact = true;
  std::int32_t block = 0;
  tensor_view guess;                      // [S, length] int32
  tensor_view turn;                       // [S, length] int32
  std::int32_t* order = nullptr;          // [C] room to work in
  std::int32_t* token = nullptr;          // [C] predictions
  std::int32_t* chosen = nullptr;         // [S]
  std::int32_t* left = nullptr;           // [S]
  std::int32_t* left_in_block = nullptr;  // [S]
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
