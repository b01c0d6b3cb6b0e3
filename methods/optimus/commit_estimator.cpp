// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/optimus/commit_estimator.h"

#include <algorithm>

namespace unmask {
namespace {

constexpr double slowest = 1.0 / 64;

// Weight of one more observation after n: a plain mean at first, then exponential forgetting.
double weight(std::int64_t n) {
  return std::max(slowest, 1.0 / static_cast<double>(n + 1));
}

}  // namespace

commit_estimator::commit_estimator(std::int32_t block, double prior) : block_(block) {
  const auto n = static_cast<std::size_t>(block) + 1;
  g_.assign(n, 0.0);
  for (std::size_t m = 1; m < n; ++m) {
    const double share = block > 1 ? static_cast<double>(m - 1) / (block - 1) : 0.0;
    g_[m] = 1 + (std::max(prior, 1.0) - 1) * share;
  }
  slots_ = g_;
  rate_.assign(n, 0.0);
  for (std::size_t c = 0; c < n; ++c) rows_.push_back(static_cast<double>(c));
  rate_steps_.assign(n, 0);
}

// Steps without masks count for the share of such steps and for the rows of a chunk, so those are
// learnt before the function leaves; what was decided by rank needs masks.
void commit_estimator::observe(const step_observation& step) {
  const auto masks = static_cast<std::int32_t>(step.passed.size());
  const auto block = static_cast<std::size_t>(block_);
  if (step.size >= block_) {
    const double w = weight(full_steps_++);
    mask_free_ += w * ((masks == 0 ? 1.0 : 0.0) - mask_free_);
    for (std::size_t c = 1; c <= block; ++c) {
      std::int32_t passing = 0, inside = 0;
      for (std::size_t j = 0; j < step.passed.size(); ++j) {
        if (step.slot[j] >= static_cast<std::int32_t>(c)) continue;
        ++inside;
        passing += step.passed[j];
      }
      slots_[c] += w * ((inside == 0 ? 0.0 : std::max(1, passing)) - slots_[c]);
    }
  }
  if (step.open > 0) {
    const double w = weight(open_steps_++);
    for (std::size_t c = 1; c <= block; ++c) {
      rows_[c] += w * (std::min(static_cast<double>(c), static_cast<double>(step.open)) - rows_[c]);
    }
  }
  if (masks == 0) return;
  const double w = weight(steps_++);
  const std::size_t limit =
      step.complete ? block : std::min(block, static_cast<std::size_t>(masks));
  const double before = g_[limit];
  std::int32_t passing = 0;
  for (std::size_t m = 1; m <= limit; ++m) {
    if (m <= step.passed.size()) {
      passing += step.passed[m - 1];
      rate_[m] += weight(rate_steps_[m]++) * (step.passed[m - 1] - rate_[m]);
    }
    g_[m] += w * (std::max(1, passing) - g_[m]);
  }
  // Ranks nothing was seen of keep their increments on top of what was.
  for (std::size_t m = limit + 1; m <= block; ++m) g_[m] += g_[limit] - before;
}

double commit_estimator::passes(double m) const {
  const double x = std::clamp(m, 0.0, static_cast<double>(block_));
  const auto low = static_cast<std::size_t>(x);
  if (low >= static_cast<std::size_t>(block_)) return g_.back();
  return g_[low] + (x - static_cast<double>(low)) * (g_[low + 1] - g_[low]);
}

double commit_estimator::pass_rate(std::int32_t j) const {
  return rate_[static_cast<std::size_t>(j)];
}

double commit_estimator::expected_rows(std::int32_t c) const {
  return rows_[static_cast<std::size_t>(std::clamp(c, 0, block_))];
}

double commit_estimator::expected(std::int32_t c, estimator_kind kind) const {
  const double prefix = (1 - mask_free_) * passes(c);
  if (kind == estimator_kind::prefix_count) return prefix;
  if (kind == estimator_kind::slot_count) {
    return slots_[static_cast<std::size_t>(std::clamp(c, 1, block_))];
  }
  double low = 0, high = c;  // G(c - N) - N falls in N
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (passes(c - middle) > middle ? low : high) = middle;
  }
  return kind == estimator_kind::fixed_point ? low : std::min(prefix, low);
}

}  // namespace unmask
