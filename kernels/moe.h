// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Routed experts.
#pragma once

#include "kernels/operation.h"

namespace unmask {

struct moe_router {
  std::int32_t experts = 0, experts_per_token = 0, groups = 1, groups_kept = 1;
  float scaling = 1.0F;
  bool sigmoid = true;    // score = sigmoid(logit), else softmax over all experts
  bool normalize = true;  // weights / (sum + 1e-20)
  tensor_view weight;     // [experts, D] float32
  packed_handle parts;    // of weight, by pack_router(); null: none
  tensor_view bias;       // [experts] float32 added for selection only; data null: none
  // [R] of the rows: padding rows take no expert (-1, weight 0), so that they read
  // no expert's weights; null: every row takes some.
  const std::int32_t* sequence = nullptr;
  // 1: expert number `experts` is shared: every row takes it too, with weight 1, after its own.
  std::int32_t shared = 0;
};

// The two bfloat16 matrices whose sum is `weight` up to 2^-17 of it, one over the other [2 experts, D]:
// two products on tensor cores take a float32 matrix almost exactly. Null where rows with weights of
// this format are not bfloat16, or not whole pieces of 16 bytes.
packed_handle pack_router(const backend& backend, const tensor_view& weight, weight_format format);

struct moe_experts {
  std::vector<packed_handle> gate_up;  // per expert, [2 F, D]: gate rows then up rows
  std::vector<packed_handle> down;     // per expert, [D, F]
  std::int32_t hidden = 0;             // F
  std::int32_t of = 0;  // rows choose among so many, of which these are some; 0: these
};

namespace op {

// Group-limited routing (LLaDA2.0): expert [R, k + shared] int32, weight [R, k + shared] f32,
// descending by selection score, lowest expert first on ties; group score = sum of its two largest.
struct moe_route {
  tensor_view x;
  const moe_router& router;
  tensor_view expert;
  tensor_view weight;
};

// The choices of rows for the experts [first, last) that somebody has: to[r, i] = expert[r, i] - first,
// -1 where expert[r, i] is none of them. expert, to: [R, k] int32.
struct moe_held {
  tensor_view expert;
  std::int32_t first = 0, last = 0;
  tensor_view to;
};

// y[r] += sum_i weight[r, i] * down_e(silu(gate_e x) * up_e x), e = expert[r, i]; e < 0 adds
// nothing.
struct moe_feed_forward {
  tensor_view x;
  tensor_view expert;
  tensor_view weight;
  const moe_experts& experts;
  tensor_view y;
};

}  // namespace op
}  // namespace unmask
