// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/config.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "harness/base/files.h"
#include "harness/model/vision/one_vision.h"
#include "harness/model/vision/tiled_sizes.h"

namespace unmask {
namespace {

constexpr std::int64_t largest_side = 4096, most_ends = 256;

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

void read_points(const json_reader& config, vision_config& v) {
  constexpr const char* key = "image_grid_pinpoints";
  const json_value& given = config.at(key);
  std::array<std::int64_t, 4> ends{};
  if (given.text() != nullptr && read_ends(*given.text(), ends)) {
    constexpr std::int64_t outside = 0;  // no size: refused as any number below it
    for (std::int64_t i = std::max(ends[0], outside); i <= std::min(ends[2], most_ends); ++i) {
      for (std::int64_t j = std::max(ends[1], outside); j <= std::min(ends[3], most_ends); ++j) {
        add_tiled_size(config, v, i * v.side, j * v.side, first_number::width);
      }
    }
  } else {
    add_listed_sizes(config, v, first_number::width);
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
  if (ratio.find("anyres") != std::string::npos) {
    only("mm_patch_merge_type", "spatial_unpad");
    v.preset = "tiles";
    v.most_views = most_views_of(config, "image_aspect_ratio", ratio);
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

vision_config read_dimple(const json_reader& config, const json_reader* processor) {
  vision_config v;
  v.kind = vision_kind::qwen;
  v.family = "dimple";
  v.preset = "own-size";
  // What a file leaves out is the class's own: Qwen2.5-VL's 7B.
  const json_reader own = config.child("vision_config");
  const auto size = [&](const char* key, std::int64_t most, std::int64_t usual) {
    return static_cast<std::int32_t>(own.integer_or(key, 1, most, usual));
  };
  v.layers = v.stored = size("depth", 1024, 32);
  v.hidden = size("hidden_size", 1 << 16, 1280);
  v.heads = size("num_heads", 256, 16);
  v.feed_forward = size("intermediate_size", 1 << 18, 3420);
  v.patch = size("patch_size", 256, 14);
  v.merge = size("spatial_merge_size", 16, 2);
  v.merged = size("out_hidden_size", 1 << 16, 3584);
  const std::int32_t window = size("window_size", 1 << 16, 112);
  if (window % v.cell() != 0) {
    own.fail("window_size", "must be a multiple of `patch_size` times `spatial_merge_size`");
  }
  v.window = window / v.cell();
  if (v.hidden % v.heads != 0 || v.hidden / v.heads % 4 != 0) {
    own.fail("num_heads", "must divide `hidden_size` into heads of a multiple of 4");
  }
  if (own.integer_or("temporal_patch_size", 1, 8, 2) != 2) {
    own.fail("temporal_patch_size", "must be 2");
  }
  if (own.integer_or("in_channels", 1, 4, 3) != 3) own.fail("in_channels", "must be 3");
  if (own.text_or("hidden_act", "silu") != "silu") own.fail("hidden_act", "must be \"silu\"");
  const json_value* given = own.find("fullatt_block_indexes");
  const json_value::array* whole = given == nullptr ? nullptr : given->items();
  if (given == nullptr) v.whole_layers = {7, 15, 23, 31};
  for (std::size_t i = 0; whole != nullptr && i < whole->size(); ++i) {
    const std::int64_t* layer = (*whole)[i].integer();
    if (layer == nullptr || *layer < 0 || *layer >= v.layers) {
      own.fail("fullatt_block_indexes", "must hold numbers of layers below `depth`");
    }
    v.whole_layers.push_back(static_cast<std::int32_t>(*layer));
  }
  v.least_pixels = 3136;
  v.most_pixels = 1003520;
  if (processor != nullptr) {
    v.least_pixels = processor->integer_or("min_pixels", 1, 1 << 28, v.least_pixels);
    v.most_pixels = processor->integer_or("max_pixels", 1, 1 << 28, v.most_pixels);
  }
  v.settings = fmt::format("cell {}, pixels {} to {}", v.cell(), v.least_pixels, v.most_pixels);
  for (const char* key : {"image_token_id", "video_token_id", "vision_token_id",
                          "vision_start_token_id", "vision_end_token_id"}) {
    config.find(key);
  }
  return v;
}

vision_config read_mmada(const json_reader& config, std::int32_t vocabulary) {
  vision_config v;
  v.family = "mmada";
  v.first_code = static_cast<std::int32_t>(config.integer_or("llm_vocab_size", 1, 1 << 24, 126464));
  v.codebook = static_cast<std::int32_t>(config.integer_or("codebook_size", 1, 1 << 24, 8192));
  // <|mmu|>, <|soi|> and <|eoi|> (training/prompting_utils.py).
  v.around = {126089, 126084, 126085};
  if (config.given("picture_tokens")) {
    const json_value::array* given = config.at("picture_tokens").items();
    v.around.clear();
    for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
      const std::int64_t* token = (*given)[i].integer();
      if (token == nullptr || *token < 0 || *token >= v.first_code) break;
      v.around.push_back(static_cast<std::int32_t>(*token));
    }
    if (v.around.size() != 3 || given->size() != 3) {
      config.fail("picture_tokens", "must be the three tokens around a picture's codes");
    }
  }
  const bool there =
      v.first_code + v.codebook <= vocabulary && *std::ranges::max_element(v.around) < v.first_code;
  v.kind = there ? vision_kind::codes : vision_kind::none;
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
  if (name == nullptr) return {};
  const json_reader config(root, file.string());
  if (*name == llada_v_architecture || *name == "llava_llada") {
    return read_llada_v(config, vocabulary);
  }
  if (*name == dimple_architecture || *name == "dimple") {
    const std::filesystem::path beside = directory / "preprocessor_config.json";
    if (!is_file(beside)) return read_dimple(config, nullptr);
    const json_value settings =
        parse_python_json(read_file(beside, std::size_t{1} << 20), beside.string());
    const json_reader processor(settings, beside.string());
    return read_dimple(config, &processor);
  }
  if (*name == sdar_vl_architecture || *name == "sdar_v") return read_sdar_vl(config);
  if (*name == mmada_architecture || *name == "mmada") return read_mmada(config, vocabulary);
  return {};
}

}  // namespace unmask
