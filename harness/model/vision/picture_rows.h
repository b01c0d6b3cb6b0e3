// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which rows of a prompt a picture becomes: geometry alone, so that rows are counted without a tower.
#pragma once

#include "harness/model/vision/config.h"
#include "kernels/shared_vector.h"

namespace unmask {

// Sizes of a picture and of what was made of it.
struct picture_shape {
  std::int32_t width = 0, height = 0;            // pixels, before any resizing
  std::int32_t across = 0, down = 0;             // tiles; 0: one view alone
  std::int32_t view_width = 0, view_height = 0;  // pixels of a view
  std::int32_t views() const { return 1 + across * down; }
};

// The tiles that a picture of width x height is cut into: of the configuration's points the one that
// keeps most of it, of equals the one that wastes least, then the first (LLaVA's
// select_best_resolution). One view alone: unless the preset is "tiles". Dimple: the nearest multiples of
// a cell within its pixels (Qwen2-VL's smart_resize); environment error for a side below a cell or a ratio
// above 200.
picture_shape shape_of_picture(const vision_config& config, const std::string& preset,
                               std::int32_t width, std::int32_t height);

// op::blend_rows from the projected patches of all views [views * rows_of_view, D] with the newline
// as one more row behind them, to the picture's rows of a prompt.
struct row_plan {
  shared_vector<std::int32_t> from;  // [rows, 4]
  shared_vector<float> across, down;
  std::int64_t rows() const { return static_cast<std::int64_t>(across.size()); }
};

// LLaVA's prepare_inputs_labels_for_multimodal: the rows of the whole picture, then those of the map
// of all tiles without the padding, at most `most_views` views of them, each map row ended by the
// newline. One view alone is ended by one newline.
row_plan plan_rows(const vision_config& config, const picture_shape& shape);
// Of qwen: the merged patches of a view, numbered row by row, window after window. A window has `window` x
// `window` of them, fewer at the right and the lower end (transformers' get_window_index).
struct window_plan {
  std::vector<std::int32_t> cells;
  std::vector<std::int32_t> counts;  // cells of each window
};
window_plan plan_windows(const vision_config& config, const picture_shape& shape);

// Of any kind with a tower.
std::int64_t count_rows(const vision_config& config, const picture_shape& shape);

}  // namespace unmask
