// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/phase_costs.h"

#include <algorithm>

#include "harness/profile/phases.h"

namespace unmask {
namespace {

constexpr double activation = 4;  // bytes of a float32: the residual stream

double attention_flops(const model_config& c, const layer_counts& n) {
  return n.keys_seen * 4.0 * c.heads * c.head_dim;
}

double projection_flops(const row_cost& cost, const layer_counts& n) {
  return n.valued * cost.value_flops + n.projected * (cost.qkv_flops - cost.value_flops);
}

}  // namespace

void report_layer(const transformer& model, std::int32_t layer, const layer_counts& n,
                  std::size_t kv_element, bool stored_at_once) {
  phase_listener* listener = current_listener();
  if (!listener) return;
  const model_config& c = model.config();
  const row_cost cost = model.cost(layer);
  const layer_traffic weights = model.traffic(layer);
  const double hidden = c.hidden, q = 1.0 * c.heads * c.head_dim,
               kv = 1.0 * c.kv_heads * c.head_dim;
  const auto input = static_cast<double>(size_of(model.input_type()));
  const double cached = 2 * kv * static_cast<double>(kv_element);  // K and V of one slot

  const double share_v = n.valued > 0 ? weights.value : 0;
  const double share_qk = n.projected > 0 ? weights.qkv - weights.value : 0;
  const double entering = std::max(n.valued, n.projected);
  const double projected = share_v + share_qk + activation * entering * hidden +
                           input * (n.valued * kv + n.projected * (q + kv));
  if (stored_at_once) {  // K and V are in registers when they are stored
    listener->work(profile_phase::project,
                   {entering, projection_flops(cost, n), projected + n.written * cached});
  } else {
    listener->work(profile_phase::project, {entering, projection_flops(cost, n), projected});
    listener->work(profile_phase::cache_update,
                   {n.written, 0, n.written * (2 * kv * input + cached)});
  }
  listener->work(profile_phase::attention, {n.attending, attention_flops(c, n),
                                            n.attending * q * 2 * input + n.busiest_keys * cached});
  listener->work(profile_phase::attention_output,
                 {n.attending, n.attending * cost.output_flops,
                  (n.attending > 0 ? weights.output : 0) +
                      n.attending * (input * q + activation * 2 * hidden)});
  // Routed experts: those that this many rows can reach at most.
  const double experts =
      std::min<double>(c.moe.experts, n.fed * c.moe.experts_per_token) * weights.expert;
  listener->work(profile_phase::feed_forward, {n.fed, n.fed * cost.feed_forward_flops,
                                               (n.fed > 0 ? weights.feed_forward : 0) + experts +
                                                   activation * n.fed * 2 * hidden});
  if (n.selection_flops > 0) {
    listener->work(profile_phase::selection, {0, n.selection_flops, std::nullopt});
  }
}

void report_embed(const transformer& model, std::int64_t rows) {
  if (phase_listener* listener = current_listener()) {
    const double n = static_cast<double>(rows);
    listener->work(profile_phase::embed, {n, 0,
                                          n * (static_cast<double>(model.embedding_row_bytes()) +
                                               activation * model.config().hidden)});
  }
}

void report_final_norm(const transformer& model, std::int64_t rows) {
  if (phase_listener* listener = current_listener()) {
    const double n = static_cast<double>(rows);
    listener->work(profile_phase::final_norm, {n, 0, n * 2 * activation * model.config().hidden});
  }
}

void report_head(const transformer& model, std::int64_t candidates) {
  phase_listener* listener = current_listener();
  if (!listener || candidates == 0) return;
  const double n = static_cast<double>(candidates);
  listener->work(profile_phase::lm_head, {n, n * model.head_flops(),
                                          static_cast<double>(model.head().bytes) +
                                              n * activation * model.config().hidden});
}

}  // namespace unmask
