// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/kernel_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace unmask {
namespace {

// Answers which phase a kernel belongs to.
class attribution {
 public:
  explicit attribution(const activity_records& records) {
    for (const external_activity& e : records.externals) {
      std::uint64_t& id = of_correlation_[e.correlation];
      id = std::max(id, e.external);
    }
    for (const graph_node_origin& n : records.nodes) of_node_[n.node] = n.external;
    for (const phase_instance& i : records.instances) phase_[i.external] = i.phase;
  }

  std::optional<profile_phase> phase_of(const kernel_activity& k) const {
    if (k.graph_node != 0) {
      // The launch's own id would name the phase that launched the graph, which is no answer.
      const auto node = of_node_.find(k.graph_node);
      return node == of_node_.end() ? std::nullopt : phase_of(node->second);
    }
    const auto found = of_correlation_.find(k.correlation);
    return found == of_correlation_.end() ? std::nullopt : phase_of(found->second);
  }

 private:
  std::optional<profile_phase> phase_of(std::uint64_t external) const {
    const auto found = phase_.find(external);
    return found == phase_.end() ? std::nullopt : std::optional(found->second);
  }

  std::unordered_map<std::uint32_t, std::uint64_t> of_correlation_;
  std::unordered_map<std::uint64_t, std::uint64_t> of_node_;
  std::unordered_map<std::uint64_t, profile_phase> phase_;
};

bool timed(const kernel_activity& k) {
  return k.begin > 0 && k.end >= k.begin;
}

// Length of the union of intervals, and of the whole from first to last.
std::pair<double, double> busy_and_span(const std::vector<kernel_activity>& kernels) {
  std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
  for (const kernel_activity& k : kernels) {
    if (timed(k)) intervals.emplace_back(k.begin, k.end);
  }
  if (intervals.empty()) return {0, 0};
  std::sort(intervals.begin(), intervals.end());
  std::int64_t busy = 0, reached = intervals.front().first;
  for (const auto& [begin, end] : intervals) {
    if (end <= reached) continue;
    busy += end - std::max(begin, reached);
    reached = end;
  }
  return {static_cast<double>(busy) * 1e-9,
          static_cast<double>(reached - intervals.front().first) * 1e-9};
}

}  // namespace

// Launches are counted before their times are read, so that a kernel without a time still shows; what
// is wrong with the records is said last, when all of them were seen.
kernel_table correlate(const activity_records& records) {
  const attribution known(records);
  kernel_table table;
  table.dropped = records.dropped;
  std::map<std::pair<int, std::string>, kernel_row> rows;  // unattributed: phase -1
  for (const kernel_activity& k : records.kernels) {
    const std::optional<profile_phase> phase = known.phase_of(k);
    kernel_row& row = rows[{phase ? static_cast<int>(*phase) : -1, k.name}];
    row.kernel = k.name;
    row.attributed = phase.has_value();
    row.phase = phase.value_or(profile_phase::step);
    ++row.launches;
    ++table.launches;
    if (!timed(k)) {
      ++table.without_time;
      continue;
    }
    const double seconds = static_cast<double>(k.end - k.begin) * 1e-9;
    row.shortest = row.seconds == 0 ? seconds : std::min(row.shortest, seconds);
    row.longest = std::max(row.longest, seconds);
    row.seconds += seconds;
    table.seconds += seconds;
    if (!phase) table.unattributed_seconds += seconds;
  }
  for (auto& [key, row] : rows) table.rows.push_back(std::move(row));
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const kernel_row& a, const kernel_row& b) {
                     if (a.attributed != b.attributed) return a.attributed;
                     if (a.phase != b.phase) return a.phase < b.phase;
                     return a.seconds > b.seconds;
                   });
  std::tie(table.busy, table.span) = busy_and_span(records.kernels);
  if (table.launches == 0) {
    table.problem = "no kernel was recorded";
  } else if (table.dropped > 0) {
    table.problem = std::to_string(table.dropped) + " records were dropped";
  } else if (table.without_time > 0) {
    table.problem = std::to_string(table.without_time) + " of " + std::to_string(table.launches) +
                    " launches have no valid time";
  }
  return table;
}

std::vector<device_slice> slices_of(const activity_records& records, std::int64_t offset) {
  const attribution known(records);
  std::vector<device_slice> slices;
  for (const kernel_activity& k : records.kernels) {
    if (!timed(k)) continue;
    const std::optional<profile_phase> phase = known.phase_of(k);
    slices.push_back({k.name, k.begin + offset, k.end + offset, k.device, k.stream,
                      phase.value_or(profile_phase::step), phase.has_value()});
  }
  std::ranges::stable_sort(slices, {}, &device_slice::begin);
  return slices;
}

}  // namespace unmask
