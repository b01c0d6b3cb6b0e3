// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/repetition.h"

#include <algorithm>

namespace unmask {
namespace {

constexpr std::int32_t stretches = 3;
constexpr std::int32_t shortest = 8;

}  // namespace

repetition_watch::repetition_watch(std::int32_t window)
    : window_(window), alike_(static_cast<std::size_t>(window) + 1) {}

bool repetition_watch::add(std::int32_t token) {
  if (window_ == 0) return false;
  const auto n = static_cast<std::int32_t>(tokens_.size());
  for (std::int32_t b = 1; b <= std::min(window_, n); ++b) {
    const bool same = tokens_[static_cast<std::size_t>(n - b)] == token;
    std::int64_t& alike = alike_[static_cast<std::size_t>(b)];
    alike = same ? alike + 1 : 0;
  }
  tokens_.push_back(token);
  const std::int32_t longest = std::min(window_, (n + 1) / stretches);
  for (std::int32_t b = longest < shortest ? 1 : shortest; b <= longest; ++b) {
    if (alike_[static_cast<std::size_t>(b)] >= std::int64_t{stretches - 1} * b) return true;
  }
  return false;
}

}  // namespace unmask
