// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/experiment/table.h"

namespace unmask {
namespace {

std::string shown(const result_row& row, const std::string& name, int digits, double scale = 1) {
  const auto value = row.value_of(name);
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value * scale, digits) : "–";
}

std::string setting(const result_row& row, const char* name) {
  const auto found = row.run.serve.find(name);
  return found == row.run.serve.end() ? "" : to_string(found->second);
}

std::string escaped(std::string text) {
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) {
    text.insert(i, "\\");
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string arrivals(const result_row& row) {
  const std::string how = setting(row, "arrivals");
  if (how == "closed") return how;
  const std::string rate = shown(row, "request_rate", 2);
  return rate == "–" ? how : how + " " + rate + "/s";
}

std::string method(const result_row& row) {
  std::string text = row.label + (row.variation.empty() ? "" : " " + row.variation);
  if (row.variation.find("policy=") == std::string::npos) {
    text += " policy=" + setting(row, "policy");
  }
  return text;
}

}  // namespace

std::string serve_table(const std::vector<result_row>& rows) {
  std::string text =
      "| model | method | workload | finished | arrivals | clock | tok/s | TTFB P50 ms | TPOT "
      "definition | TPOT P50 ms | TPOT P90 ms | goodput/s | capacity/s | batch | rows/request | "
      "verdict |\n|---|---|---|---:|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---|\n";
  for (const result_row& row : rows) {
    const bool synthetic = row.model.weights == "synthetic";
    const std::string model = row.model.name + (synthetic ? " (synthetic)" : "");
    text += fmt::format("| {} | {} | {} |", escaped(model), escaped(method(row)),
                        escaped(row.workload.family));
    if (row.verdict == verdict_kind::pass || row.verdict == verdict_kind::not_verified) {
      const std::string tpot = "tpot_" + setting(row, "tpot");
      text += fmt::format(" {} of {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                          shown(row, "requests_finished", 0), shown(row, "requests", 0),
                          arrivals(row), setting(row, "clock"), shown(row, "tokens_per_second", 1),
                          shown(row, "ttfb_p50_seconds", 2, 1e3), setting(row, "tpot"),
                          shown(row, tpot + "_p50_seconds", 2, 1e3),
                          shown(row, tpot + "_p90_seconds", 2, 1e3),
                          shown(row, "goodput_requests_per_second", 2),
                          shown(row, "slo_capacity_requests_per_second", 2),
                          shown(row, "batch_mean", 1), shown(row, "chunk_mean", 1));
    } else {
      text += " – | – | – | – | – | – | – | – | – | – | – | – |";
    }
    const bool quiet = row.verdict == verdict_kind::pass || row.reason.empty();
    text += " " + escaped(name_of(row.verdict) + (quiet ? "" : ": " + row.reason)) + " |\n";
  }
  return text;
}

}  // namespace unmask
