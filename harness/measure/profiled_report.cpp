// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The probe "phases".
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/measure/profiled.h"

namespace unmask {
namespace {

using nlohmann::ordered_json;

ordered_json known(double value) {
  return value > 0 ? ordered_json(value) : ordered_json();
}

// Share of the least time in which this machine could have done the work; null without a roof.
ordered_json roof_share(double flops, double bytes, double seconds, const device_roofs& roofs) {
  double least = 0;
  if (roofs.flops_per_second > 0) least = flops / roofs.flops_per_second;
  if (roofs.bytes_per_second > 0) least = std::max(least, bytes / roofs.bytes_per_second);
  return least > 0 && seconds > 0 ? ordered_json(least / seconds) : ordered_json();
}

// Seconds that kernels of a phase ran; null when kernels were not traced.
ordered_json device_seconds(const phase_report& report, profile_phase phase) {
  if (report.kernels.empty()) return nullptr;
  double seconds = 0;
  for (const kernel_row& k : report.kernels) {
    if (k.attributed && k.phase == phase) seconds += k.seconds;
  }
  return seconds;
}

// Own seconds of a phase on the rank that took least and on the one that took most. The kernels that a tool
// traced are those of rank 0's device: nothing of the others compares with them.
std::pair<ordered_json, ordered_json> over_ranks(const phase_report& report, const phase_total& t) {
  if (report.other_ranks.empty() || !report.kernels.empty()) return {};
  double least = t.own_seconds, most = t.own_seconds;
  for (const phase_seconds& other : report.other_ranks) {
    const auto found = other.find(t.phase);
    const double seconds = found == other.end() ? 0 : found->second;
    least = std::min(least, seconds);
    most = std::max(most, seconds);
  }
  return {least, most};
}

ordered_json phase_object(const phase_report& report, const phase_total& t) {
  double flops = t.flops, bytes = t.bytes;
  bool bytes_known = t.bytes_known;
  const char* provenance = "analytic";
  for (const phase_report::counted& c : report.counters) {
    if (c.phase != t.phase) continue;
    flops = c.flops;
    bytes = c.bytes;
    bytes_known = true;
    provenance = "cupti";
  }
  const ordered_json on_device = device_seconds(report, t.phase);
  const double seconds = on_device.is_null() ? t.own_seconds : on_device.get<double>();
  const auto [least, most] = over_ranks(report, t);
  return {{"phase", name_of(t.phase)},
          {"container", is_container(t.phase)},
          {"calls", t.calls},
          {"seconds", t.seconds},
          {"own_seconds", t.own_seconds},
          {"least_seconds", least},
          {"most_seconds", most},
          {"device_seconds", on_device},
          {"rows", t.rows},
          {"flops", flops},
          {"bytes", bytes_known ? ordered_json(bytes) : ordered_json()},
          {"roof_share", roof_share(flops, bytes_known ? bytes : 0, seconds, report.roofs)},
          {"provenance", provenance}};
}

ordered_json traffic_object(const phase_report& report) {
  if (!report.traffic) return nullptr;
  std::int64_t steps = 0;
  for (const phase_total& t : report.phases) {
    if (t.phase == profile_phase::step) steps = t.calls;
  }
  ordered_json kernels = ordered_json::array();
  for (const auto& [name, k] : report.traffic->kernels) {
    kernels.push_back({{"kernel", name},
                       {"launches", k.launches},
                       {"read_bytes", k.read.touched},
                       {"written_bytes", k.written.touched},
                       {"host_bytes", k.host_bytes},
                       {"requests", k.read.requests + k.written.requests},
                       {"sectors", k.read.sectors + k.written.sectors},
                       {"excess_sectors", k.read.excess + k.written.excess},
                       {"uncoalesced", k.read.uncoalesced + k.written.uncoalesced},
                       {"shared_waves", k.shared_waves},
                       {"shared_excess", k.shared_excess},
                       {"matrix_loads", k.matrix_loads},
                       {"products", k.products}});
  }
  return {{"accesses_seen", cuda::emulator::sees_accesses()},
          {"steps", steps},
          {"launches", report.traffic->launches},
          {"waits", report.traffic->waits},
          {"copies", report.traffic->copies},
          {"copied_bytes", report.traffic->copied_bytes},
          {"kernels", kernels}};
}

}  // namespace

std::string phases_json(const phase_report& report) {
  ordered_json phases = ordered_json::array(), kernels = ordered_json::array();
  for (const phase_total& t : report.phases) phases.push_back(phase_object(report, t));
  for (const kernel_row& k : report.kernels) {
    kernels.push_back({{"phase", k.attributed ? ordered_json(name_of(k.phase)) : ordered_json()},
                       {"kernel", k.kernel},
                       {"launches", k.launches},
                       {"seconds", k.seconds},
                       {"shortest", k.shortest},
                       {"longest", k.longest}});
  }
  const auto told = [](const auto& s) { return s.empty() ? ordered_json() : ordered_json(s); };
  const ordered_json object = {
      {"seconds", report.seconds},
      {"untraced_seconds", report.untraced_seconds},
      {"events_left_out", report.events_left_out},
      {"roofs",
       {{"flops_per_second", known(report.roofs.flops_per_second)},
        {"bytes_per_second", known(report.roofs.bytes_per_second)},
        {"source", report.roofs.source},
        {"uncertain", report.roofs_uncertain},
        {"disturbed", report.roofs_disturbed}}},
      {"provenance",
       {{"time", report.kernels.empty() ? "clock" : "cupti"},
        {"work", report.counters.empty() ? "analytic" : "cupti"}}},
      {"kernels_problem", told(report.kernels_problem)},
      {"counters_problem", told(report.counters_problem)},
      {"chip", told(report.chip)},
      {"device_busy", known(report.device_busy)},
      {"device_span", known(report.device_span)},
      {"device_unattributed",
       report.kernels.empty() ? ordered_json() : ordered_json(report.device_unattributed)},
      {"phases", phases},
      {"kernels", kernels},
      {"traffic", traffic_object(report)}};
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace unmask
