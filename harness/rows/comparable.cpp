// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/comparable.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/rows/json_of.h"

namespace unmask {
namespace {

using nlohmann::json;

constexpr const char* changing[] = {"load_average", "memory_available_bytes", "notes", "other_work",
                                    "unfit"};
constexpr const char* changing_of_gpus[] = {"sm_clock_mhz", "memory_clock_mhz", "temperature_c",
                                            "throttle_reasons"};
constexpr const char* tools[] = {"nsys", "ncu", "gpu_counters_restricted"};

json lasting(const std::string& environment) {
  json machine = tree_of<json>(environment);
  if (!machine.is_object()) return json::object();
  for (const char* key : changing) machine.erase(key);
  const auto gpus = machine.find("gpus");
  if (gpus == machine.end()) return machine;
  for (json& gpu : *gpus) {
    for (const char* key : changing_of_gpus) {
      if (gpu.is_object()) gpu.erase(key);
    }
  }
  return machine;
}

// Of rows of several ranks. A row of one rank has none.
bool connects_otherwise(const topology_record& a, const topology_record& b) {
  if (a.hosts == 0 || b.hosts == 0) return false;
  return a.hosts != b.hosts || a.transport != b.transport || a.nccl != b.nccl;
}

void add(std::string& list, const std::string& word) {
  list += (list.empty() ? "" : ", ") + word;
}

}  // namespace

std::string machine_of(const std::string& environment) {
  return lasting(environment).dump();
}

std::string difference_of(const result_row& a, const result_row& b) {
  std::string apart;
  if (a.environment != b.environment) {
    json x = lasting(a.environment), y = lasting(b.environment);
    const bool same_build = x.value("build", json()) == y.value("build", json());
    for (const char* key : tools) x.erase(key);
    x.erase("build");
    for (const auto& [key, value] : x.items()) {
      const auto other = y.find(key);  // a key that a row lacks is younger than the row
      if (other != y.end() && *other != value) add(apart, key);
    }
    if (a.source_hash == b.source_hash && !same_build) add(apart, "build");
  }
  if (a.source_hash != b.source_hash) add(apart, "source_hash");
  if (connects_otherwise(a.topology, b.topology)) add(apart, "topology");
  return apart;
}

std::string unfit_sentence(const row_list& rows) {
  std::vector<std::string> reasons;
  std::size_t disturbed = 0;
  for (const result_row* row : rows) {
    disturbed += row->samples.disturbance.empty() ? 0 : 1;
    const json machine = tree_of<json>(row->environment);
    const auto unfit = machine.is_object() ? machine.find("unfit") : machine.end();
    if (!machine.is_object() || unfit == machine.end() || !unfit->is_array()) continue;
    for (const json& reason : *unfit) {
      if (!reason.is_string()) continue;
      const auto text = reason.get<std::string>();
      if (std::ranges::find(reasons, text) == reasons.end()) reasons.push_back(text);
    }
  }
  if (disturbed > 0) {
    reasons.push_back(fmt::format("{} of {} points were disturbed while they were measured",
                                  disturbed, rows.size()));
  }
  if (reasons.empty()) return "";
  return fmt::format("the machine was not fit to measure on: {}", fmt::join(reasons, "; "));
}

}  // namespace unmask
