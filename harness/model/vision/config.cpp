// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/config.h"

#include <charconv>

#include <fmt/format.h>

#include "harness/base/files.h"

namespace unmask {
namespace {

constexpr std::int64_t largest_side = 4096, most_points = 256;

// "(1x1),...,(6x6)": both ends, in sides.
bool read_ends(const std::string& text, std::array<std::int64_t, 4>& ends) {
  const auto read = [&](std::size_t open, std::size_t to) {
    if (open == std::string::npos) return false;
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data() + open + 1, end, ends[to]);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != 'x') return false;
    const auto second = std::from_chars(first.ptr + 1, end, ends[to + 1]);
    return second.ec == std::errc() && second.ptr != end && *second.ptr == ')';
  };
  return text.find('(') != text.rfind('(') && read(text.find('('), 0) && read(text.rfind('('), 2);
}

void add_point(const json_reader& config, vision_config& v, std::int64_t width,
               std::int64_t height) {
  const auto fits = [&](std::int64_t n) { return n > 0 && n <= 64 * v.side && n % v.side == 0; };
  if (!fits(width) || !fits(height) || std::ssize(v.points) == most_points) {
    config.fail(
        "image_grid_pinpoints",
        fmt::format("must hold at most {} sizes [width, height], in multiples of the side {}",
                    most_points, v.side));
  }
  v.points.push_back({static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)});
}

void read_points(const json_reader& config, vision_config& v) {
  constexpr const char* key = "image_grid_pinpoints";
  const json_value& given = config.at(key);
  std::array<std::int64_t, 4> ends{};
  if (given.text() != nullptr && read_ends(*given.text(), ends)) {
    for (std::int64_t i = ends[0]; i <= std::min(ends[2], most_points); ++i) {
      for (std::int64_t j = ends[1]; j <= std::min(ends[3], most_points); ++j) {
        add_point(config, v, i * v.side, j * v.side);
      }
    }
  } else if (given.items() != nullptr) {
    for (const json_value& point : *given.items()) {
      const json_value::array* both = point.items();
      const bool numbers = both != nullptr && both->size() == 2 &&
                           (*both)[0].integer() != nullptr && (*both)[1].integer() != nullptr;
      add_point(config, v, numbers ? *(*both)[0].integer() : 0,
                numbers ? *(*both)[1].integer() : 0);
    }
  }
  if (v.points.empty()) config.fail(key, "must be a list of sizes, or a text like (1x1),...,(6x6)");
}

// The sizes are fixed in siglip_encoder.py; a small model says its own in `vision_config`.
void read_sizes(const json_reader& config, vision_config& v) {
  v.side = 384;
  v.patch = 14;
  v.hidden = 1152;
  v.stored = 27;
  v.heads = 16;
  v.feed_forward = 4304;
  if (config.given("vision_config")) {
    const json_reader own = config.child("vision_config");
    const auto size = [&](const char* key, std::int64_t most) {
      return static_cast<std::int32_t>(own.integer(key, 1, most));
    };
    v.side = size("image_size", largest_side);
    v.patch = size("patch_size", 256);
    v.hidden = size("hidden_size", 1 << 16);
    v.stored = size("num_hidden_layers", 1024);
    v.heads = size("num_attention_heads", 256);
    v.feed_forward = size("intermediate_size", 1 << 18);
    if (v.patch > v.side) own.fail("patch_size", "must be at most `image_size`");
    if (v.stored < 2) own.fail("num_hidden_layers", "must be at least 2: the last is not computed");
    if (v.hidden % v.heads != 0) own.fail("num_attention_heads", "must divide `hidden_size`");
  }
  v.layers = v.stored - 1;
  if (config.given("mm_hidden_size") && config.integer("mm_hidden_size", 1, 1 << 20) != v.hidden) {
    config.fail("mm_hidden_size", fmt::format("must be {}, the width of the tower", v.hidden));
  }
}

}  // namespace

vision_config read_llada_v(const json_reader& config, std::int32_t vocabulary) {
  vision_config v;
  v.kind = vision_kind::siglip;
  v.family = "llada-v";
  const auto only = [&](const char* key, const char* wanted) {
    const std::string found = config.text_or(key, wanted);
    if (found != wanted) {
      config.fail(key, "is \"" + found + "\"; only \"" + wanted + "\" is supported");
    }
  };
  const std::string tower = config.text("mm_vision_tower");
  if (tower.find("siglip") == std::string::npos) {
    config.fail("mm_vision_tower",
                "is \"" + tower.substr(0, 200) + "\"; only a SigLIP tower is supported");
  }
  only("mm_projector_type", "mlp2x_gelu");
  read_sizes(config, v);
  const std::string ratio = config.text_or("image_aspect_ratio", "pad");
  constexpr std::string_view tiled = "anyres_max_";
  if (ratio.find("anyres") != std::string::npos) {
    only("mm_patch_merge_type", "spatial_unpad");
    v.preset = "tiles";
    const char* number = ratio.data() + std::min(tiled.size(), ratio.size());
    if (!ratio.starts_with(tiled) ||
        std::from_chars(number, ratio.data() + ratio.size(), v.most_views).ec != std::errc() ||
        v.most_views < 1 || v.most_views > 1024) {
      config.fail("image_aspect_ratio",
                  "is \"" + ratio.substr(0, 200) + "\"; of tiles only anyres_max_N is supported");
    }
    read_points(config, v);
  } else {
    v.preset = ratio == "pad" ? "pad" : "squeeze";
    config.find("image_grid_pinpoints");
    config.find("mm_patch_merge_type");
  }
  v.settings = fmt::format("side {}, points", v.side);
  for (const auto& [width, height] : v.points) v.settings += fmt::format(" {}x{}", width, height);
  if (v.points.empty()) v.settings += " none";
  // Keys of its training, and those that its code sets and does not use.
  for (const char* key :
       {"mm_vision_select_layer", "mm_vision_select_feature", "unfreeze_mm_vision_tower",
        "mm_tunable_parts", "mm_vision_tower_lr", "mm_projector_lr", "use_mm_proj",
        "mm_use_im_patch_token", "image_crop_resolution", "image_split_resolution",
        "tokenizer_padding_side", "tokenizer_model_max_length"}) {
    config.find(key);
  }
  if (config.flag_or("mm_use_im_start_end", false)) {
    config.fail("mm_use_im_start_end", "is true; only false is supported");
  }
  // modeling_llada.py, generate_with_embeds.
  for (const std::int32_t token : {126081, 126080, 126346, 126347}) {
    if (token < vocabulary) v.refused.push_back(token);
  }
  return v;
}

vision_config read_vision_config(const std::filesystem::path& directory, std::int32_t vocabulary) {
  const std::filesystem::path file = directory / "config.json";
  if (!is_file(file)) return {};
  const json_value root = parse_python_json(read_file(file, std::size_t{16} << 20), file.string());
  const json_value* names = root.find("architectures");
  const json_value* type = root.find("model_type");
  const bool named = names != nullptr && names->items() != nullptr && !names->items()->empty();
  const std::string* name = named             ? names->items()->front().text()
                            : type != nullptr ? type->text()
                                              : nullptr;
  if (name == nullptr || (*name != llada_v_architecture && *name != "llava_llada")) return {};
  return read_llada_v(json_reader(root, file.string()), vocabulary);
}

}  // namespace unmask
