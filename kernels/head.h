// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The LM head: tokens, their confidences, logits and samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/operation.h"

namespace unmask {

class rank_group;

// A head [V, D] whose rows are dealt to the pieces of a model (model/share.h): those of this rank, and
// where those of all begin. Operations find what each piece says of its tokens, bring that of all ranks
// together and merge it in the order of the pieces, on every rank: the bits depend on the pieces alone.
// out_features are the whole head's, bytes those of this rank.
class cut_head : public packed_matrix {
 public:
  // `own` are pieces held, held + 1, ...; `first` [pieces + 1] i32, host-visible: piece p has tokens
  // first[p] to first[p + 1]. All ranks hold as many. std::logic_error for pieces of other sizes.
  cut_head(std::vector<packed_handle> own, std::size_t held, tensor first);

  std::size_t pieces() const { return static_cast<std::size_t>(first.view().rows()) - 1; }
  std::int64_t first_of_own(std::size_t i) const { return first.as<std::int32_t>()[held + i]; }
  std::int64_t widest() const;  // tokens of the largest piece
  // The ranks that hold the others; null: this one holds all. std::logic_error if none are in force.
  rank_group* ranks() const;
  // all [pieces, bytes] of mine [own, bytes]: what each rank found, in the order of the pieces. Collective.
  void gather(const void* mine, std::size_t bytes, void* all) const;
  // Floats that a rank sends of the logits of n rows: [own, n, widest()], and the row_sum() of each.
  std::int64_t sent_of_logits(std::int64_t n) const {
    return static_cast<std::int64_t>(own.size()) * n * widest() + n;
  }

  std::vector<packed_handle> own;
  std::size_t held;
  tensor first;
};
// Notes of the ranks in force that rank `other` and rank 0 have other values in a row of x. What they say of it is
// merged, so that their decisions agree all the same.
void note_unequal_rows(int other);
// Of the bits of a row.
std::uint32_t row_sum(const float* x, std::int64_t width);
// Null: the head is whole.
const cut_head* as_cut(const packed_matrix& head);
// out [n, V] of the logits of this rank's pieces, `mine`, and of those of the others: each piece's to the places of
// its tokens. The sums of the rows of x are put behind them, and compared. `mine` holds sent_of_logits(n) floats,
// `all` those of all ranks. Collective.
void gather_logits(const cut_head& head, const tensor_view& x, const std::int32_t* row, float* mine,
                   float* all, const tensor_view& out);

// What the LM head says about each candidate. Any pointer may be null when it is not wanted.
struct confidence_out {
  std::int32_t* token = nullptr;      // [C] arg-max of the (noised) logits
  float* probability = nullptr;       // [C] softmax(logits / temperature)[token]
  float* margin = nullptr;            // [C] best minus second best probability
  float* negative_entropy = nullptr;  // [C] sum_v p_v ln(p_v + 1e-10)
  float* top2_logit_gap = nullptr;    // [C] largest minus second largest logit
  float* residual = nullptr;          // [C] 1 - probability, exact where that rounds to 1
};

struct confidence_params {
  float temperature = 1.0F;      // divides the logits inside the softmax only
  float gumbel_temperature = 0;  // > 0: arg-max of logit - t ln(-ln u), Gumbel-max sampling
  noise_source noise;
  const std::int32_t* banned = nullptr;  // tokens whose logit counts as -infinity
  std::int32_t banned_count = 0;
  bool accumulate_double = false;  // softmax denominator in float64 (as loops that sum so do)
};

// Token sampling with full sorting, for stochastic decoding.
struct sample_params {
  float temperature = 0;   // 0: arg-max
  float top_p = 1.0F;      // drop tokens whose cumulative probability before them exceeds this
  std::int32_t top_k = 0;  // 0: all
  noise_source noise;
  bool original =
      false;  // what is said of a token is of softmax(logits as given), not of the draw's
};

namespace op {

// LM head fused with arg-max and confidence; no [C, V] matrix is kept. x [R, D] final-norm
// output, head [V, D], whole or cut; reads only the candidates' rows. Of a cut head tokens and gaps of
// logits are those of the whole one; sums of probabilities differ in the order in which they are added.
struct confidence {
  tensor_view x;
  const packed_matrix& head;
  candidate_set candidates;
  confidence_params params;
  confidence_out out;
};

// Whole logits of chosen rows: out[i] = x[row[i]] W^T, out [n, V]; for sampling and checks.
struct logits {
  tensor_view x;
  const packed_matrix& head;
  const std::int32_t* row = nullptr;
  tensor_view out;
};

// Sample from logits [C, V] (overwritten), one row per candidate; probability is that of the
// chosen token after temperature and filtering, or before both if `original`; margin and
// negative_entropy are of the same distribution.
struct sample {
  candidate_set candidates;
  tensor_view logits;
  sample_params params;
  confidence_out out;
};

}  // namespace op
}  // namespace unmask
