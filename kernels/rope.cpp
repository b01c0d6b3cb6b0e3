// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/model_core.h"

namespace unmask {
namespace {

// The pair, not a whole number, whose unscaled frequency turns so often within the pretrained length.
double pair_that_turns(const rope_params& rope, double times) {
  return rope.rotary_dim * std::log(rope.scaling.positions / (times * 2 * std::numbers::pi)) /
         (2 * std::log(double{rope.theta}));
}

// The share of frequency i that stays unscaled: YaRN's ramp, with the bounds of transformers.
double yarn_share(const rope_params& rope, std::int64_t i) {
  double first = pair_that_turns(rope, rope.scaling.high);
  double last = pair_that_turns(rope, rope.scaling.low);
  if (rope.scaling.whole) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, rope.rotary_dim - 1.0);
  if (first == last) last += 0.001;
  return 1 - std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
}

double llama3_share(const rope_scaling& s, double frequency) {
  const double turns = s.positions * frequency / (2 * std::numbers::pi);
  if (turns > s.high) return 1;
  if (turns < s.low) return 0;
  return (turns - s.low) / (s.high - s.low);
}

double scaled(const rope_params& rope, std::int64_t i, double frequency) {
  const rope_scaling& s = rope.scaling;
  if (s.kind == rope_scaling_kind::none) return frequency;
  double share = 0;  // linear: all are slow
  if (s.kind == rope_scaling_kind::llama3) share = llama3_share(s, frequency);
  if (s.kind == rope_scaling_kind::yarn) share = yarn_share(rope, i);
  return share * frequency + (1 - share) * frequency / s.factor;
}

}  // namespace

std::vector<float> rope_frequencies(const rope_params& rope) {
  std::vector<float> frequency(static_cast<std::size_t>(rope.rotary_dim / 2));
  const auto first = static_cast<std::size_t>(rope.first_pair);
  const std::size_t last =
      rope.last_pair > 0 ? static_cast<std::size_t>(rope.last_pair) : frequency.size();
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t number = rope.restart > 0 ? i - first : i;
    const std::int32_t width = rope.restart > 0 ? rope.restart : rope.rotary_dim;
    const double plain = std::pow(double{rope.theta}, -2.0 * static_cast<double>(number) / width);
    frequency[i] = static_cast<float>(scaled(rope, static_cast<std::int64_t>(i), plain));
  }
  return frequency;
}

}  // namespace unmask
