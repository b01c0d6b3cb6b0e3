// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Keys of config.json that say how a picture is cut into tiles: `image_grid_pinpoints` and anyres_max_N
// (LLaVA's mm_utils.py and transformers' image_processing_llava_onevision.py).
#pragma once

#include "harness/model/vision/config.h"

namespace unmask {

// What the first number of a listed size is: LLaVA's own files have the width, transformers' the height.
enum class first_number { width, height };

// Adds one size in pixels to `v.points`. Errors name image_grid_pinpoints: a size that is not in multiples
// of `v.side`, above 64 sides, or the 257th.
void add_tiled_size(const json_reader& config, vision_config& v, std::int64_t width,
                    std::int64_t height, first_number order);

// The listed sizes of image_grid_pinpoints, if it is a list; another value adds none.
void add_listed_sizes(const json_reader& config, vision_config& v, first_number order);

// N of "anyres_max_N" at `key`, 1 to 1,024: the most views of a picture. Errors name `key`.
std::int32_t most_views_of(const json_reader& config, const char* key, const std::string& ratio);

}  // namespace unmask
