// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/weights.h"

#include <utility>

#include "kernels/float16.h"

namespace unmask {

model_weights collect_weights(const model_config& config, const weight_source& get) {
  const moe_config& moe = config.moe;
  const std::int64_t d = config.hidden;
  const std::int64_t q = std::int64_t{config.heads} * config.head_dim;
  const std::int64_t kv = std::int64_t{config.kv_heads} * config.head_dim;
  model_weights w;
  w.embedding = get({-1, "", "embedding"}, {config.vocabulary, d});
  w.final_norm = get({-1, "", "final_norm"}, {d});
  w.lm_head =
      config.tied_embeddings ? w.embedding : get({-1, "", "lm_head"}, {config.vocabulary, d});
  for (std::int32_t layer = 0; layer < config.layers; ++layer) {
    const auto of_layer = [&](const char* what, std::initializer_list<std::int64_t> shape) {
      return get({layer, "", what}, shape);
    };
    const auto feed_forward = [&](const std::string& part, std::int64_t f) {
      return feed_forward_weights{get({layer, part, "gate"}, {f, d}),
                                  get({layer, part, "up"}, {f, d}),
                                  get({layer, part, "down"}, {d, f})};
    };
    layer_weights l;
    l.attn_norm = of_layer("attn_norm", {d});
    l.q = of_layer("q", {q, d});
    l.k = of_layer("k", {kv, d});
    l.v = of_layer("v", {kv, d});
    if (config.qkv_bias) {
      l.q_bias = of_layer("q_bias", {q});
      l.k_bias = of_layer("k_bias", {kv});
      l.v_bias = of_layer("v_bias", {kv});
    }
    if (config.qk_norm) {
      l.q_norm = of_layer("q_norm", {config.head_dim});
      l.k_norm = of_layer("k_norm", {config.head_dim});
    }
    l.attn_out = of_layer("attn_out", {d, q});
    l.ffn_norm = of_layer("ffn_norm", {d});
    if (moe.experts == 0 || layer < moe.first_dense_layers) {
      l.dense = feed_forward("", config.feed_forward);
    } else {
      l.router = of_layer("router", {moe.experts, d});
      if (moe.expert_bias) l.router_bias = of_layer("router_bias", {moe.experts});
      for (std::int32_t e = 0; e < moe.experts; ++e) {
        l.experts.push_back(feed_forward("experts." + std::to_string(e) + ".", moe.hidden));
      }
      if (moe.shared_experts > 0) {
        l.shared = feed_forward("shared.", std::int64_t{moe.hidden} * moe.shared_experts);
      }
    }
    w.layers.push_back(std::move(l));
  }
  return w;
}

std::int64_t model_config::parameters() const {
  std::int64_t sum = 0;
  collect_weights(*this, [&](const weight_name&, std::initializer_list<std::int64_t> shape) {
    const tensor_view view = make_view(nullptr, dtype::f32, shape);
    sum += view.elements();
    return view;
  });
  return sum;
}

void soften(model_weights& weights, double by) {
  const tensor_view norm = weights.final_norm;  // one-dimensional: a row per element
  const auto softer = std::make_shared<std::vector<float>>();
  for (std::int64_t i = 0; i < norm.rows(); ++i) {
    softer->push_back(static_cast<float>(float_at(norm, i, 0) / by));
  }
  weights.final_norm.data = softer->data();
  weights.final_norm.type = dtype::f32;
  weights.final_norm.row_stride = 1;
  weights.memory.push_back(softer);
}

}  // namespace unmask
