// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The probe "phases" and the tables made from it.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/experiment/profiled.h"

namespace unmask {
namespace {

using json = nlohmann::ordered_json;

json known(double value) {
  return value > 0 ? json(value) : json();
}

// Share of the least time in which this machine could have done the work; null without a roof.
json roof_share(double flops, double bytes, double seconds, const machine_roofs& roofs) {
  double least = 0;
  if (roofs.flops_per_second > 0) least = flops / roofs.flops_per_second;
  if (roofs.bytes_per_second > 0) least = std::max(least, bytes / roofs.bytes_per_second);
  return least > 0 && seconds > 0 ? json(least / seconds) : json();
}

// Seconds that kernels of a phase ran; null when kernels were not traced.
json device_seconds(const phase_report& report, work_phase phase) {
  if (report.kernels.empty()) return nullptr;
  double seconds = 0;
  for (const kernel_row& k : report.kernels) {
    if (k.attributed && k.phase == phase) seconds += k.seconds;
  }
  return seconds;
}

json phase_object(const phase_report& report, const phase_total& t) {
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
  const json on_device = device_seconds(report, t.phase);
  const double seconds = on_device.is_null() ? t.own_seconds : on_device.get<double>();
  return {{"phase", name_of(t.phase)},
          {"container", is_container(t.phase)},
          {"calls", t.calls},
          {"seconds", t.seconds},
          {"own_seconds", t.own_seconds},
          {"device_seconds", on_device},
          {"rows", t.rows},
          {"flops", flops},
          {"bytes", bytes_known ? json(bytes) : json()},
          {"roof_share", roof_share(flops, bytes_known ? bytes : 0, seconds, report.roofs)},
          {"provenance", provenance}};
}

std::string count(const json& value, double unit, int digits) {
  if (!value.is_number() || value.get<double>() == 0) return "–";
  return fmt::format("{:.{}f}", value.get<double>() / unit, digits);
}

std::string rate(const json& amount, double seconds, double unit) {
  if (!amount.is_number() || amount.get<double>() == 0 || !(seconds > 0)) return "–";
  return fmt::format("{:.1f}", amount.get<double>() / seconds / unit);
}

std::string table_of(const result_row& row, const json& report) {
  const bool device = !report["kernels"].empty();
  std::string text = fmt::format(
      "### {} · {} · {}{}\n\n| phase | calls | ms | share | rows | GFLOP | MB | GFLOP/s | GB/s | % "
      "of roof |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      row.model.name, row.workload.family, row.label,
      row.variation.empty() ? "" : " " + row.variation);
  struct line {
    double seconds;
    std::string text;
  };
  std::vector<line> lines;
  double containers = 0, total = 0;
  for (const json& p : report["phases"]) {
    const double seconds =
        device ? p["device_seconds"].get<double>() : p["own_seconds"].get<double>();
    total += seconds;
    if (p["container"]) containers += seconds;
  }
  if (!(total > 0)) return text + "| nothing took time | | | | | | | | | |\n";
  for (const json& p : report["phases"]) {
    if (p["container"]) continue;
    const double seconds =
        device ? p["device_seconds"].get<double>() : p["own_seconds"].get<double>();
    const std::string name = p["phase"].get<std::string>();
    lines.push_back(
        {seconds,
         fmt::format("| {} | {} | {:.3f} | {:.1f} % | {} | {} | {} | {} | {} | {} |\n", name,
                     p["calls"].get<std::int64_t>(), seconds * 1e3, 100 * seconds / total,
                     count(p["rows"], 1, 0), count(p["flops"], 1e9, 3), count(p["bytes"], 1e6, 1),
                     rate(p["flops"], seconds, 1e9), rate(p["bytes"], seconds, 1e9),
                     p["roof_share"].is_number()
                         ? fmt::format("{:.1f}", 100 * p["roof_share"].get<double>())
                         : "–")});
  }
  lines.push_back({containers, fmt::format("| between phases | | {:.3f} | {:.1f} % | | | | | | |\n",
                                           containers * 1e3, 100 * containers / total)});
  std::stable_sort(lines.begin(), lines.end(),
                   [](const line& a, const line& b) { return a.seconds > b.seconds; });
  for (const line& l : lines) text += l.text;
  text += fmt::format("| **all** | | **{:.3f}** | 100 % | | | | | | |\n\n", total * 1e3);
  text += fmt::format(
      "{} time. Traced pass {:.4f} s, timed passes {:.4f} s ({:+.1f} %).",
      device ? "Device" : "CPU", report["seconds"].get<double>(),
      report["untraced_seconds"].get<double>(),
      100 * (report["seconds"].get<double>() / report["untraced_seconds"].get<double>() - 1));
  const json& roofs = report["roofs"];
  if (!roofs["source"].get<std::string>().empty()) {
    text +=
        fmt::format(" Roofs: {} GFLOP/s, {} GB/s ({}).", count(roofs["flops_per_second"], 1e9, 1),
                    count(roofs["bytes_per_second"], 1e9, 1), roofs["source"].get<std::string>());
  }
  if (device && report["device_unattributed"].get<double>() > 0) {
    text += fmt::format(" {:.3f} ms of kernels belong to no phase.",
                        1e3 * report["device_unattributed"].get<double>());
  }
  text += " FLOPs and bytes: " + report["provenance"]["work"].get<std::string>() + ".\n";
  for (const char* problem : {"kernels_problem", "counters_problem"}) {
    if (report[problem].is_string()) text += report[problem].get<std::string>() + ".\n";
  }
  return text;
}

}  // namespace

std::string phases_json(const phase_report& report) {
  json phases = json::array(), kernels = json::array();
  for (const phase_total& t : report.phases) phases.push_back(phase_object(report, t));
  for (const kernel_row& k : report.kernels) {
    kernels.push_back({{"phase", k.attributed ? json(name_of(k.phase)) : json()},
                       {"kernel", k.kernel},
                       {"launches", k.launches},
                       {"seconds", k.seconds},
                       {"shortest", k.shortest},
                       {"longest", k.longest}});
  }
  const auto sentence = [](const std::string& s) { return s.empty() ? json() : json(s); };
  const json object = {
      {"seconds", report.seconds},
      {"untraced_seconds", report.untraced_seconds},
      {"events_left_out", report.events_left_out},
      {"roofs",
       {{"flops_per_second", known(report.roofs.flops_per_second)},
        {"bytes_per_second", known(report.roofs.bytes_per_second)},
        {"source", report.roofs.source}}},
      {"provenance",
       {{"time", report.kernels.empty() ? "clock" : "cupti"},
        {"work", report.counters.empty() ? "analytic" : "cupti"}}},
      {"kernels_problem", sentence(report.kernels_problem)},
      {"counters_problem", sentence(report.counters_problem)},
      {"chip", sentence(report.chip)},
      {"device_busy", known(report.device_busy)},
      {"device_span", known(report.device_span)},
      {"device_unattributed", report.kernels.empty() ? json() : json(report.device_unattributed)},
      {"phases", phases},
      {"kernels", kernels}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string phase_tables(const std::vector<result_row>& rows) {
  std::string text;
  for (const result_row& row : rows) {
    const auto found = row.probes.find("phases");
    if (found == row.probes.end()) continue;
    text += (text.empty() ? "" : "\n") + table_of(row, json::parse(found->second));
  }
  return text;
}

}  // namespace unmask
