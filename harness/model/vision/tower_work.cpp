// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/tower_work.h"

#include <algorithm>

#include <fmt/format.h>

namespace unmask {
namespace {

// Adds attention of the rows of one sequence to one another, in one layer.
void attend(tower_work& all, const vision_config& config, std::int64_t rows) {
  all.attention += 4.0 * static_cast<double>(rows * rows) * config.hidden;
}

tower_work work_of_siglip(const vision_config& config, std::int64_t width,
                          const picture_shape& shape) {
  const std::int64_t d = config.hidden, f = config.feed_forward, per_view = config.rows_of_view(),
                     rows = shape.views() * per_view;
  tower_work all;
  all.products.push_back({rows, std::int64_t{3} * config.patch * config.patch, d});
  for (std::int32_t layer = 0; layer < config.layers; ++layer) {
    all.products.insert(all.products.end(),
                        {{rows, d, 3 * d}, {rows, d, d}, {rows, d, f}, {rows, f, d}});
    for (std::int32_t view = 0; view < shape.views(); ++view) attend(all, config, per_view);
  }
  all.products.insert(all.products.end(), {{rows, d, width}, {rows, width, width}});
  return all;
}

tower_work work_of_qwen(const vision_config& config, std::int64_t width,
                        const picture_shape& shape) {
  const std::int64_t d = config.hidden, f = config.feed_forward,
                     unit = std::int64_t{config.merge} * config.merge,
                     cells = count_rows(config, shape), rows = cells * unit;
  const window_plan windows = plan_windows(config, shape);
  tower_work all;
  all.products.push_back({rows, std::int64_t{3} * config.patch * config.patch, d});
  for (std::int32_t layer = 0; layer < config.layers; ++layer) {
    all.products.insert(all.products.end(),
                        {{rows, d, 3 * d}, {rows, d, d}, {rows, d, 2 * f}, {rows, f, d}});
    if (std::ranges::count(config.whole_layers, layer) > 0) {
      attend(all, config, rows);
    } else {
      for (const std::int64_t window : windows.counts) attend(all, config, window * unit);
    }
  }
  all.products.insert(all.products.end(), {{cells, unit * d, unit * d},
                                           {cells, unit * d, config.merged},
                                           {cells, config.merged, width},
                                           {cells, width, width}});
  return all;
}

}  // namespace

double tower_work::flops() const {
  double multiplied = 0;
  for (const product& p : products) multiplied += static_cast<double>(p.rows * p.in * p.out);
  return 2 * multiplied + attention;
}

tower_work work_of_tower(const vision_config& config, std::int32_t width,
                         const picture_shape& shape) {
  return config.kind == vision_kind::qwen ? work_of_qwen(config, width, shape)
                                          : work_of_siglip(config, width, shape);
}

std::string cost_of_a_picture(const vision_config& config, std::int32_t width) {
  if (!config.has_tower()) return "";
  const picture_shape shape = shape_of_picture(config, config.preset, 640, 480);
  const double flops = work_of_tower(config, width, shape).flops();
  const bool many = flops >= 1e12;
  return fmt::format(
      "a picture of 640x480 pixels takes {} positions of a prompt and {:.3g} {} of the tower",
      count_rows(config, shape), flops / (many ? 1e12 : 1e9), many ? "TFLOP" : "GFLOP");
}

}  // namespace unmask
