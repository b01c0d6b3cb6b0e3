// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How a model sees pictures, as data: its tower, and which rows of a prompt a picture becomes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace unmask {

enum class vision_kind : std::uint8_t {
  none,
  siglip,  // LLaDA-V: a SigLIP tower less its last layer, two projections, tiles (LLaVA's anyres)
  qwen,    // Dimple: Qwen2.5-VL's tower over one view of its own size, and two projections
  codes    // MMaDA: tokens of a codebook, which something else made of the picture
};

struct vision_config {
  vision_kind kind = vision_kind::none;
  std::string family;     // of `unmask pictures`: "llada-v"
  std::string preset;     // its usual one: "tiles", "pad" or "squeeze"
  std::string settings;   // all of the configuration that a prepared file depends on, as it says it
  std::int32_t side = 0;  // pixels of a view
  std::int32_t patch = 0;   // pixels of a patch
  std::int32_t hidden = 0;  // of the tower
  std::int32_t layers = 0;  // that are computed
  std::int32_t stored = 0;  // that a checkpoint may hold
  std::int32_t heads = 0;
  std::int32_t feed_forward = 0;
  float norm_eps = 1e-6F;
  std::int32_t most_views = 0;  // map rows beyond as many views are resized; 0: never
  // Sizes of the tiled picture among which the best is taken, [width, height].
  std::vector<std::array<std::int32_t, 2>> points;
  std::vector<std::int32_t> refused;  // tokens that no masked position is decided as
  // Of qwen: patches of a merged one's side, merged patches of a window's side, layers that see the whole
  // picture, the width behind the merger, and the fewest and most pixels of a view.
  std::int32_t merge = 1, window = 1, merged = 0;
  std::vector<std::int32_t> whole_layers;
  std::int64_t least_pixels = 0, most_pixels = 0;
  std::int32_t cell() const { return patch * merge; }  // pixels of a merged patch's side
  // Of codes: the token of code 0, how many there are, and the tokens before (two) and behind them.
  std::int32_t first_code = 0, codebook = 0;
  std::vector<std::int32_t> around;

  bool has_tower() const { return kind == vision_kind::siglip || kind == vision_kind::qwen; }
  std::int32_t grid() const { return side / patch; }  // patches of a side
  std::int32_t rows_of_view() const { return grid() * grid(); }
};

// LLaDA-V's keys of config.json; errors name the key. `vocabulary`: tokens outside are not refused.
vision_config read_llada_v(const json_reader& config, std::int32_t vocabulary);
// The name in "architectures" of the models that have those keys.
inline constexpr std::string_view llada_v_architecture = "LlavaLLaDAModelLM";
// Dimple's; `processor`: preprocessor_config.json, null where there is none.
vision_config read_dimple(const json_reader& config, const json_reader* processor);
inline constexpr std::string_view dimple_architecture = "DimpleModel";
// MMaDA's. Kind none if its codes are not in the vocabulary; a small model names the tokens around them
// in `picture_tokens`.
vision_config read_mmada(const json_reader& config, std::int32_t vocabulary);
inline constexpr std::string_view mmada_architecture = "MMadaModelLM";

// How the checkpoint in a folder sees pictures; kind none where nothing here reads its tower.
vision_config read_vision_config(const std::filesystem::path& directory, std::int32_t vocabulary);

}  // namespace unmask
