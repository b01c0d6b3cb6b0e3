// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/transformer.h"

#include <algorithm>
#include <mutex>

#include "harness/model/convert.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"

namespace unmask {
struct transformer::impl {
  struct dense_ffn {
    packed_handle gate_up;  // [2F, D]
    packed_handle down;     // [D, F]
    std::int32_t hidden = 0;
  };

  struct layer {
    tensor attn_norm, ffn_norm, q_norm, k_norm, qkv_bias;
    packed_handle qkv, out;
    tensor_view q, k, v;             // as loaded, for packing them apart on request
    packed_handle query_key, value;  // [(heads + kv_heads) dim, D], [kv_heads dim, D] or null
    dense_ffn dense;  // dense layers: the FFN; MoE layers: the shared expert (hidden 0: none)
    bool routed = false;
    bool shared_is_routed = false;  // the shared expert is also the last of `experts`
    tensor router_weight, router_bias;
    moe_router router;
    moe_experts experts;
  };

  model_config config;
  const unmask::backend& backend;
  weight_format format;
  std::int32_t max_rows;
  dtype kv_dtype;
  dtype input_type;  // of all activations but the residual stream
  std::vector<std::shared_ptr<const void>> keep_alive;  // the mapped file behind the embedding
  tensor_view embedding;
  tensor final_norm;
  packed_handle head;
  std::vector<layer> layers;

  // Scratch [max_rows, ...] that no caller sees.
  tensor normed, gate_up, gated, expert, expert_weight;
  std::once_flag split;  // guards query_key and value of every layer

  void multiply_qkv(const layer& l, const tensor_view& x, const activations& a) const;
  void feed_forward(const layer& l, const tensor_view& x, const std::int32_t* sequence,
                    const tensor_view& out, bool accumulate) const;

  packed_handle pack(const std::vector<tensor_view>& parts) {
    return parts.size() == 1 ? backend.pack(parts[0], format)
                             : backend.pack(stack_rows(parts), format);
  }
  tensor vector_f32(const tensor_view& v) { return to_f32(v, backend); }
  dense_ffn pack_dense(const feed_forward_weights& f);
  void pack_experts(layer& l, const layer_weights& w);
  layer pack_layer(const layer_weights& w);
};

// Nothing where there are no weights, as of a shared expert that a model does not have.
transformer::impl::dense_ffn transformer::impl::pack_dense(const feed_forward_weights& f) {
  dense_ffn d;
  if (!f.gate.data) return d;
  d.gate_up = pack({f.gate, f.up});
  d.down = pack({f.down});
  d.hidden = static_cast<std::int32_t>(f.gate.rows());
  return d;
}

void transformer::impl::pack_experts(layer& l, const layer_weights& w) {
  const moe_config& moe = config.moe;
  l.router_weight = vector_f32(w.router);
  l.router = {moe.experts,
              moe.experts_per_token,
              moe.groups,
              moe.groups_kept,
              moe.scaling,
              moe.sigmoid,
              moe.normalize,
              l.router_weight.view(),
              pack_router(backend, w.router, format)};
  if (w.router_bias.data) {
    l.router_bias = vector_f32(w.router_bias);
    l.router.bias = l.router_bias.view();
  }
  l.experts.hidden = moe.hidden;
  for (const feed_forward_weights& e : w.experts) {
    l.experts.gate_up.push_back(pack({e.gate, e.up}));
    l.experts.down.push_back(pack({e.down}));
  }
  // Where experts are one product for tensor cores, one more of their size costs less than the
  // three operations of its own: a step of few rows mostly waits for operations to start.
  l.shared_is_routed = input_type == dtype::bf16 && l.dense.hidden == moe.hidden;
  if (l.shared_is_routed) {
    l.experts.gate_up.push_back(l.dense.gate_up);
    l.experts.down.push_back(l.dense.down);
  }
}

transformer::impl::layer transformer::impl::pack_layer(const layer_weights& w) {
  layer l;
  l.attn_norm = vector_f32(w.attn_norm);
  l.ffn_norm = vector_f32(w.ffn_norm);
  l.qkv = pack({w.q, w.k, w.v});
  l.q = w.q;
  l.k = w.k;
  l.v = w.v;
  if (w.q_bias.data) {
    l.qkv_bias = to_f32(stack_rows({w.q_bias, w.k_bias, w.v_bias}), backend, input_type);
  }
  if (w.q_norm.data) l.q_norm = vector_f32(w.q_norm);
  if (w.k_norm.data) l.k_norm = vector_f32(w.k_norm);
  l.out = pack({w.attn_out});
  l.routed = !w.experts.empty();
  l.dense = pack_dense(l.routed ? w.shared : w.dense);
  if (l.routed) pack_experts(l, w);
  return l;
}

transformer::transformer(model_config config, const model_weights& weights,
                         const unmask::backend& backend, weight_format format,
                         std::int32_t max_rows, dtype kv_dtype)
    : impl_(new impl{.config = std::move(config),
                     .backend = backend,
                     .format = format,
                     .max_rows = max_rows,
                     .kv_dtype = kv_dtype,
                     .input_type = backend.activation_type(format),
                     .keep_alive = weights.memory,
                     .embedding = weights.embedding}) {
  impl& m = *impl_;
  const model_config& c = m.config;
  if (!backend.holds_kv(kv_dtype)) {
    throw usage_error(c.name + ": keys and values in " + name_of(kv_dtype) + ": the " +
                      backend.name() + " backend keeps them in f32; use auto or f32");
  }
  std::shared_ptr<void> embedding_copy;
  m.embedding = m.backend.resident(m.embedding, &embedding_copy);
  if (embedding_copy) m.keep_alive.push_back(embedding_copy);
  m.final_norm = m.vector_f32(weights.final_norm);
  m.head = m.pack({weights.lm_head});

  std::int32_t widest = 0;
  for (const layer_weights& w : weights.layers) {
    m.layers.push_back(m.pack_layer(w));
    widest = std::max(widest, m.layers.back().dense.hidden);
  }
  m.normed = m.backend.allocate(m.input_type, {max_rows, c.hidden});
  m.gate_up = m.backend.allocate(m.input_type, {max_rows, 2 * widest});
  m.gated = m.backend.allocate(m.input_type, {max_rows, widest});
  if (c.moe.experts > 0) {
    m.expert = m.backend.allocate(dtype::i32, {max_rows, c.moe.experts_per_token + 1});
    m.expert_weight = m.backend.allocate(dtype::f32, {max_rows, c.moe.experts_per_token + 1});
  }
}

transformer::~transformer() = default;
transformer::transformer(transformer&&) noexcept = default;

const model_config& transformer::config() const {
  return impl_->config;
}
const unmask::backend& transformer::backend() const {
  return impl_->backend;
}
std::int32_t transformer::max_rows() const {
  return impl_->max_rows;
}
dtype transformer::input_type() const {
  return impl_->input_type;
}
dtype transformer::kv_dtype() const {
  return impl_->kv_dtype;
}
const packed_matrix& transformer::head() const {
  return *impl_->head;
}

transformer::activations transformer::make_activations() const {
  const model_config& c = impl_->config;
  const unmask::backend& backend = impl_->backend;
  const std::int64_t n = impl_->max_rows;
  return {backend.allocate(dtype::f32, {n, c.hidden}),
          backend.allocate(impl_->input_type, {n, (c.heads + 2 * c.kv_heads) * c.head_dim}),
          backend.allocate(impl_->input_type, {n, c.heads * c.head_dim})};
}

namespace {
// Heads [first, first + count) of every row of qkv as [n, count, dim].
tensor_view heads_of(const tensor& qkv, std::int32_t n, std::int32_t first, std::int32_t count,
                     std::int32_t dim) {
  tensor_view v = qkv.view().first(n);
  v.data =
      static_cast<std::byte*>(v.data) + static_cast<std::size_t>(first * dim) * size_of(v.type);
  v.rank = 3;
  v.shape = {n, count, dim, 0};
  return v;  // keeps the row stride of qkv
}
}  // namespace

tensor_view transformer::query(const activations& a, std::int32_t n) const {
  return heads_of(a.qkv, n, 0, impl_->config.heads, impl_->config.head_dim);
}
tensor_view transformer::key(const activations& a, std::int32_t n) const {
  const model_config& c = impl_->config;
  return heads_of(a.qkv, n, c.heads, c.kv_heads, c.head_dim);
}
tensor_view transformer::value(const activations& a, std::int32_t n) const {
  const model_config& c = impl_->config;
  return heads_of(a.qkv, n, c.heads + c.kv_heads, c.kv_heads, c.head_dim);
}

void transformer::embed(const std::int32_t* token, const tensor_view& x) const {
  impl_->backend.run(op::embed{token, impl_->embedding, x});
}

void transformer::impl::multiply_qkv(const layer& l, const tensor_view& x,
                                     const activations& a) const {
  const std::int64_t n = x.rows();
  const tensor_view input = normed.view().first(n);
  backend.run(op::rms_norm{x, l.attn_norm, config.norm_eps, input});
  backend.run(op::linear{input, *l.qkv, l.qkv_bias, a.qkv.view().first(n), false});
}

void transformer::project_and_store(std::int32_t index, const tensor_view& x, const row_set& rows,
                                    const activations& a, const paged_kv& cache) const {
  const impl& m = *impl_;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  const auto n = static_cast<std::int32_t>(x.rows());
  m.multiply_qkv(l, x, a);
  m.backend.run(op::rotate_and_store{rows, query(a, n), key(a, n), value(a, n), l.q_norm, l.k_norm,
                                     m.config.norm_eps, m.config.rope, cache});
}

void transformer::project(std::int32_t index, const tensor_view& x, const std::int32_t* position,
                          const activations& a) const {
  const impl& m = *impl_;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  const auto n = static_cast<std::int32_t>(x.rows());
  m.multiply_qkv(l, x, a);
  m.backend.run(
      op::head_norm_rope{query(a, n), l.q_norm, m.config.norm_eps, m.config.rope, position});
  m.backend.run(
      op::head_norm_rope{key(a, n), l.k_norm, m.config.norm_eps, m.config.rope, position});
}

void transformer::require_split_projection() const {
  impl& m = *impl_;
  std::call_once(m.split, [&] {
    for (auto& l : m.layers) {
      l.query_key = m.pack({l.q, l.k});
      l.value = m.pack({l.v});
    }
  });
}

void transformer::project_query_key(std::int32_t index, const tensor_view& x,
                                    const std::int32_t* position, const activations& a) const {
  const impl& m = *impl_;
  const model_config& c = m.config;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  if (!l.query_key) throw std::logic_error("transformer: the split projection was not asked for");
  const auto n = static_cast<std::int32_t>(x.rows());
  const std::int64_t width = std::int64_t{c.heads + c.kv_heads} * c.head_dim;
  const tensor_view normed = m.normed.view().first(n);
  m.backend.run(op::rms_norm{x, l.attn_norm, c.norm_eps, normed});
  const tensor_view bias = l.qkv_bias ? l.qkv_bias.view().first(width) : tensor_view{};
  m.backend.run(op::linear{normed, *l.query_key, bias,
                           heads_of(a.qkv, n, 0, c.heads + c.kv_heads, c.head_dim), false});
  m.backend.run(op::head_norm_rope{query(a, n), l.q_norm, c.norm_eps, c.rope, position});
  m.backend.run(op::head_norm_rope{key(a, n), l.k_norm, c.norm_eps, c.rope, position});
}

void transformer::project_value(std::int32_t index, const tensor_view& x,
                                const activations& a) const {
  const impl& m = *impl_;
  const model_config& c = m.config;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  if (!l.value) throw std::logic_error("transformer: the split projection was not asked for");
  const auto n = static_cast<std::int32_t>(x.rows());
  const std::int64_t before = std::int64_t{c.heads + c.kv_heads} * c.head_dim;
  const tensor_view normed = m.normed.view().first(n);
  m.backend.run(op::rms_norm{x, l.attn_norm, c.norm_eps, normed});
  const tensor_view bias =
      l.qkv_bias ? l.qkv_bias.view().slice(before, c.kv_heads * c.head_dim) : tensor_view{};
  m.backend.run(op::linear{normed, *l.value, bias, value(a, n), false});
}

void transformer::attention_output(std::int32_t index, const tensor_view& attention,
                                   const tensor_view& x, bool accumulate) const {
  const auto& l = impl_->layers[static_cast<std::size_t>(index)];
  impl_->backend.run(op::linear{attention, *l.out, {}, x, accumulate});
}

void transformer::impl::feed_forward(const layer& l, const tensor_view& x,
                                     const std::int32_t* sequence, const tensor_view& out,
                                     bool accumulate) const {
  const std::int64_t n = x.rows();
  const tensor_view input = normed.view().first(n);
  backend.run(op::rms_norm{x, l.ffn_norm, config.norm_eps, input});
  const auto part = [&](const tensor& t, std::int64_t columns) {
    return make_view(t.view().data, t.view().type, {n, columns});
  };
  const bool routes_shared = l.shared_is_routed && accumulate;
  if (l.dense.hidden > 0 && !routes_shared) {
    const tensor_view pair = part(gate_up, 2 * l.dense.hidden);
    const tensor_view product = part(gated, l.dense.hidden);
    backend.run(op::linear{input, *l.dense.gate_up, {}, pair, false});
    backend.run(op::silu_mul{pair, product});
    backend.run(op::linear{product, *l.dense.down, {}, out, accumulate});
  } else if (!accumulate) {
    throw std::logic_error("transformer: a routed layer without a shared expert has no branch");
  }
  if (l.routed) {
    moe_router router = l.router;
    router.sequence = sequence;
    router.shared = routes_shared ? 1 : 0;
    const std::int32_t per_row = router.experts_per_token + router.shared;
    const tensor_view chosen = part(expert, per_row), weight = part(expert_weight, per_row);
    backend.run(op::moe_route{input, router, chosen, weight});
    backend.run(op::moe_feed_forward{input, chosen, weight, l.experts, out});
  }
}

void transformer::feed_forward(std::int32_t index, const tensor_view& x,
                               const std::int32_t* sequence) const {
  impl_->feed_forward(impl_->layers[static_cast<std::size_t>(index)], x, sequence, x, true);
}

void transformer::feed_forward_branch(std::int32_t index, const tensor_view& x,
                                      const tensor_view& out) const {
  impl_->feed_forward(impl_->layers[static_cast<std::size_t>(index)], x, nullptr, out, false);
}

void transformer::final_norm(const tensor_view& x, const tensor_view& out) const {
  impl_->backend.run(op::rms_norm{x, impl_->final_norm, impl_->config.norm_eps, out});
}

row_cost transformer::cost(std::int32_t index) const {
  const impl& m = *impl_;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  const double d = m.config.hidden;
  row_cost cost;
  cost.qkv_flops = 2.0 * d * static_cast<double>(l.qkv->out_features);
  cost.value_flops = 2.0 * d * m.config.kv_heads * m.config.head_dim;
  cost.output_flops = 2.0 * d * static_cast<double>(l.out->in_features);
  cost.feed_forward_flops = 6.0 * d * l.dense.hidden;
  if (l.routed) {
    cost.feed_forward_flops += 2.0 * d * m.config.moe.experts +
                               6.0 * d * m.config.moe.hidden * m.config.moe.experts_per_token;
  }
  return cost;
}

double transformer::head_flops() const {
  return 2.0 * impl_->config.hidden * static_cast<double>(impl_->config.vocabulary);
}

layer_traffic transformer::traffic(std::int32_t index) const {
  const impl& m = *impl_;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  const auto bytes = [](const packed_handle& p) { return p ? static_cast<double>(p->bytes) : 0.0; };
  layer_traffic t;
  t.qkv = bytes(l.qkv);
  t.value = t.qkv * m.config.kv_heads / (m.config.heads + 2.0 * m.config.kv_heads);
  t.output = bytes(l.out);
  t.feed_forward = bytes(l.dense.gate_up) + bytes(l.dense.down);
  if (l.routed) {
    t.feed_forward += static_cast<double>(l.router_weight.bytes());
    t.expert = bytes(l.experts.gate_up.front()) + bytes(l.experts.down.front());
  }
  return t;
}

std::size_t transformer::embedding_row_bytes() const {
  return static_cast<std::size_t>(impl_->config.hidden) * size_of(impl_->embedding.type);
}

}  // namespace unmask
