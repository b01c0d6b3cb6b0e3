// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The operations between the products of a transformer layer, and the products themselves.
#pragma once

#include <compare>
#include <vector>

#include "kernels/operation.h"

namespace unmask {

// How the frequencies of a model were stretched for a longer context than it was pretrained on.
enum class rope_scaling_kind : std::uint8_t { none, linear, llama3, yarn };

struct rope_scaling {
  rope_scaling_kind kind = rope_scaling_kind::none;
  double factor = 1;     // >= 1: what slow frequencies are divided by
  double low = 1;        // turns within the pretrained length: below, a frequency is slow
  double high = 1;       // above, it stays as it is (YaRN: beta_slow and beta_fast)
  double positions = 1;  // the pretrained length
  bool whole = true;     // YaRN: the ramp begins and ends at whole pairs
  auto operator<=>(const rope_scaling&) const = default;
};

struct rope_params {
  std::int32_t rotary_dim = 0;  // leading dimensions of each head that rotate; the rest pass
  float theta = 10000.0F;       // pairs are (i, i + rotary_dim / 2), angle p * frequency i
  rope_scaling scaling = {};
  float magnitude = 1;  // of every cosine and sine (YaRN's attention factor)
  // Pairs [first_pair, last_pair) rotate and the others pass; last_pair 0: all rotate. With `restart`
  // above 0 the frequencies begin anew at first_pair, as those of a head of so many dimensions.
  std::int32_t first_pair = 0, last_pair = 0, restart = 0;
  auto operator<=>(const rope_params&) const = default;
};

// [rotary_dim / 2]: frequency i is theta^(-2i / rotary_dim), scaled, in float64, then rounded; 0 of a
// pair that passes, which then keeps its bits.
// linear (position interpolation, arXiv 2306.15595): divided by the factor.
// llama3 (Llama 3.1): a frequency that turns t times within the pretrained length keeps its value for
// t > high, is divided for t < low, and between is w f + (1 - w) f / factor, w = (t - low) / (high - low).
// yarn (arXiv 2309.00071, equations 20 to 23): the same with w falling linearly in i, from 1 at the pair
// that turns `high` times to 0 at the one that turns `low` times.
std::vector<float> rope_frequencies(const rope_params& rope);

namespace op {

// out[r] = table[token[r]]; table [V, D] in f32, bf16 or f16; out [R, D].
struct embed {
  const std::int32_t* token = nullptr;
  tensor_view table;
  tensor_view out;
};

// out = x / sqrt(mean(x^2) + eps) * weight, row-wise; x, out [R, D] (may alias), weight [D] f32.
struct rms_norm {
  tensor_view x;
  tensor_view weight;
  float eps = 0;
  tensor_view out;
};

// y = x W^T (+ bias) or y += ...; x [R, K], y [R, N]; bias [N] of y's type or data null.
struct linear {
  tensor_view x;
  const packed_matrix& weight;
  tensor_view bias;
  tensor_view y;
  bool accumulate = false;
};

// In place on q [R, heads, dim] or k [R, kv_heads, dim]: RMSNorm over dim when norm_weight has
// data ([dim] f32), then rotate-half RoPE at position[r].
struct head_norm_rope {
  tensor_view x;
  tensor_view norm_weight;
  float eps = 0;
  rope_params rope;
  const std::int32_t* position = nullptr;
};

// Store k, v [R, kv_heads, dim] into the cache at each row's slot; padding rows store
// nothing. Either may have no data: that side of the cache stays as it is.
struct kv_write {
  row_set rows;
  tensor_view k;
  tensor_view v;
  paged_kv cache;
};

// head_norm_rope on q and on k, then kv_write of k and v: what every layer does between its
// projection and its attention. The reference runs them one after the other on the backend it is
// given; a backend with a body of its own makes one pass over the rows (has_own).
struct rotate_and_store {
  row_set rows;
  tensor_view q;
  tensor_view k;
  tensor_view v;
  tensor_view q_norm;
  tensor_view k_norm;
  float eps = 0;
  rope_params rope;
  paged_kv cache;
};

// out[r, f] = silu(gate_up[r, f]) * gate_up[r, F + f]; gate_up [R, 2F], out [R, F].
struct silu_mul {
  tensor_view gate_up;
  tensor_view out;
};

// out = silu(x Wg^T) * (x Wu^T): a linear layer to the pair, then silu_mul; x [R, K], weight [2F, K]
// of the gate and then of up, out [R, F]. pair [R, 2F] is room for what comes between: afterwards it
// holds the pair, or what it held, where a kernel of a backend's own needs none. The reference runs
// both on the backend it is given.
struct gated_linear {
  tensor_view x;
  const packed_matrix& weight;
  tensor_view pair;
  tensor_view out;
};

}  // namespace op
}  // namespace unmask
