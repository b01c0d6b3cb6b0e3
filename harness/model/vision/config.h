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
  siglip  // LLaDA-V: a SigLIP tower less its last layer, two projections, tiles (LLaVA's anyres)
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

  std::int32_t grid() const { return side / patch; }  // patches of a side
  std::int32_t rows_of_view() const { return grid() * grid(); }
};

// LLaDA-V's keys of config.json; errors name the key. `vocabulary`: tokens outside are not refused.
vision_config read_llada_v(const json_reader& config, std::int32_t vocabulary);
// The name in "architectures" of the models that have those keys.
inline constexpr std::string_view llada_v_architecture = "LlavaLLaDAModelLM";

// How the checkpoint in a folder sees pictures; kind none where nothing here reads its tower.
vision_config read_vision_config(const std::filesystem::path& directory, std::int32_t vocabulary);

}  // namespace unmask
