// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The transformer of every family in pieces, so that the step loop can stand between them: it
// chooses the rows, writes the cache, narrows, and picks the keys. Pre-norm blocks:
//   q, k, v = W_{q,k,v} RMSNorm(x) (+ bias); per-head RMSNorm (QK-norm) and RoPE on q and k
//   x += W_o attention(q, k, v);  x += FFN(RMSNorm(x)), FFN = W_d (silu(W_g n) * W_u n) or MoE
//   logits = W_head RMSNorm(x)
// A rank holds a share of it (share.h): W_o and W_d multiply its heads and its part of the width, and
// what all ranks get is added (op::sum_ranks) before it comes to x, which is whole on every rank. W_head
// has the rank's part of the vocabulary (cut_head in kernels/head.h).
#pragma once

#include <array>
#include <memory>

#include "harness/model/config.h"
#include "harness/model/share.h"
#include "harness/model/weights.h"
#include "kernels/backend.h"

namespace unmask {

// Analytic cost of the dense parts for one row of the whole model, whoever computes it: multiply-adds
// count as two operations.
struct row_cost {
  double qkv_flops = 0;     // of a row entering the layer
  double output_flops = 0;  // of a row that survives narrowing, as feed_forward_flops
  double feed_forward_flops = 0;
  double value_flops = 0;  // of qkv_flops: the value projection alone
};

// Bytes of packed weights that one use of a part of a layer reads on this rank.
struct layer_traffic {
  double qkv = 0;
  double value = 0;  // of qkv: the value projection
  double output = 0;
  double feed_forward = 0;  // dense part, shared expert and router
  double expert = 0;        // of one routed expert; 0: a dense layer
};

class transformer {
 public:
  // Packs every weight for the backend. `max_rows` sizes the scratch of one forward. `kv_dtype`:
  // what loops over this model keep keys and values in; usage error where the backend cannot.
  // `config` is the whole model's, `weights` too or those of this share. A share of several ranks moves bytes in the
  // group that is in force (base/ranks/group.h) whenever it computes.
  transformer(model_config config, const model_weights& weights, const unmask::backend& backend,
              weight_format format, std::int32_t max_rows, dtype kv_dtype = dtype::f32,
              const model_share& share = {});
  ~transformer();
  transformer(transformer&&) noexcept;

  const model_config& config() const;  // of the whole model: what methods and counts see
  const model_config& local() const;   // with the heads of this rank: what its tensors have
  // Whether the values of this rank count where values of all heads are summed (share.h).
  bool counts_values() const;
  const unmask::backend& backend() const;
  std::int32_t max_rows() const;
  dtype kv_dtype() const;
  dtype input_type() const;  // backend::activation_type: of all but the residual stream

  // Scratch of one forward, [max_rows, ...]; the loop takes the first R rows of each.
  struct activations {
    tensor x;  // [max_rows, D] residual stream
    // [max_rows, (heads + 2 kv_heads) * head_dim] of local(), of backend::activation_type
    tensor qkv;
    tensor attention;  // [max_rows, heads * head_dim], the same
    // Of a model whose pictures have places on axes (model_config::axes), set by the loop that shows
    // some: the place of each position on each axis, [S, length] i32; and room for those of the rows.
    std::array<tensor_view, 3> axes = {};
    tensor axis_position = {};
  };
  activations make_activations() const;
  // Views of the first n rows: q [n, heads, dim], k and v [n, kv_heads, dim] inside qkv.
  tensor_view query(const activations& a, std::int32_t n) const;
  tensor_view key(const activations& a, std::int32_t n) const;
  tensor_view value(const activations& a, std::int32_t n) const;

  void embed(const std::int32_t* token, const tensor_view& x) const;
  // a.qkv = rotated q, rotated k and v of x [n, D], the rows of this set.
  void project(std::int32_t layer, const tensor_view& x, const row_set& rows,
               const activations& a) const;
  // The same, and k and v of each row into the cache, in one pass over them where the backend has
  // one.
  void project_and_store(std::int32_t layer, const tensor_view& x, const row_set& rows,
                         const activations& a, const paged_kv& cache) const;
  // The two halves of project(), for methods that compute V for rows whose Q and K they do not
  // need. They use weights packed apart, which require_split_projection() makes once; without it
  // they throw std::logic_error.
  void require_split_projection() const;
  void project_query_key(std::int32_t layer, const tensor_view& x, const row_set& rows,
                         const activations& a) const;
  void project_value(std::int32_t layer, const tensor_view& x, const activations& a) const;
  // x += W_o attention, or x = it where it does not accumulate; attention [n, heads * head_dim].
  void attention_output(std::int32_t layer, const tensor_view& attention, const tensor_view& x,
                        bool accumulate = true) const;
  // x += FFN(RMSNorm(x)). sequence [n]: padding rows take no routed expert; null: none
  // is.
  void feed_forward(std::int32_t layer, const tensor_view& x,
                    const std::int32_t* sequence = nullptr) const;
  // The same without the residual: out [n, D] = FFN(RMSNorm(x)); a routed layer needs a shared expert.
  void feed_forward_branch(std::int32_t layer, const tensor_view& x, const tensor_view& out) const;
  // out = RMSNorm(x) with the final norm's weight.
  void final_norm(const tensor_view& x, const tensor_view& out) const;
  const packed_matrix& head() const;

  row_cost cost(std::int32_t layer) const;
  double head_flops() const;  // of one row over the whole vocabulary
  layer_traffic traffic(std::int32_t layer) const;
  std::size_t embedding_row_bytes() const;  // of one token
  std::size_t weight_bytes() const;         // of all weights that this rank holds

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace unmask
