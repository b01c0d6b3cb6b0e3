// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The weights of a picture's tower and projector.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/config.h"
#include "harness/model/vision/config.h"
#include "kernels/tensor.h"

namespace unmask {

// A product with a bias: weight [out, in, ...], bias [out].
struct biased_weight {
  tensor_view weight, bias;
};

struct tower_layer_weights {
  biased_weight norm1, norm2;  // [hidden] both
  biased_weight q, k, v, out, fc1, fc2;
};

// A layer of Qwen2.5-VL's tower; its norms have no bias.
struct qwen_layer_weights {
  tensor_view norm1, norm2;
  biased_weight qkv, out, gate, up, down;
};

struct qwen_weights {
  tensor_view patches;  // [hidden, 3, 2, patch * patch]: of two frames, without a bias
  std::vector<qwen_layer_weights> layers;
  tensor_view merge_norm;
  biased_weight merge1, merge2;  // [4 hidden, 4 hidden], [merged, 4 hidden] where merge is 2
};

struct vision_weights {
  biased_weight patches;  // [hidden, 3, patch, patch]
  tensor_view positions;  // [rows of a view, hidden]
  std::vector<tower_layer_weights> layers;
  biased_weight project1, project2;  // [D, hidden], [D, D]
  tensor_view newline;               // [D]: ends each row of a map of tiles
  qwen_weights qwen;                 // of that kind, with both projections, instead of all others
};

// Each tensor as `get` gives it by its published name; `width` is the language model's D.
using vision_source =
    std::function<tensor_view(const std::string& name, const std::vector<std::int64_t>& shape)>;
vision_weights collect_vision_weights(const vision_config& config, std::int32_t width,
                                      const vision_source& get);

// Bytes of all of them in float32.
double tower_bytes(const vision_config& config, std::int32_t width);

// Those of the checkpoint in a folder, and what keeps them in memory. Shapes and values are checked as
// load_weights does, with its errors.
struct loaded_vision {
  vision_weights weights;
  std::shared_ptr<const void> memory;
};
loaded_vision load_vision_weights(const model_config& model,
                                  const std::filesystem::path& directory);

// A tensor that a published checkpoint holds and its own code does not use: layers behind those that
// are computed, the norm and the pooling behind the last.
bool unused_by_tower(const vision_config& config, std::string_view name);

}  // namespace unmask
