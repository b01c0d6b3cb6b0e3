// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/picture_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/model/vision/one_vision.h"

namespace unmask {
namespace {

// The part of the map of all tiles that holds the picture, in patches, and the size it is resized to.
struct map_part {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  std::int64_t to_height = 0, to_width = 0;
};

// How much of a map's side a picture of this length keeps. transformers rounds to seven digits first.
std::int64_t kept_of(const vision_config& config, double length) {
  if (is_sdar_vl(config)) length = std::nearbyint(length * 1e7) / 1e7;
  return static_cast<std::int64_t>(length);
}

// LLaVA's unpad_image, then its limit on the number of views.
map_part part_of_map(const vision_config& config, const picture_shape& shape) {
  map_part m;
  const std::int64_t n = config.grid();
  m.height = n * shape.down;
  m.width = n * shape.across;
  const auto w = static_cast<double>(m.width), h = static_cast<double>(m.height);
  if (static_cast<double>(shape.width) / shape.height > w / h) {
    const std::int64_t kept = kept_of(config, shape.height * (w / shape.width));
    m.top = (m.height - kept) / 2;
    m.height -= 2 * m.top;
  } else {
    const std::int64_t kept = kept_of(config, shape.width * (h / shape.height));
    m.left = (m.width - kept) / 2;
    m.width -= 2 * m.left;
  }
  m.to_height = m.height;
  m.to_width = m.width;
  if (config.most_views == 0) return m;
  const double views =
      static_cast<double>(m.height * m.width) / static_cast<double>(config.most_views * n * n);
  const double times = std::sqrt(views);
  if (times > 1.1) {
    m.to_height = static_cast<std::int64_t>(std::floor(static_cast<double>(m.height) / times));
    m.to_width = static_cast<std::int64_t>(std::floor(static_cast<double>(m.width) / times));
  }
  return m;
}

// Qwen2-VL's smart_resize, in double as Python's.
picture_shape nearest_multiples(const vision_config& config, std::int32_t width,
                                std::int32_t height) {
  const std::int32_t cell = config.cell();
  if (std::min(width, height) < cell || std::max(width, height) > 200.0 * std::min(width, height)) {
    throw environment_error(
        fmt::format("a picture of {}x{} pixels: a side must have at least {}, and the ratio of the "
                    "sides be at most 200",
                    width, height, cell));
  }
  const double w = width, h = height, c = cell;
  double across = std::nearbyint(w / c), down = std::nearbyint(h / c);  // half to even
  const double pixels = across * down * c * c;
  if (pixels > static_cast<double>(config.most_pixels)) {
    const double scale = std::sqrt(h * w / static_cast<double>(config.most_pixels));
    across = std::floor(w / scale / c);
    down = std::floor(h / scale / c);
  } else if (pixels < static_cast<double>(config.least_pixels)) {
    const double scale = std::sqrt(static_cast<double>(config.least_pixels) / (h * w));
    across = std::ceil(w * scale / c);
    down = std::ceil(h * scale / c);
  }
  if (across < 1 || down < 1) {
    throw environment_error(fmt::format("a picture of {}x{} pixels leaves no row", width, height));
  }
  return {width,
          height,
          0,
          0,
          static_cast<std::int32_t>(across * c),
          static_cast<std::int32_t>(down * c)};
}

// Between which of `n` places the i-th of `to` is: half-pixel centres, clamped at both ends.
struct tap {
  std::int64_t first, second;
  float share;  // of the second
};
tap tap_of(std::int64_t i, std::int64_t n, std::int64_t to) {
  if (n == to) return {i, i, 0};
  const double scale = static_cast<double>(n) / static_cast<double>(to);
  const double at = std::max((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0);
  const std::int64_t first = std::min(static_cast<std::int64_t>(at), n - 1);
  return {first, std::min(first + 1, n - 1), static_cast<float>(at - static_cast<double>(first))};
}

}  // namespace

picture_shape shape_of_picture(const vision_config& config, const std::string& preset,
                               std::int32_t width, std::int32_t height) {
  if (config.kind == vision_kind::qwen) return nearest_multiples(config, width, height);
  picture_shape shape{width, height, 0, 0, config.side, config.side};
  if (preset != "tiles") return shape;
  std::int64_t most = 0, least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [w, h] : config.points) {
    const double scale = std::min(static_cast<double>(w) / width, static_cast<double>(h) / height);
    const std::int64_t kept = std::min(
        static_cast<std::int64_t>(width * scale) * static_cast<std::int64_t>(height * scale),
        std::int64_t{width} * height);
    const std::int64_t wasted = std::int64_t{w} * h - kept;
    if (kept > most || (kept == most && wasted < least)) {
      shape.across = w / config.side;
      shape.down = h / config.side;
      most = kept;
      least = wasted;
    }
  }
  return shape;
}

row_plan plan_rows(const vision_config& config, const picture_shape& shape) {
  const std::int32_t per_view = config.rows_of_view(), n = config.grid();
  const std::int32_t newline = per_view * shape.views();
  row_plan plan;
  const auto add = [&](std::array<std::int64_t, 4> from, float across, float down) {
    for (const std::int64_t row : from) plan.from.push_back(static_cast<std::int32_t>(row));
    plan.across.push_back(across);
    plan.down.push_back(down);
  };
  const auto copy = [&](std::int64_t row) { add({row, row, row, row}, 0, 0); };
  for (std::int32_t r = 0; r < per_view; ++r) copy(r);
  if (shape.across == 0) {
    copy(newline);
    return plan;
  }
  const map_part m = part_of_map(config, shape);
  const auto place = [&](std::int64_t y, std::int64_t x) {
    y += m.top;
    x += m.left;
    return per_view * (1 + y / n * shape.across + x / n) + y % n * n + x % n;
  };
  for (std::int64_t y = 0; y < m.to_height; ++y) {
    const tap v = tap_of(y, m.height, m.to_height);
    for (std::int64_t x = 0; x < m.to_width; ++x) {
      const tap h = tap_of(x, m.width, m.to_width);
      add({place(v.first, h.first), place(v.first, h.second), place(v.second, h.first),
           place(v.second, h.second)},
          h.share, v.share);
    }
    copy(newline);
  }
  return plan;
}

window_plan plan_windows(const vision_config& config, const picture_shape& shape) {
  const std::int32_t height = shape.view_height / config.cell(),
                     width = shape.view_width / config.cell();
  window_plan plan;
  for (std::int32_t top = 0; top < height; top += config.window) {
    for (std::int32_t left = 0; left < width; left += config.window) {
      const auto before = std::ssize(plan.cells);
      for (std::int32_t y = top; y < std::min(top + config.window, height); ++y) {
        for (std::int32_t x = left; x < std::min(left + config.window, width); ++x) {
          plan.cells.push_back(y * width + x);
        }
      }
      plan.counts.push_back(static_cast<std::int32_t>(std::ssize(plan.cells) - before));
    }
  }
  return plan;
}

std::int64_t count_rows(const vision_config& config, const picture_shape& shape) {
  if (config.kind == vision_kind::qwen) {
    return std::int64_t{shape.view_height / config.cell()} * (shape.view_width / config.cell());
  }
  if (shape.across == 0) return config.rows_of_view() + 1;
  const map_part m = part_of_map(config, shape);
  return config.rows_of_view() + m.to_height * (m.to_width + 1);
}

}  // namespace unmask
