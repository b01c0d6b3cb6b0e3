// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the kinds of towers are made of; nothing outside this folder includes it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "harness/model/vision/tower.h"
#include "kernels/shared_vector.h"

namespace unmask {

// Packed products in float32, and the rows of several sequences that attend to themselves.
class picture_tower::body {
 public:
  body(const vision_config& config, const unmask::backend& backend,
       std::vector<std::shared_ptr<const void>> keep_alive);
  virtual ~body() = default;
  virtual features operator()(const tensor_view& pixels, const picture_shape& shape) const = 0;

 protected:
  struct product {
    packed_handle weight;
    tensor bias;
  };
  product pack(const std::vector<biased_weight>& parts) const;
  // Those that make heads, one behind the other, and those that read them: with room for head_room() elements a head.
  product pack_heads(const std::vector<biased_weight>& parts) const;
  product pack_from_heads(const biased_weight& weight) const;
  tensor multiply(const tensor_view& x, const product& p) const;
  void add_product(const tensor_view& x, const product& p, const tensor_view& to) const;
  // The picture's pixels in the backend's memory, [pixels, 3], and patches of them as rows: first[r] is
  // the first pixel of patch r, `width` the pixels of a row.
  tensor rows_of(const tensor_view& pixels, std::int64_t width,
                 const shared_vector<std::int32_t>& first) const;

  // Rows of sequences of these lengths, one behind the other, with pages of K/V of their own.
  struct sequences {
    shared_vector<std::int32_t> begin, sequence, position, table, length;
    std::int32_t pages = 0;  // of a sequence
    row_set set() const;
  };
  static sequences lists_of(const std::vector<std::int32_t>& lengths);
  // Room for K/V of any of these.
  struct kv_pages {
    tensor keys, values;
  };
  kv_pages make_pages(std::int64_t pages) const;
  // out [R, heads_width()] = full attention inside each sequence; qkv [R, 3 heads_width()].
  void attend(const tensor& qkv, const sequences& rows, const kv_pages& pages,
              const tensor& out) const;
  // Elements of a head: those that count, and with zeros behind them.
  std::int64_t head_dim() const { return config.hidden / config.heads; }
  std::int64_t head_room() const { return widened_ > 0 ? widened_ : head_dim(); }
  std::int64_t heads_width() const { return config.heads * head_room(); }
  // Head views of q (0), k (1) or v (2).
  tensor_view part_of(const tensor& qkv, std::int64_t which) const;

  vision_config config;
  const unmask::backend& backend;
  std::vector<std::shared_ptr<const void>> keep_alive;
  tensor values;  // byte_values() of the configuration

 private:
  // Elements of a head with zeros, so that a GPU's tensor cores take it, keys and values in bfloat16; 0: heads
  // stay as they are.
  std::int64_t widened_ = 0;
};

std::unique_ptr<picture_tower::body> make_siglip_tower(
    const vision_config& config, const vision_weights& weights, const backend& backend,
    std::vector<std::shared_ptr<const void>> keep_alive);
std::unique_ptr<picture_tower::body> make_qwen_tower(
    const vision_config& config, const vision_weights& weights, const backend& backend,
    std::vector<std::shared_ptr<const void>> keep_alive);

// A weight of more dimensions as [out, everything else].
tensor_view as_matrix(tensor_view weight);

}  // namespace unmask
