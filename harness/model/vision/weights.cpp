// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/weights.h"

#include <charconv>

#include "harness/model/vision/one_vision.h"

namespace unmask {
namespace {

// Where the tower, the two projections and the newline are.
struct siglip_names {
  std::string_view tower, project1, project2, newline;
};
constexpr siglip_names llava = {"model.vision_tower.vision_tower.vision_model.",
                                "model.mm_projector.0", "model.mm_projector.2",
                                "model.image_newline"};
constexpr siglip_names one_vision = {"vision_tower.vision_model.", "multi_modal_projector.linear_1",
                                     "multi_modal_projector.linear_2", "image_newline"};
const siglip_names& names_of(const vision_config& config) {
  return is_sdar_vl(config) ? one_vision : llava;
}

constexpr std::string_view layers = "encoder.layers.";

vision_weights collect_qwen(const vision_config& config, std::int32_t width,
                            const vision_source& get) {
  const std::int64_t d = config.hidden, f = config.feed_forward, p = config.patch,
                     joined = std::int64_t{config.merge} * config.merge * d;
  const auto pair = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    return biased_weight{get(name + ".weight", {out, in}), get(name + ".bias", {out})};
  };
  vision_weights w;
  const std::string root = "visual.";
  w.qwen.patches = get(root + "patch_embed.proj.weight", {d, 3, 2, p, p});
  for (std::int32_t i = 0; i < config.layers; ++i) {
    const std::string at = root + "blocks." + std::to_string(i) + ".";
    w.qwen.layers.push_back({get(at + "norm1.weight", {d}), get(at + "norm2.weight", {d}),
                             pair(at + "attn.qkv", 3 * d, d), pair(at + "attn.proj", d, d),
                             pair(at + "mlp.gate_proj", f, d), pair(at + "mlp.up_proj", f, d),
                             pair(at + "mlp.down_proj", d, f)});
  }
  w.qwen.merge_norm = get(root + "merger.ln_q.weight", {d});
  w.qwen.merge1 = pair(root + "merger.mlp.0", joined, joined);
  w.qwen.merge2 = pair(root + "merger.mlp.2", config.merged, joined);
  w.project1 = pair("img_projector.linear_1", width, config.merged);
  w.project2 = pair("img_projector.linear_2", width, width);
  return w;
}

}  // namespace

vision_weights collect_vision_weights(const vision_config& config, std::int32_t width,
                                      const vision_source& get) {
  if (config.kind == vision_kind::qwen) return collect_qwen(config, width, get);
  const std::int64_t d = config.hidden, f = config.feed_forward, p = config.patch;
  const auto pair = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    return biased_weight{get(name + ".weight", shape), get(name + ".bias", {shape[0]})};
  };
  vision_weights w;
  const siglip_names& names = names_of(config);
  const std::string root(names.tower);
  w.patches = pair(root + "embeddings.patch_embedding", {d, 3, p, p});
  w.positions = get(root + "embeddings.position_embedding.weight", {config.rows_of_view(), d});
  for (std::int32_t i = 0; i < config.layers; ++i) {
    const std::string at = root + std::string(layers) + std::to_string(i) + ".";
    w.layers.push_back(
        {pair(at + "layer_norm1", {d}), pair(at + "layer_norm2", {d}),
         pair(at + "self_attn.q_proj", {d, d}), pair(at + "self_attn.k_proj", {d, d}),
         pair(at + "self_attn.v_proj", {d, d}), pair(at + "self_attn.out_proj", {d, d}),
         pair(at + "mlp.fc1", {f, d}), pair(at + "mlp.fc2", {d, f})});
  }
  w.project1 = pair(std::string(names.project1), {width, d});
  w.project2 = pair(std::string(names.project2), {width, width});
  w.newline = get(std::string(names.newline), {width});
  return w;
}

double tower_bytes(const vision_config& config, std::int32_t width) {
  double elements = 0;
  collect_vision_weights(config, width,
                         [&](const std::string&, const std::vector<std::int64_t>& shape) {
                           double of_one = 1;
                           for (const std::int64_t n : shape) of_one *= static_cast<double>(n);
                           elements += of_one;
                           return tensor_view{};
                         });
  return elements * sizeof(float);
}

bool unused_by_tower(const vision_config& config, std::string_view name) {
  const std::string_view tower = names_of(config).tower;
  if (config.kind != vision_kind::siglip || !name.starts_with(tower)) return false;
  name.remove_prefix(tower.size());
  if (name.starts_with("post_layernorm.") || name.starts_with("head.")) return true;
  if (!name.starts_with(layers)) return false;
  std::int32_t layer = -1;
  std::from_chars(name.data() + layers.size(), name.data() + name.size(), layer);
  return layer >= config.layers && layer < config.stored;
}

}  // namespace unmask
