// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Makers of the probes, and what their files share. Private to the experiment room.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "harness/experiment/probe.h"

namespace unmask::probes {

std::unique_ptr<probe> attention(const probe_settings& settings);
std::unique_ptr<probe> confidence(const probe_settings& settings);
std::unique_ptr<probe> decode_trace(const probe_settings& settings, const token_text& text);
std::unique_ptr<probe> decoding(const probe_settings& settings);
std::unique_ptr<probe> importance(const probe_settings& settings);
std::unique_ptr<probe> kv_change(const probe_settings& settings);
std::unique_ptr<probe> stagnation(const probe_settings& settings);

// Five significant digits: rows stay small, figures do not change.
inline double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, 4 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * unit) / unit;
}

inline std::vector<double> rounded(const std::vector<double>& values) {
  std::vector<double> out;
  for (const double v : values) out.push_back(rounded(v));
  return out;
}

// The block a step decodes, as far as its plan shows it: candidates right of the blocks before.
class block_window {
 public:
  void begin() { *this = {}; }
  // True when the step can decide tokens; `entered` then says whether it is the first of a block.
  bool see(const sequence_step& step) {
    if (!step.active || step.candidate_last <= step.candidate_first) return false;
    entered = step.candidate_last != last;
    if (entered) {
      first = std::max(step.candidate_first, step.candidate_last > last ? last : 0);
      last = step.candidate_last;
      steps = 0;
    } else {
      ++steps;
    }
    return true;
  }
  std::int32_t first = 0, last = 0;
  std::int32_t steps = 0;  // steps of this block before this one
  bool entered = false;
};

// Running mean.
struct mean {
  double sum = 0;
  std::int64_t n = 0;
  void add(double value) {
    sum += value;
    ++n;
  }
  double value() const { return n > 0 ? sum / static_cast<double>(n) : std::nan(""); }
};

inline std::vector<double> values_of(const std::vector<mean>& means) {
  std::vector<double> out;
  for (const mean& m : means) out.push_back(rounded(m.value()));
  return out;
}

}  // namespace unmask::probes
