// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over ranks: the definition.
#include "kernels/ranks.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/float16.h"

namespace unmask {

void sum_over_ranks(double* x, std::size_t count) {
  rank_group* group = current_ranks();
  if (group == nullptr || count == 0) return;
  std::vector<double> all(count * static_cast<std::size_t>(group->size()));
  group->gather(x, count * sizeof(double), all.data());
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = all[i];
    for (int r = 1; r < group->size(); ++r) x[i] += all[static_cast<std::size_t>(r) * count + i];
  }
}

void check_travels(const op::sum_ranks& args) {
  const bool several = args.group != nullptr && args.parts.rows() > 1;
  if (args.travels == dtype::f32 || (args.travels == dtype::bf16 && !several)) return;
  throw std::logic_error("sum_ranks: parts travel as f32, or one of a rank as bf16");
}

bool detail::has_ranks() {
  return current_ranks() != nullptr;
}

namespace {

std::vector<device_head_sums>& sums_of_devices() {
  static std::vector<device_head_sums> all;
  return all;
}
// Of the device that has it; null: the host's own memory.
const device_head_sums* sums_of_device(const head_sum& of) {
  for (const device_head_sums& device : sums_of_devices()) {
    if (device.holds(of.data)) return &device;
  }
  return nullptr;
}

}  // namespace

register_head_sums::register_head_sums(const device_head_sums& of) {
  sums_of_devices().push_back(of);
}

detail::head_sums::head_sums(const head_sum& of) : of_(of) {
  if (of_.count == 0) return;
  if (const device_head_sums* device = sums_of_device(of_)) {
    device->begin(of_);
    return;
  }
  if (!of_.grows) return;
  before_.assign(of_.data, of_.data + of_.count);
  std::fill_n(of_.data, of_.count, 0.0F);
}

void detail::head_sums::add() {
  if (of_.count == 0) return;
  if (const device_head_sums* device = sums_of_device(of_)) {
    device->add(of_);
    return;
  }
  const bool mean = of_.heads > 0;
  std::vector<double> sums(of_.data, of_.data + of_.count);
  if (mean) {
    for (double& x : sums) x *= static_cast<double>(of_.heads);
  }
  sums.push_back(static_cast<double>(of_.heads));  // the last becomes the heads of all ranks
  sum_over_ranks(sums.data(), sums.size());
  for (std::int64_t i = 0; i < of_.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double sum = mean ? sums[at] / sums.back() : sums[at];
    of_.data[i] = static_cast<float>(of_.grows ? double{before_[at]} + sum : sum);
  }
}

namespace reference {
namespace {

using part = std::vector<float>;

// Pairs become one, an odd last one stays; until one is left.
part add_in_pairs(std::vector<part> parts) {
  while (parts.size() > 1) {
    std::vector<part> sums;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      sums.push_back(parts[i]);
      if (i + 1 == parts.size()) break;
      for (std::size_t j = 0; j < sums.back().size(); ++j) sums.back()[j] += parts[i + 1][j];
    }
    parts = std::move(sums);
  }
  return parts.front();
}

part rounded(part of) {
  for (float& x : of) x = from_bf16(to_bf16(x));
  return of;
}

// The parts of all ranks, of which each has `own`.
std::vector<part> parts_of_ranks(rank_group& group, const part& own, dtype travels) {
  const std::size_t n = own.size();
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<part> of_ranks;
  if (travels == dtype::f32) {
    part all(ranks * n);
    group.gather(own.data(), n * sizeof(float), all.data());
    for (std::size_t r = 0; r < ranks; ++r) {
      of_ranks.emplace_back(all.data() + r * n, all.data() + (r + 1) * n);
    }
    return of_ranks;
  }
  std::vector<std::uint16_t> halves, all(ranks * n);
  for (const float x : own) halves.push_back(to_bf16(x));
  group.gather(halves.data(), n * sizeof(std::uint16_t), all.data());
  for (std::size_t r = 0; r < ranks; ++r) {
    part one;
    for (std::size_t i = 0; i < n; ++i) one.push_back(from_bf16(all[r * n + i]));
    of_ranks.push_back(std::move(one));
  }
  return of_ranks;
}

void sum_ranks(const op::sum_ranks& args) {
  check_travels(args);
  const std::int64_t width = args.y.columns();
  const auto n = static_cast<std::size_t>(args.y.elements());
  if (n == 0) return;
  std::vector<part> own;
  for (std::int64_t p = 0; p < args.parts.rows(); ++p) {
    part one(args.parts.row<float>(p), args.parts.row<float>(p) + n);
    own.push_back(args.travels == dtype::bf16 ? rounded(std::move(one)) : std::move(one));
  }
  part sum = add_in_pairs(std::move(own));
  if (args.group != nullptr) {
    sum = add_in_pairs(parts_of_ranks(*args.group, sum, args.travels));
  }
  for (std::int64_t r = 0; r < args.y.rows(); ++r) {
    float* y = args.y.row<float>(r);
    const float* s = sum.data() + r * width;
    for (std::int64_t d = 0; d < width; ++d) y[d] = args.accumulate ? y[d] + s[d] : s[d];
  }
}

const register_operations<sum_ranks> registered(target::reference);

}  // namespace
}  // namespace reference
}  // namespace unmask
