// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/one_vision.h"

#include <fmt/format.h>

#include "harness/model/vision/tiled_sizes.h"

namespace unmask {
namespace {

void require(const json_reader& config, const char* key, const char* wanted) {
  const std::string found = config.text_or(key, wanted);
  if (found != wanted) {
    config.fail(key, "is \"" + found.substr(0, 200) + "\"; only \"" + wanted + "\" is supported");
  }
}

// `vision_config`, with what SiglipVisionConfig has where a key is left out.
void read_tower(const json_reader& own, vision_config& v) {
  require(own, "model_type", "siglip_vision_model");
  require(own, "hidden_act", "gelu_pytorch_tanh");
  const auto size = [&](const char* key, std::int64_t most, std::int64_t usual) {
    return static_cast<std::int32_t>(own.integer_or(key, 1, most, usual));
  };
  v.side = size("image_size", 4096, 224);
  v.patch = size("patch_size", 256, 16);
  v.hidden = size("hidden_size", 1 << 16, 768);
  v.layers = v.stored = size("num_hidden_layers", 1024, 12);
  v.heads = size("num_attention_heads", 256, 12);
  v.feed_forward = size("intermediate_size", 1 << 18, 3072);
  v.norm_eps = static_cast<float>(own.number_or("layer_norm_eps", 0.0, 1.0, 1e-6));
  if (v.patch > v.side) own.fail("patch_size", "must be at most `image_size`");
  if (v.hidden % v.heads != 0) own.fail("num_attention_heads", "must divide `hidden_size`");
  if (own.integer_or("num_channels", 1, 4, 3) != 3) own.fail("num_channels", "must be 3");
}

}  // namespace

vision_config read_sdar_vl(const json_reader& config) {
  vision_config v;
  v.kind = vision_kind::siglip;
  v.family = sdar_vl_family;
  v.preset = "tiles";
  read_tower(config.child("vision_config"), v);
  if (config.integer_or("vision_feature_layer", -1024, 1024, -1) != -1) {
    config.fail("vision_feature_layer", "must be -1, the last layer");
  }
  require(config, "vision_feature_select_strategy", "full");
  require(config, "projector_hidden_act", "gelu");
  if (!config.flag_or("multimodal_projector_bias", true)) {
    config.fail("multimodal_projector_bias", "is false; only true is supported");
  }
  v.most_views = most_views_of(config, "vision_aspect_ratio",
                               config.text_or("vision_aspect_ratio", "anyres_max_9"));
  add_listed_sizes(config, v, first_number::height);
  if (v.points.empty()) {
    config.fail("image_grid_pinpoints", "must be a list of sizes [height, width]");
  }
  v.settings = fmt::format("side {}, points", v.side);
  for (const auto& [width, height] : v.points) v.settings += fmt::format(" {}x{}", width, height);
  // Of its processor, of videos, or said by `text_config`.
  for (const char* key : {"image_token_index", "video_token_index", "image_seq_length",
                          "use_image_newline_parameter", "hidden_size", "ignore_index"}) {
    config.find(key);
  }
  return v;
}

}  // namespace unmask
