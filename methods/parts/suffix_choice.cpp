// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/suffix_choice.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/random.h"

namespace unmask::dpad {
namespace {

// The draws of one block, nearest position first.
std::vector<double> draws_of(const sequence_request& request, std::int32_t block,
                             std::int32_t count) {
  std::vector<double> draws(static_cast<std::size_t>(count));
  const auto& recorded = request.recorded_uniforms;
  const std::uint64_t key = stream_key(request.seed, static_cast<std::uint64_t>(block), score_draw);
  for (std::size_t d = 0; d < draws.size(); ++d) {
    draws[d] = recorded.empty() ? uniform_open(key, d)
                                : double{recorded.at(static_cast<std::size_t>(block)).at(d)};
  }
  return draws;
}

}  // namespace

float keep_probability(const dropout_settings& s, std::int32_t distance) {
  if (distance >= s.window) return 0;
  const double t = s.window > 1 ? s.sigma * distance / (s.window - 1) : 0.0;
  return static_cast<float>(s.scale * std::exp(-0.5 * t * t) /
                            std::sqrt(2 * std::numbers::pi_v<double>));
}

std::vector<std::int32_t> choose_suffix(const dropout_settings& s, const sequence_request& request,
                                        std::int32_t block, std::int32_t block_last,
                                        std::int32_t length) {
  std::vector<std::int32_t> kept(static_cast<std::size_t>(std::max(length - block_last, 0)));
  std::iota(kept.begin(), kept.end(), block_last);
  const auto count = static_cast<std::int32_t>(kept.size());
  if (s.kind == "none" || (s.kind == "uniform" && s.preserved >= count)) return kept;
  const std::vector<double> draws = draws_of(request, block, count);
  const auto draw = [&](std::int32_t p) { return draws[static_cast<std::size_t>(p - block_last)]; };
  if (s.kind == "gaussian") {
    std::erase_if(kept, [&](std::int32_t p) {
      return !(draw(p) < double{keep_probability(s, p - block_last)});
    });
    return kept;
  }
  kept.resize(static_cast<std::size_t>(std::min(count, s.window)));
  std::ranges::stable_sort(kept, {}, draw);
  kept.resize(std::min(kept.size(), static_cast<std::size_t>(s.preserved)));
  std::ranges::sort(kept);
  return kept;
}

}  // namespace unmask::dpad
