// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/past_hours.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/rows/statistics.h"

namespace unmask {
namespace {

// What of a machine decides how long a pass takes; empty: not told.
std::string speed_of(const std::string& environment) {
  using nlohmann::json;
  const json all = json::parse(environment, nullptr, false);
  if (!all.is_object() || !all.contains("cpu_model")) return "";
  json kept = json::array();
  for (const char* key : {"cpu_model", "cpus_usable", "omp_threads"}) {
    kept.push_back(all.value(key, json()));
  }
  const json gpus = all.value("gpus", json::array());
  if (!gpus.is_array()) return "";
  for (const json& gpu : gpus) kept.push_back(gpu.is_object() ? gpu.value("name", json()) : json());
  return kept.dump();
}

}  // namespace

std::string past_hours(const experiment_spec& spec, const std::vector<experiment_point>& points,
                       const std::vector<result_row>& rows, const std::string& environment) {
  const std::string here = speed_of(environment);
  std::map<std::string, double> pass;  // seconds, by point: the last row counts
  for (const result_row& row : rows) {
    if (row.samples.seconds.empty() || here.empty() || speed_of(row.environment) != here) continue;
    pass[row.point_id] = mean_of(row.samples.seconds);
  }
  const auto passes = static_cast<double>(spec.evidence.warmup + spec.evidence.min_repetitions);
  double seconds = 0;
  std::size_t known = 0;
  for (const experiment_point& p : points) {
    const auto found = pass.find(p.id);
    if (found == pass.end()) continue;
    seconds += passes * found->second;
    ++known;
  }
  if (known == 0) return "hours of this machine: unknown; no point has a row of it\n";
  const double hours = seconds / 3600;
  return fmt::format("hours of this machine, by its rows of {} of {} points: {}{}\n", known,
                     points.size(), known < points.size() ? "at least " : "",
                     hours < 0.095 ? fmt::format("{:.2g}", hours) : fmt::format("{:.1f}", hours));
}

}  // namespace unmask
