// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/transformer.h"

#include <algorithm>
#include <mutex>

#include "harness/model/convert.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/ranks.h"
#include "kernels/rows.h"

namespace unmask {
struct transformer::impl {
  struct dense_ffn {
    packed_handle gate_up;  // [2F, D]
    packed_handle down;     // [D, F]
    std::int32_t hidden = 0;
  };

  // The products of a cut model whose results are added.
  struct piece {
    packed_handle out;  // [D, its heads * dim]
    dense_ffn dense;
    moe_experts experts;
    cut_range held;  // of the layer's experts: those of `experts`
  };

  struct layer {
    tensor attn_norm, ffn_norm, q_norm, k_norm, qkv_bias;
    packed_handle qkv, out;          // out: null in a cut model
    tensor_view q, k, v;             // as loaded, for packing them apart on request
    packed_handle query_key, value;  // [(heads + kv_heads) dim, D], [kv_heads dim, D] or null
    dense_ffn dense;  // dense layers: the FFN; MoE layers: the shared expert (hidden 0: none)
    bool routed = false;
    bool shared_is_routed = false;  // the shared expert is also the last of `experts`
    tensor router_weight, router_bias;
    moe_router router;
    moe_experts experts;
    std::vector<piece> pieces;  // of a cut model, in place of `out`, `dense` and `experts`
  };

  model_config config, local;
  model_share share, held;  // what this rank computes; what its weights are a part of
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
  tensor held_expert;    // the choices of one piece, of a share with whole experts
  tensor addends;        // [pieces of this rank, max_rows * D] float32; none of a whole model
  std::once_flag split;  // guards query_key and value of every layer

  void multiply_qkv(const layer& l, const tensor_view& x, const activations& a) const;
  void rotate(const layer& l, const row_set& rows, const activations& a) const;
  void feed_forward(const layer& l, const tensor_view& x, const std::int32_t* sequence,
                    const tensor_view& out, bool accumulate) const;
  void feed_forward_in_pieces(const layer& l, const tensor_view& input,
                              const std::int32_t* sequence, const tensor_view& out,
                              bool accumulate) const;
  void multiply_dense(const dense_ffn& f, const tensor_view& input, const tensor_view& out,
                      bool accumulate) const;
  // The first `columns` of scratch as [n, columns].
  static tensor_view scratch(const tensor& t, std::int64_t n, std::int64_t columns) {
    return make_view(t.view().data, t.view().type, {n, columns});
  }
  // Of piece p, [n, D].
  tensor_view part(std::size_t p, std::int64_t n) const {
    return make_view(addends.as<float>() + static_cast<std::int64_t>(p) * n * config.hidden,
                     dtype::f32, {n, config.hidden});
  }
  void add_parts(const layer& l, const tensor_view& to, bool accumulate) const {
    const auto count = static_cast<std::int64_t>(l.pieces.size());
    backend.run(op::sum_ranks{share.ranks > 1 ? current_ranks() : nullptr,
                              scratch(addends, count, to.rows() * config.hidden), to, accumulate,
                              share.sums, share.two_shots});
  }

  packed_handle pack(const std::vector<tensor_view>& parts) {
    return parts.size() == 1 ? backend.pack(parts[0], format)
                             : backend.pack(stack_rows(parts), format);
  }
  tensor vector_f32(const tensor_view& v) { return to_f32(v, backend); }
  dense_ffn pack_dense(const feed_forward_weights& f);
  moe_experts pack_experts(const layer_weights& w, const cut_range& some);
  void pack_router(layer& l, const layer_weights& w);
  layer pack_layer(const layer_weights& w);
  layer pack_pieces(layer l, const layer_weights& w);
  packed_handle pack_head(const tensor_view& w);
  std::int32_t widest_dense(const layer& l) const;
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

moe_experts transformer::impl::pack_experts(const layer_weights& w, const cut_range& some) {
  moe_experts all;
  if (share.whole_experts && share.is_cut()) all.of = config.moe.experts;
  for (std::int64_t i = some.first; i < some.last; ++i) {
    const feed_forward_weights& e = w.experts[static_cast<std::size_t>(i)];
    all.hidden = static_cast<std::int32_t>(e.gate.rows());
    all.gate_up.push_back(pack({e.gate, e.up}));
    all.down.push_back(pack({e.down}));
  }
  return all;
}

void transformer::impl::pack_router(layer& l, const layer_weights& w) {
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
              unmask::pack_router(backend, w.router, format)};
  if (w.router_bias.data) {
    l.router_bias = vector_f32(w.router_bias);
    l.router.bias = l.router_bias.view();
  }
}

transformer::impl::layer transformer::impl::pack_pieces(layer l, const layer_weights& w) {
  for (const model_share& one : pieces_of(share)) {
    const layer_weights of = cut(w, config, one, held);
    const cut_range experts = l.routed ? experts_of(config, one) : cut_range{};
    l.pieces.push_back({pack({of.attn_out}), pack_dense(l.routed ? of.shared : of.dense),
                        pack_experts(of, experts), experts});
  }
  return l;
}

// `w` are the rows of the share that is held, or of all: of a tied head, and of a whole model.
packed_handle transformer::impl::pack_head(const tensor_view& w) {
  if (!share.is_cut()) return pack({w});
  const std::int64_t from =
      w.rows() == config.vocabulary ? 0 : tokens_of(config.vocabulary, held).first;
  const tensor edges =
      backend.allocate(dtype::i32, {share.pieces + std::int64_t{1}}, memory_use::host_visible);
  const std::vector<model_share> every = pieces_of({0, 1, share.pieces});
  for (std::size_t p = 0; p < every.size(); ++p) {
    const cut_range tokens = tokens_of(config.vocabulary, every[p]);
    edges.as<std::int32_t>()[p] = static_cast<std::int32_t>(tokens.first);
    edges.as<std::int32_t>()[p + 1] = static_cast<std::int32_t>(tokens.last);
  }
  std::vector<packed_handle> own;
  for (const model_share& one : pieces_of(share)) {
    const cut_range tokens = tokens_of(config.vocabulary, one);
    own.push_back(pack({w.slice(tokens.first - from, tokens.size())}));
  }
  return std::make_shared<cut_head>(std::move(own), static_cast<std::size_t>(share.first()), edges);
}

std::int32_t transformer::impl::widest_dense(const layer& l) const {
  std::int32_t widest = l.dense.hidden;
  for (const piece& p : l.pieces) widest = std::max(widest, p.dense.hidden);
  return widest;
}

transformer::impl::layer transformer::impl::pack_layer(const layer_weights& whole) {
  const layer_weights w = cut(whole, config, share, held);
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
  l.routed = !w.experts.empty();
  if (l.routed) pack_router(l, w);
  if (share.is_cut()) return pack_pieces(std::move(l), whole);
  l.out = pack({w.attn_out});
  l.dense = pack_dense(l.routed ? w.shared : w.dense);
  if (!l.routed) return l;
  l.experts = pack_experts(w, {0, config.moe.experts});
  // Where experts are one product for tensor cores, one more of their size costs less than the
  // three operations of its own: a step of few rows mostly waits for operations to start.
  l.shared_is_routed = input_type == dtype::bf16 && l.dense.hidden == config.moe.hidden;
  if (l.shared_is_routed) {
    l.experts.gate_up.push_back(l.dense.gate_up);
    l.experts.down.push_back(l.dense.down);
  }
  return l;
}

transformer::transformer(model_config config, const model_weights& weights,
                         const unmask::backend& backend, weight_format format,
                         std::int32_t max_rows, dtype kv_dtype, const model_share& share)
    : impl_(new impl{.config = config,
                     .local = local_config(config, share),
                     .share = share,
                     .held = weights.held,
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
  check_share(c, share, format);
  std::shared_ptr<void> embedding_copy;
  m.embedding = m.backend.resident(m.embedding, &embedding_copy);
  if (embedding_copy) m.keep_alive.push_back(embedding_copy);
  m.final_norm = m.vector_f32(weights.final_norm);
  m.head = m.pack_head(weights.lm_head);

  std::int32_t widest = 0;
  for (const layer_weights& w : weights.layers) {
    m.layers.push_back(m.pack_layer(w));
    widest = std::max(widest, m.widest_dense(m.layers.back()));
  }
  if (share.is_cut()) {
    m.addends = m.backend.allocate(
        dtype::f32, {share.last() - share.first(), std::int64_t{max_rows} * c.hidden});
  }
  m.normed = m.backend.allocate(m.input_type, {max_rows, c.hidden});
  m.gate_up = m.backend.allocate(m.input_type, {max_rows, 2 * widest});
  m.gated = m.backend.allocate(m.input_type, {max_rows, widest});
  if (c.moe.experts > 0) {
    m.expert = m.backend.allocate(dtype::i32, {max_rows, c.moe.experts_per_token + 1});
    m.expert_weight = m.backend.allocate(dtype::f32, {max_rows, c.moe.experts_per_token + 1});
    if (share.whole_experts && share.is_cut()) {
      m.held_expert = m.backend.allocate(dtype::i32, {max_rows, c.moe.experts_per_token});
    }
  }
}

transformer::~transformer() = default;
transformer::transformer(transformer&&) noexcept = default;

const model_config& transformer::config() const {
  return impl_->config;
}
const model_config& transformer::local() const {
  return impl_->local;
}
bool transformer::counts_values() const {
  return unmask::counts_values(impl_->config, impl_->share);
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
  const model_config& c = impl_->local;
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
  return heads_of(a.qkv, n, 0, impl_->local.heads, impl_->local.head_dim);
}
tensor_view transformer::key(const activations& a, std::int32_t n) const {
  const model_config& c = impl_->local;
  return heads_of(a.qkv, n, c.heads, c.kv_heads, c.head_dim);
}
tensor_view transformer::value(const activations& a, std::int32_t n) const {
  const model_config& c = impl_->local;
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
  if (a.axis_position) {
    m.rotate(l, rows, a);
    m.backend.run(op::kv_write{rows, key(a, n), value(a, n), cache});
    return;
  }
  m.backend.run(op::rotate_and_store{rows, query(a, n), key(a, n), value(a, n), l.q_norm, l.k_norm,
                                     m.config.norm_eps, m.config.rope, cache});
}

void transformer::project(std::int32_t index, const tensor_view& x, const row_set& rows,
                          const activations& a) const {
  const impl& m = *impl_;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  m.multiply_qkv(l, x, a);
  m.rotate(l, rows, a);
}

// Query and key of these rows in place. On axes one rotation for each: the pairs of the others pass.
void transformer::impl::rotate(const layer& l, const row_set& rows, const activations& a) const {
  const std::int32_t n = rows.rows;
  const tensor_view q = heads_of(a.qkv, n, 0, local.heads, local.head_dim);
  const tensor_view k = heads_of(a.qkv, n, local.heads, local.kv_heads, local.head_dim);
  const auto turn = [&](const rope_params& rope, const std::int32_t* position,
                        const tensor_view& q_norm, const tensor_view& k_norm) {
    backend.run(op::head_norm_rope{q, q_norm, config.norm_eps, rope, position});
    backend.run(op::head_norm_rope{k, k_norm, config.norm_eps, rope, position});
  };
  if (!a.axis_position) {
    turn(config.rope, rows.position, l.q_norm, l.k_norm);
    return;
  }
  rope_params rope = config.rope;
  auto* position = a.axis_position.as<std::int32_t>();
  for (std::size_t axis = 0; axis < a.axes.size(); ++axis) {
    rope.first_pair = rope.last_pair;
    rope.last_pair += config.axes[axis];
    backend.run(op::gather_tokens{rows, a.axes[axis], position});
    if (axis == 0) {
      turn(rope, position, l.q_norm, l.k_norm);
    } else {
      turn(rope, position, {}, {});
    }
  }
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

void transformer::project_query_key(std::int32_t index, const tensor_view& x, const row_set& rows,
                                    const activations& a) const {
  const impl& m = *impl_;
  const model_config& c = m.local;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  if (!l.query_key) throw std::logic_error("transformer: the split projection was not asked for");
  const auto n = static_cast<std::int32_t>(x.rows());
  const std::int64_t width = std::int64_t{c.heads + c.kv_heads} * c.head_dim;
  const tensor_view normed = m.normed.view().first(n);
  m.backend.run(op::rms_norm{x, l.attn_norm, c.norm_eps, normed});
  const tensor_view bias = l.qkv_bias ? l.qkv_bias.view().first(width) : tensor_view{};
  m.backend.run(op::linear{normed, *l.query_key, bias,
                           heads_of(a.qkv, n, 0, c.heads + c.kv_heads, c.head_dim), false});
  m.rotate(l, rows, a);
}

void transformer::project_value(std::int32_t index, const tensor_view& x,
                                const activations& a) const {
  const impl& m = *impl_;
  const model_config& c = m.local;
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
  const impl& m = *impl_;
  const auto& l = m.layers[static_cast<std::size_t>(index)];
  if (l.pieces.empty()) {
    m.backend.run(op::linear{attention, *l.out, {}, x, accumulate});
    return;
  }
  tensor_view heads = attention;  // of one piece after the other
  heads.rank = 2;
  for (std::size_t p = 0; p < l.pieces.size(); ++p) {
    const packed_matrix& out = *l.pieces[p].out;
    heads.shape = {x.rows(), out.in_features, 0, 0};
    m.backend.run(op::linear{heads, out, {}, m.part(p, x.rows()), false});
    heads.data = static_cast<std::byte*>(heads.data) +
                 static_cast<std::size_t>(out.in_features) * size_of(heads.type);
  }
  m.add_parts(l, x, accumulate);
}

// out (+)= W_d (silu(W_g input) * W_u input).
void transformer::impl::multiply_dense(const dense_ffn& f, const tensor_view& input,
                                       const tensor_view& out, bool accumulate) const {
  const std::int64_t n = input.rows();
  const tensor_view pair = scratch(gate_up, n, 2 * f.hidden), product = scratch(gated, n, f.hidden);
  backend.run(op::gated_linear{input, *f.gate_up, pair, product});
  backend.run(op::linear{product, *f.down, {}, out, accumulate});
}

void transformer::impl::feed_forward_in_pieces(const layer& l, const tensor_view& input,
                                               const std::int32_t* sequence, const tensor_view& out,
                                               bool accumulate) const {
  const std::int64_t n = input.rows();
  tensor_view chosen, weight, of_piece;
  if (l.routed) {
    moe_router router = l.router;
    router.sequence = sequence;
    chosen = scratch(expert, n, router.experts_per_token);
    weight = scratch(expert_weight, n, router.experts_per_token);
    backend.run(op::moe_route{input, router, chosen, weight});
    of_piece = share.whole_experts ? scratch(held_expert, n, router.experts_per_token) : chosen;
  }
  for (std::size_t p = 0; p < l.pieces.size(); ++p) {
    const piece& one = l.pieces[p];
    const tensor_view to = part(p, n);
    if (one.dense.hidden > 0) {
      multiply_dense(one.dense, input, to, false);
    } else {
      backend.clear(to.data, static_cast<std::size_t>(to.elements()) * sizeof(float));
    }
    if (!l.routed) continue;
    if (share.whole_experts) {
      backend.run(op::moe_held{chosen, static_cast<std::int32_t>(one.held.first),
                               static_cast<std::int32_t>(one.held.last), of_piece});
    }
    backend.run(op::moe_feed_forward{input, of_piece, weight, one.experts, to});
  }
  add_parts(l, out, accumulate);
}

void transformer::impl::feed_forward(const layer& l, const tensor_view& x,
                                     const std::int32_t* sequence, const tensor_view& out,
                                     bool accumulate) const {
  const std::int64_t n = x.rows();
  const tensor_view input = normed.view().first(n);
  backend.run(op::rms_norm{x, l.ffn_norm, config.norm_eps, input});
  const bool has_dense = l.pieces.empty() ? l.dense.hidden > 0 : l.pieces[0].dense.hidden > 0;
  if (!accumulate && !has_dense) {
    throw std::logic_error("transformer: a routed layer without a shared expert has no branch");
  }
  if (!l.pieces.empty()) {
    feed_forward_in_pieces(l, input, sequence, out, accumulate);
    return;
  }
  const bool routes_shared = l.shared_is_routed && accumulate;
  if (has_dense && !routes_shared) multiply_dense(l.dense, input, out, accumulate);
  if (l.routed) {
    moe_router router = l.router;
    router.sequence = sequence;
    router.shared = routes_shared ? 1 : 0;
    const std::int32_t per_row = router.experts_per_token + router.shared;
    const tensor_view chosen = scratch(expert, n, per_row),
                      weight = scratch(expert_weight, n, per_row);
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
  const model_config& c = impl_->config;
  const double d = c.hidden, q = double{1} * c.heads * c.head_dim,
               kv = double{1} * c.kv_heads * c.head_dim;
  row_cost cost;
  cost.qkv_flops = 2.0 * d * (q + 2 * kv);
  cost.value_flops = 2.0 * d * kv;
  cost.output_flops = 2.0 * d * q;
  if (!impl_->layers[static_cast<std::size_t>(index)].routed) {
    cost.feed_forward_flops = 6.0 * d * c.feed_forward;
    return cost;
  }
  const moe_config& moe = c.moe;
  cost.feed_forward_flops = 6.0 * d * moe.hidden * moe.shared_experts + 2.0 * d * moe.experts +
                            6.0 * d * moe.hidden * moe.experts_per_token;
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
  t.value = t.qkv * m.local.kv_heads / (m.local.heads + 2.0 * m.local.kv_heads);
  t.output = bytes(l.out);
  if (l.routed) t.feed_forward = static_cast<double>(l.router_weight.bytes());
  const auto add = [&](const impl::dense_ffn& dense, const moe_experts& experts) {
    t.feed_forward += bytes(dense.gate_up) + bytes(dense.down);
    if (experts.down.empty()) return;
    const double one = bytes(experts.gate_up.front()) + bytes(experts.down.front());
    // Of whole experts each is in one piece; else in every piece there is a part of it.
    t.expert = m.share.whole_experts ? one : t.expert + one;
  };
  add(l.dense, l.experts);
  for (const auto& p : l.pieces) {
    t.output += bytes(p.out);
    add(p.dense, p.experts);
  }
  return t;
}

std::size_t transformer::weight_bytes() const {
  const impl& m = *impl_;
  std::size_t sum = 0;
  const auto packed = [&](const packed_handle& p) { sum += p ? p->bytes : 0; };
  const auto vectors = [&](std::initializer_list<const tensor*> all) {
    for (const tensor* t : all) sum += t->bytes();
  };
  const auto dense = [&](const impl::dense_ffn& f) {
    packed(f.gate_up);
    packed(f.down);
  };
  const auto experts = [&](const moe_experts& all, std::size_t count) {
    for (std::size_t e = 0; e < count; ++e) {
      packed(all.gate_up[e]);
      packed(all.down[e]);
    }
  };
  packed(m.head);
  sum += static_cast<std::size_t>(m.embedding.elements()) * size_of(m.embedding.type);
  vectors({&m.final_norm});
  for (const auto& l : m.layers) {
    vectors({&l.attn_norm, &l.ffn_norm, &l.q_norm, &l.k_norm, &l.qkv_bias, &l.router_weight,
             &l.router_bias});
    for (const packed_handle* p : {&l.qkv, &l.out, &l.query_key, &l.value, &l.router.parts}) {
      packed(*p);
    }
    dense(l.dense);
    // The shared expert is counted once, whichever way it is computed.
    experts(l.experts, l.experts.down.size() - (l.shared_is_routed ? 1 : 0));
    for (const auto& p : l.pieces) {
      packed(p.out);
      dense(p.dense);
      experts(p.experts, p.experts.down.size());
    }
  }
  return sum;
}

std::size_t transformer::embedding_row_bytes() const {
  return static_cast<std::size_t>(impl_->config.hidden) * size_of(impl_->embedding.type);
}

}  // namespace unmask
