// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What of a model one rank holds, and in how many pieces its sums over heads and over the width of a
// feed-forward are added. The rules of cutting are here and nowhere else.
//
//   piece p of P     heads                            width of a feed-forward F
//   P <= KV heads    KV heads [K p / P, K (p + 1) / P)  units [U p / P, U (p + 1) / P) of F = u U
//   P = h K          query heads [H p / P, H (p + 1) / P) of KV head p / h
//
// Edges are rounded down, so that shares may be uneven; u is the largest of 8, 4, 2 and 1 that divides
// F and leaves no piece empty. Query heads go with their KV head. Rows of q, k, v, gate, up and lm_head
// and columns of attn_out and down are cut; everything else is whole on every rank. Piece p has tokens
// [V p / P, V (p + 1) / P) of lm_head, where V is at least 1024 P rounded to 64. Of E routed experts a
// share with whole_experts has [E p / P, E (p + 1) / P) instead, and nothing of the others.
#pragma once

#include <span>

#include "harness/model/weights.h"
#include "kernels/backend.h"

namespace unmask {

struct run_keys;

// That of a rank if a run asks for so many pieces; 0: as many as ranks. Usage error unless the pieces of
// several ranks are ranks times a power of two: those of one must be a whole branch of the tree by which
// all are added.
model_share share_of(std::int64_t rank, std::int64_t ranks, std::int64_t pieces);
// With the keys `ranks`, `pieces`, `experts`, `sums` and `two_shots` of a run. Usage error as above, and for sums in
// bf16 of several ranks with more pieces than ranks: their own sums are no halves any more.
model_share share_of(std::int64_t rank, const run_keys& run);

// Half open.
struct cut_range {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
};
cut_range kv_heads_of(const model_config& whole, const model_share& share);
cut_range heads_of(const model_config& whole, const model_share& share);
cut_range width_of(std::int64_t width, const model_share& share);
cut_range experts_of(const model_config& whole, const model_share& share);
cut_range tokens_of(std::int64_t vocabulary, const model_share& share);

// Whether this rank is the first of those that hold its KV heads: of values that several ranks hold,
// one counts.
bool counts_values(const model_config& whole, const model_share& share);

// Usage error for a format of which a row of weights has one scale: that of a piece would be another.
void refuse_int8(weight_format format);
// The same, and for heads, a feed-forward, experts or a vocabulary that cannot be dealt to so many pieces.
void check_share(const model_config& whole, const model_share& share, weight_format format);

// The config with the heads of a share; all other sizes are the whole model's.
model_config local_config(const model_config& whole, const model_share& share);
// The rows and columns of a weight, [rows, columns] or [rows], that a share holds.
struct tensor_cut {
  cut_range rows, columns;
};
tensor_cut cut_of(const weight_name& name, std::span<const std::int64_t> shape,
                  const model_config& config, const model_share& share);
// Views of the weights that a share holds, of layers that hold the part of `held`: at first all.
layer_weights cut(const layer_weights& layer, const model_config& config, const model_share& share,
                  const model_share& held = {});
// The shares of the pieces of a rank, in their order.
std::vector<model_share> pieces_of(const model_share& share);

}  // namespace unmask
