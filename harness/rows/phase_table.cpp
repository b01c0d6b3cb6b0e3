// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include <fmt/format.h>

#include "harness/base/output.h"
#include "harness/rows/glossary.h"
#include "harness/rows/json_of.h"
#include "harness/rows/table.h"

namespace unmask {
namespace {

using nlohmann::ordered_json;

table_cell amount(const ordered_json& value, double unit, int digits) {
  if (!value.is_number() || value.get<double>() == 0) return "–";
  return number_cell(value.get<double>() / unit, digits);
}

// Device time where kernels were traced, else the CPU's own time of the phase.
double seconds_of(ordered_json& phase, bool device) {
  return phase[device ? "device_seconds" : "own_seconds"].get<double>();
}

// Why the roofs are not those of a quiet machine; "" if they may be.
std::string doubt_of(ordered_json& report) {
  constexpr double most = 1.05;
  if (report["roofs"]["disturbed"] == true) {
    return " Roof uncertain: other work ran while it was measured, before and after the pass.";
  }
  if (report["roofs"]["uncertain"] == true) {
    return " Roof uncertain: before and after the pass it differed by more than 10 %.";
  }
  for (ordered_json& p : report["phases"]) {
    if (p["container"] == true || !p["roof_share"].is_number()) continue;
    if (p["roof_share"].get<double>() > most) {
      return " Roof uncertain: a phase is above it, so other work ran while it was measured, or "
             "caches served what the phase reads.";
    }
  }
  return "";
}

// Which phases took one rank longer than another, but for waiting; "" of one rank.
std::string difference_of(ordered_json& report, double total) {
  constexpr double least_share = 0.01, most = 1.1;
  std::string phases;
  for (ordered_json& p : report["phases"]) {
    if (p["container"] == true || p["phase"] == "across_ranks" || !p["most_seconds"].is_number())
      continue;
    const double slowest = p["most_seconds"].get<double>();
    if (slowest < least_share * total || slowest <= most * p["least_seconds"].get<double>())
      continue;
    phases += (phases.empty() ? "" : ", ") + p["phase"].get<std::string>();
  }
  return phases.empty() ? "" : " Ranks differ by more than 10 % in " + phases + ".";
}

// What stands below a table of phases.
std::string note_of(ordered_json& report, bool device) {
  std::string note = fmt::format(
      "{} time. Traced pass {:.4f} s, timed passes {:.4f} s ({:+.1f} %).",
      device ? "Device" : "CPU", report["seconds"].get<double>(),
      report["untraced_seconds"].get<double>(),
      100 * (report["seconds"].get<double>() / report["untraced_seconds"].get<double>() - 1));
  if (ordered_json& roofs = report["roofs"]; !roofs["source"].get<std::string>().empty()) {
    note += fmt::format(
        " Roofs: {} GFLOP/s, {} GB/s ({}).", amount(roofs["flops_per_second"], 1e9, 1).text,
        amount(roofs["bytes_per_second"], 1e9, 1).text, roofs["source"].get<std::string>());
    note += doubt_of(report);
  }
  if (report["device_unattributed"].is_number() &&
      report["device_unattributed"].get<double>() > 0) {
    note += fmt::format(" {:.3f} ms of kernels belong to no phase.",
                        1e3 * report["device_unattributed"].get<double>());
  }
  note += " FLOPs and bytes: " + report["provenance"]["work"].get<std::string>() + ".";
  for (const char* problem : {"kernels_problem", "counters_problem"}) {
    if (report[problem].is_string()) note += " " + report[problem].get<std::string>() + ".";
  }
  return note;
}

// A report may be anybody's: a key that it lacks is null, and what then has the wrong type throws.
text_table table_of(const result_row& row, ordered_json report, bool in_order) {
  bool of_ranks = false;
  for (ordered_json& p : report["phases"]) of_ranks = of_ranks || p["most_seconds"].is_number();
  text_table t =
      table_with({of_ranks ? "phase | >calls | >ms | >least ms | >most ms" : "phase | >calls | >ms",
                  ">share | >positions | >flops | >MB | >GFLOP/s | >GB/s | >roof_share"});
  // A line of the table, with the times of the ranks behind rank 0's.
  const auto line_of = [&](std::vector<table_cell> line, const table_cell& least,
                           const table_cell& most) {
    if (of_ranks) line.insert(line.begin() + 3, {least, most});
    return line;
  };
  t.title = fmt::format("{} · {} · {}", row.model.name, row.workload.family, name_of_row(row));
  const bool device = !report["kernels"].empty();
  double between = 0, total = 0;
  for (ordered_json& p : report["phases"]) {
    total += seconds_of(p, device);
    if (p["container"]) between += seconds_of(p, device);
  }
  const auto times = [&](double seconds) {
    return std::pair(number_cell(seconds, 3, 1e3),
                     table_cell(fmt::format("{:.1f} %", 100 * seconds / total)));
  };
  std::vector<std::pair<double, std::vector<table_cell>>> lines;
  for (ordered_json& p : report["phases"]) {
    const double seconds = seconds_of(p, device);
    if (p["container"] || !(total > 0)) continue;
    const auto [ms, share] = times(seconds);
    lines.push_back(
        {seconds,
         line_of({p["phase"].get<std::string>(), count_cell(p["calls"].get<std::int64_t>()), ms,
                  share, amount(p["rows"], 1, 0), amount(p["flops"], 1e9, 3),
                  amount(p["bytes"], 1e6, 1), amount(p["flops"], seconds * 1e9, 1),
                  amount(p["bytes"], seconds * 1e9, 1), amount(p["roof_share"], 0.01, 1)},
                 amount(p["least_seconds"], 1e-3, 3), amount(p["most_seconds"], 1e-3, 3))});
  }
  if (total > 0) {
    const auto [ms, share] = times(between);
    lines.push_back(
        {between, line_of({"between phases", "", ms, share, "", "", "", "", "", ""}, "", "")});
  }
  if (!in_order) {
    std::ranges::stable_sort(lines, std::ranges::greater{},
                             &std::pair<double, std::vector<table_cell>>::first);
  }
  for (auto& line : lines) t.add(std::move(line.second));
  t.add(line_of({"all", "", number_cell(total, 3, 1e3), "100 %", "", "", "", "", "", ""}, "", ""));
  for (table_cell& cell : t.rows.back()) cell.bold = true;
  std::string note = note_of(report, device);
  if (of_ranks) {
    note += fmt::format(" Phases are those of rank 0. Least and most are over its {} ranks.{}",
                        row.run.ranks, difference_of(report, total));
  }
  t.notes.push_back(note);
  return t;
}

table_cell percent(const ordered_json& part, const ordered_json& whole) {
  const auto all = whole.get<double>();
  return all > 0 ? table_cell(fmt::format("{:.1f}", 100 * part.get<double>() / all)) : "–";
}

// Kernels of the emulated device, what they touch in a step, the largest first.
text_table traffic_table(const result_row& row, ordered_json traffic) {
  text_table t =
      table_with({"kernel | >launches | >kB read | >kB written | >host bytes | >sectors/request",
                  ">excess % | >uncoalesced % | >bank conflicts % | >ldmatrix | >mma"});
  t.title = fmt::format("{} · {} · {}: memory traffic per step", row.model.name,
                        row.workload.family, name_of_row(row));
  const double steps = std::max(1.0, traffic["steps"].get<double>());
  std::vector<ordered_json> kernels(traffic["kernels"].begin(), traffic["kernels"].end());
  const auto bytes = [](const ordered_json& k) {
    return k.at("read_bytes").get<double>() + k.at("written_bytes").get<double>();
  };
  std::ranges::stable_sort(kernels, std::ranges::greater{}, bytes);
  for (ordered_json& k : kernels) {
    const auto requests = k["requests"].get<double>();
    t.add({k["kernel"].get<std::string>(), amount(k["launches"], steps, 1),
           amount(k["read_bytes"], steps * 1e3, 1), amount(k["written_bytes"], steps * 1e3, 1),
           amount(k["host_bytes"], steps, 0),
           requests > 0 ? number_cell(k["sectors"].get<double>() / requests, 2) : table_cell("–"),
           percent(k["excess_sectors"], k["sectors"]), percent(k["uncoalesced"], k["requests"]),
           percent(k["shared_excess"], k["shared_waves"]), amount(k["matrix_loads"], steps, 0),
           amount(k["products"], steps, 0)});
  }
  const auto a_step = [&](const char* what) { return traffic[what].get<double>() / steps; };
  t.notes.push_back(fmt::format(
      "{:.0f} steps; a step: {:.1f} launches, {:.1f} host waits, {:.1f} copies from the host of "
      "{:.1f} kB. Distinct sectors of 32 bytes, launch by launch{}.",
      steps, a_step("launches"), a_step("waits"), a_step("copies"), a_step("copied_bytes") / 1e3,
      traffic["accesses_seen"].get<bool>() ? "" : "; this build does not see accesses"));
  return t;
}

}  // namespace

std::vector<text_table> phase_tables(const row_list& rows, bool in_order) {
  std::vector<text_table> tables;
  for (const result_row* row : rows) {
    const auto found = row->probes.find("phases");
    if (found == row->probes.end()) continue;
    try {
      const ordered_json report = ordered_json::parse(found->second);
      tables.push_back(table_of(*row, report, in_order));
      if (report.contains("traffic") && report["traffic"].is_object()) {
        tables.push_back(traffic_table(*row, report["traffic"]));
      }
    } catch (const ordered_json::exception&) {
      tell("point {}: its report `phases` lacks a key or holds another type; it is not shown\n",
           row->point_id);
    }
  }
  return tables;
}

}  // namespace unmask
