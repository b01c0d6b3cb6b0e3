// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// [probe]: which probes an experiment asks for, and their settings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unmask {

struct probe_settings {
  std::vector<std::string> names;
  double tau = 0.9;          // confidence below which a stable token counts as missed
  double margin = 0.05;      // drop that counts as a decline
  double sink_share = 0.05;  // of the keys: how many count as sinks
  std::int64_t every = 8;    // attention: look at every so many steps
  std::int64_t limit = 0;    // requests; 0: all of the workload
  // contradiction: tokens per block of the reference on bidirectional models; 0: one block.
  std::int64_t reference_block = 32;
  bool operator==(const probe_settings&) const = default;
};

struct probe_kind {
  const char* name;
  const char* shows;  // and the papers' figures of it
};
const std::vector<probe_kind>& probe_list();  // sorted by name
std::vector<std::string> probe_names();

}  // namespace unmask
