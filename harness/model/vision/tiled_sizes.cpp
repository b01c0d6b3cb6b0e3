// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/tiled_sizes.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace unmask {
namespace {

constexpr std::int64_t most_sizes = 256, most_sides = 64;

}  // namespace

void add_tiled_size(const json_reader& config, vision_config& v, std::int64_t width,
                    std::int64_t height, first_number order) {
  const auto fits = [&](std::int64_t n) {
    return n > 0 && n <= most_sides * v.side && n % v.side == 0;
  };
  if (!fits(width) || !fits(height) || std::ssize(v.points) == most_sizes) {
    config.fail(
        "image_grid_pinpoints",
        fmt::format("must hold at most {} sizes {}, in multiples of the side {}", most_sizes,
                    order == first_number::width ? "[width, height]" : "[height, width]", v.side));
  }
  v.points.push_back({static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)});
}

void add_listed_sizes(const json_reader& config, vision_config& v, first_number order) {
  const json_value::array* given = config.at("image_grid_pinpoints").items();
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    const json_value::array* both = (*given)[i].items();
    const bool numbers = both != nullptr && both->size() == 2 && (*both)[0].integer() != nullptr &&
                         (*both)[1].integer() != nullptr;
    std::int64_t width = numbers ? *(*both)[0].integer() : 0;
    std::int64_t height = numbers ? *(*both)[1].integer() : 0;
    if (order == first_number::height) std::swap(width, height);
    add_tiled_size(config, v, width, height, order);
  }
}

std::int32_t most_views_of(const json_reader& config, const char* key, const std::string& ratio) {
  constexpr std::string_view tiled = "anyres_max_";
  const char* number = ratio.data() + std::min(tiled.size(), ratio.size());
  const char* const end = ratio.data() + ratio.size();
  std::int32_t most = 0;
  const auto [behind, failed] = std::from_chars(number, end, most);
  if (!ratio.starts_with(tiled) || failed != std::errc() || behind != end || most < 1 ||
      most > 1024) {
    config.fail(key, "is \"" + ratio.substr(0, 200) +
                         "\"; of tiles only anyres_max_N is supported, N from 1 to 1024");
  }
  return most;
}

}  // namespace unmask
