// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/serving.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

}  // namespace

const std::vector<std::string>& tpot_names() {
  static const std::vector<std::string> names = {"stream", "decode", "e2e"};
  return names;
}

tpot_definition parse_tpot(const std::string& name) {
  return static_cast<tpot_definition>(find_known("definition of TPOT", name, tpot_names()));
}

double tpot_of(const request_record& r, tpot_definition definition) {
  const auto n = static_cast<double>(r.answer.output.size());
  if (r.end != outcome::finished || n == 0) return undefined;
  switch (definition) {
    case tpot_definition::stream:
      if (n < 2 || r.emissions.empty()) return undefined;
      return (r.emissions.back().time - r.emissions.front().time) / (n - 1);
    case tpot_definition::decode:
      return (r.finish - r.prefill_done) / n;
    case tpot_definition::e2e:
      return (r.finish - r.arrival) / n;
  }
  return undefined;
}

double ttfb_of(const request_record& r) {
  return r.emissions.empty() ? undefined : r.emissions.front().time - r.arrival;
}

double queue_time_of(const request_record& r) {
  return r.admitted - r.arrival;
}

double e2e_of(const request_record& r) {
  return r.finish - r.arrival;
}

void inter_block_of(const request_record& r, std::vector<double>& gaps) {
  for (std::size_t i = 1; i < r.emissions.size(); ++i) {
    gaps.push_back(r.emissions[i].time - r.emissions[i - 1].time);
  }
}

backlog backlog_of(const std::vector<request_record>& requests) {
  backlog b;
  double end = 0;
  for (const request_record& r : requests) end = std::max(end, r.arrival);
  if (!(end > 0)) return b;
  // Time in the system inside a window, over the window, is the mean number in the system.
  const auto inside = [&](double from, double to) {
    double sum = 0;
    for (const request_record& r : requests) {
      sum += std::max(0.0, std::min(r.finish, to) - std::max(r.arrival, from));
    }
    return sum / (to - from);
  };
  b.middle = inside(end / 3, 2 * end / 3);
  b.last = inside(2 * end / 3, end);
  b.growing = b.last > 1.5 * b.middle && b.last > b.middle + 4;
  return b;
}

}  // namespace unmask
