// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The weights of a model under names that do not depend on its family.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/ranks/shots.h"
#include "harness/model/config.h"
#include "kernels/tensor.h"

namespace unmask {

// One gated feed-forward: gate and up [F, D], down [D, F].
struct feed_forward_weights {
  tensor_view gate, up, down;
};

// Matrices are [out, in], row-major; norms and biases one-dimensional; f32, bf16 or f16. A tensor
// that the model does not have keeps data == null.
struct layer_weights {
  tensor_view attn_norm;                      // [D]
  tensor_view q, k, v;                        // [heads * dim, D], [kv_heads * dim, D] twice
  tensor_view q_bias, k_bias, v_bias;         // model_config::qkv_bias
  tensor_view q_norm, k_norm;                 // [dim], model_config::qk_norm
  tensor_view attn_out;                       // [D, heads * dim]
  tensor_view ffn_norm;                       // [D]
  feed_forward_weights dense;                 // of a dense layer
  tensor_view router, router_bias;            // [experts, D], [experts]
  std::vector<feed_forward_weights> experts;  // empty in a dense layer
  feed_forward_weights shared;                // width moe.hidden * moe.shared_experts
};

// Pieces [first, last) of `pieces` belong to rank `rank` of `ranks` (share.h).
struct model_share {
  std::int32_t rank = 0, ranks = 1, pieces = 1;
  bool whole_experts = false;  // a piece has some routed experts; else a part of the width of each
  dtype sums = dtype::f32;     // in which parts of sums travel: f32 or bf16
  std::int64_t two_shots = two_shots_above;  // bytes up to which a part travels whole
  std::int32_t first() const { return rank * pieces / ranks; }
  std::int32_t last() const { return (rank + 1) * pieces / ranks; }
  bool is_cut() const { return pieces > 1; }
};

struct model_weights {
  tensor_view embedding;   // [V, D]
  tensor_view final_norm;  // [D]
  tensor_view lm_head;     // [V, D]; the same memory as embedding when the two are tied
  std::vector<layer_weights> layers;
  model_share held;  // whose part the layers are, and lm_head unless it is tied

  unread_parts unread;      // tensors of the checkpoint and keys of its config.json
  std::uint64_t bytes = 0;  // of all tensors above
  bool synthetic = false;   // made by random_weights

  std::vector<std::shared_ptr<const void>> memory;  // keeps what the views point into alive
};

// One tensor that a config calls for. Matrices, biases and norms of a layer are told apart by `what`,
// the name of the field above; norms end in "_norm", biases in "_bias".
struct weight_name {
  std::int32_t layer = -1;  // -1: of the whole model
  std::string part;         // of its layer: "", "experts.7.", "shared."
  std::string what;         // "embedding", "q", "q_bias", "gate", ...
};
using weight_source =
    std::function<tensor_view(const weight_name&, std::initializer_list<std::int64_t> shape)>;
// The weights that a config calls for, each as `get` gives it, in the order of the layers.
model_weights collect_weights(const model_config& config, const weight_source& get);

// Weights of the checkpoint in `directory`, as views into its mapped files. Every shape is checked
// against the config, and every value for NaN and infinity unless check_values is false (the scan
// reads the whole checkpoint). Errors are environment errors that name file and tensor. What would
// change answers and is not read is one too, unless `use` takes it so. Of a share nothing else of the
// layers and of lm_head is read.
model_weights load_weights(const model_config& config, const std::filesystem::path& directory,
                           bool check_values = true, const unread_use& use = {},
                           const model_share& share = {});

// Weights from a seed, for measuring speed at shapes nobody has weights for: norms 1, everything
// else normal with mean 0 and deviation 0.02. Each tensor has its own stream, keyed by its name,
// so equal seeds give equal weights whatever the number of threads. Of a share the same numbers, and
// memory for no others.
model_weights random_weights(const model_config& config, std::uint64_t seed, dtype type,
                             const model_share& share = {});

// Divides the final norm, and with it all logits, by `by`: the same arg-max with less confidence.
void soften(model_weights& weights, double by);

}  // namespace unmask
