// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/d2cache/row_choice.h"

#include <algorithm>
#include <cmath>

namespace unmask::d2 {

void decided_density::start(std::int32_t positions, double sigma) {
  window_.clear();
  before_.assign(1, 0.0);
  for (std::int32_t d = 0; d <= 3 * positions; ++d) {
    window_.push_back(std::exp(-static_cast<double>(d) * d / (2 * sigma * sigma)));
    before_.push_back(before_.back() + window_.back());
  }
  all_ = between(0, 3 * positions) + between(1, 3 * positions + 1);
  sum_.clear();
  for (std::int32_t i = 0; i < positions; ++i) sum_.push_back(between(i + 1, i + 1 + positions));
}

void decided_density::decide(std::int32_t position) {
  const auto positions = static_cast<std::int32_t>(sum_.size());
  for (std::int32_t i = 0; i < positions; ++i) {
    double& sum = sum_[static_cast<std::size_t>(i)];
    sum += window_[static_cast<std::size_t>(std::abs(i - position))];
    if (position == positions - 1) sum += between(positions - i, 2 * positions - i);
  }
}

namespace {

using flags = std::vector<std::uint8_t>;

// Indices where `where` is set, those of larger value first, then in their order.
std::vector<std::int32_t> ranked(const flags& where, const std::vector<double>& value) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < where.size(); ++i) {
    if (where[i] != 0) order.push_back(static_cast<std::int32_t>(i));
  }
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return value[static_cast<std::size_t>(a)] > value[static_cast<std::size_t>(b)];
  });
  return order;
}

// One past the last position that may be chosen: the first position with current_k masks up to it, or
// the last one, then the end of its stretch of as many positions as the block had masks.
std::int64_t window_end(const row_evidence& e, std::int32_t current_k, std::int64_t open) {
  std::int64_t last = 0, masks = 0;
  for (const std::uint8_t masked : e.masked) {
    masks += masked;
    if (masks >= current_k) break;
    ++last;
  }
  last = std::min(last, static_cast<std::int64_t>(e.masked.size()) - 1);
  return (last / open + 1) * open;
}

// Masks that are likely to be decided soon.
flags masks_to_compute(const row_settings& s, const row_evidence& e) {
  const std::size_t positions = e.masked.size();
  std::vector<double> value(positions);
  for (std::size_t j = 0; j < positions; ++j) {
    value[j] = double{e.confidence[j]} * e.density->at(static_cast<std::int32_t>(j));
  }
  const double largest = std::ranges::max(value);
  const std::int64_t first = std::ranges::find(e.open, 1) - e.open.begin();
  const std::int64_t end = window_end(e, s.current_k, std::ranges::count(e.open, 1));
  flags eligible(positions, 0);
  for (std::size_t j = 0; j < positions; ++j) {
    if (e.open[j] != 0) value[j] += largest;
    const auto at = static_cast<std::int64_t>(j);
    eligible[j] = e.masked[j] != 0 && at >= first && at < end ? 1 : 0;
  }
  std::vector<std::int32_t> order = ranked(eligible, value);
  order.resize(std::min(order.size(), static_cast<std::size_t>(s.current_k)));
  flags chosen(positions, 0);
  for (const std::int32_t j : order) chosen[static_cast<std::size_t>(j)] = 1;
  return chosen;
}

void add_important(double share, const float* importance, flags& rows) {
  std::vector<double> value(rows.size());
  flags free(rows.size());
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    value[i] = double{importance[i]};
    free[i] = rows[i] == 0 ? 1 : 0;
    if (free[i] != 0) sum += value[i];
  }
  double reached = 0;
  bool any = false;
  for (const std::int32_t i : ranked(free, value)) {
    reached += value[static_cast<std::size_t>(i)] / (sum + 1e-9);
    if (any && reached > share) break;
    rows[static_cast<std::size_t>(i)] = 1;
    any = true;
  }
}

void fill_gaps(std::int32_t width, flags& rows) {
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    if (rows[static_cast<std::size_t>(i)] == 0) continue;
    if (last >= 0 && i - last <= width) std::fill(rows.begin() + last, rows.begin() + i, 1);
    last = i;
  }
}

}  // namespace

std::vector<std::uint8_t> choose_rows(const row_settings& s, const row_evidence& e) {
  const flags masks = masks_to_compute(s, e);
  const auto prompt = static_cast<std::size_t>(e.prompt);
  flags rows(prompt + masks.size(), 0);
  for (std::size_t j = 0; j < masks.size(); ++j) {
    const bool read = s.shifted ? j + 1 < masks.size() && masks[j + 1] != 0 : masks[j] != 0;
    rows[prompt + j] = read || e.decided[j] != 0 ? 1 : 0;
  }
  add_important(s.rollout_p, e.importance, rows);
  if (s.shifted && prompt > 0) rows[prompt - 1] = masks.front();
  if (s.inflate_w > 0) fill_gaps(s.inflate_w, rows);
  return rows;
}

}  // namespace unmask::d2
