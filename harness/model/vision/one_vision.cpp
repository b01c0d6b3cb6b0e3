// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/one_vision.h"

#include <charconv>

#include <fmt/format.h>

namespace unmask {
namespace {

constexpr std::int64_t most_sizes = 256, most_tiles = 64;

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

// Sizes of the tiled picture, as [height, width]: LLaVA's own files have the width first.
void read_tiled_sizes(const json_reader& config, vision_config& v) {
  constexpr const char* key = "image_grid_pinpoints";
  const json_value::array* given = config.at(key).items();
  const auto fits = [&](const std::int64_t* n) {
    return n != nullptr && *n > 0 && *n <= most_tiles * v.side && *n % v.side == 0;
  };
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    const json_value::array* both = (*given)[i].items();
    if (both == nullptr || both->size() != 2 || !fits((*both)[0].integer()) ||
        !fits((*both)[1].integer()) || std::ssize(v.points) == most_sizes) {
      config.fail(key,
                  fmt::format("must hold at most {} sizes [height, width], in multiples of the "
                              "side {}",
                              most_sizes, v.side));
    }
    v.points.push_back({static_cast<std::int32_t>(*(*both)[1].integer()),
                        static_cast<std::int32_t>(*(*both)[0].integer())});
  }
  if (v.points.empty()) config.fail(key, "must be a list of sizes [height, width]");
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
  const std::string ratio = config.text_or("vision_aspect_ratio", "anyres_max_9");
  constexpr std::string_view tiled = "anyres_max_";
  const char* number = ratio.data() + std::min(tiled.size(), ratio.size());
  const char* const end = ratio.data() + ratio.size();
  const auto [behind, failed] = std::from_chars(number, end, v.most_views);
  if (!ratio.starts_with(tiled) || failed != std::errc() || behind != end || v.most_views < 1 ||
      v.most_views > 1024) {
    config.fail("vision_aspect_ratio",
                "is \"" + ratio.substr(0, 200) + "\"; only anyres_max_N is supported");
  }
  read_tiled_sizes(config, v);
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
