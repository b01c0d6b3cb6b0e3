// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/experiment/statistics.h"

namespace unmask {
namespace {

using optional_number = std::optional<double>;

// A later row for the same point replaces the earlier one, in its place.
std::vector<result_row> latest(const std::vector<result_row>& rows) {
  std::vector<result_row> kept;
  std::map<std::string, std::size_t> place;
  for (const result_row& row : rows) {
    const auto [at, fresh] = place.emplace(row.point_id, kept.size());
    if (fresh) {
      kept.push_back(row);
    } else {
      kept[at->second] = row;
    }
  }
  // Rows are written as points finish; within one experiment the plan's order reads better.
  const bool one = std::ranges::all_of(
      kept, [&](const result_row& row) { return row.title == kept.front().title; });
  if (one) std::ranges::stable_sort(kept, {}, &result_row::position);
  return kept;
}

bool believable(const result_row& row) {
  return is_reportable(row);
}

std::string decimals(optional_number value, int digits) {
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value, digits) : "–";
}

std::string cell(std::string text) {
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) {
    text.insert(i, "\\");
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string method_of(const result_row& row) {
  return row.label + (row.variation.empty() ? "" : " " + row.variation);
}

std::string circumstances(const result_row& row) {
  return row.model.name + (row.model.weights == "synthetic" ? " (synthetic)" : "");
}

std::string throughput(const result_row& row) {
  const std::string rate = decimals(row.value_of("tokens_per_second"), 1);
  const double spread = row.samples.half_width;
  if (rate == "–") return rate;
  return std::isfinite(spread) ? rate + fmt::format(" ± {:.1f} %", spread * 100) : rate;
}

std::string score_text(const result_row& row) {
  if (!row.score || row.model.weights == "synthetic") return "–";
  return fmt::format("{:.1f} % [{:.0f}, {:.0f}]", row.score->mean * 100, row.score->low * 100,
                     row.score->high * 100);
}

// Several batch sizes, lengths, seeds, devices or formats in one table must be told apart.
struct shown_settings {
  bool batch = false, device = false, length = false, seed = false, format = false;
  bool kv_type = false;
};
shown_settings varying(const std::vector<result_row>& rows) {
  shown_settings shown;
  for (const result_row& row : rows) {
    shown.batch |= row.run.batch_size != rows.front().run.batch_size;
    shown.device |= row.run.device != rows.front().run.device;
    shown.length |= row.run.gen_length != rows.front().run.gen_length;
    shown.seed |= row.run.seed != rows.front().run.seed;
    shown.format |= row.run.format != rows.front().run.format;
    shown.kv_type |= row.run.kv_type != rows.front().run.kv_type;
  }
  return shown;
}

std::string method_cell(const result_row& row, const shown_settings& shown) {
  std::string text = method_of(row);
  const auto add = [&](bool show, const char* name, const auto& value) {
    const bool there = row.variation.find(std::string(name) + "=") != std::string::npos;
    if (show && !there) text += fmt::format(" {}={}", name, value);
  };
  add(shown.batch, "batch_size", row.run.batch_size);
  add(shown.length, "gen_length", row.run.gen_length);
  add(shown.seed, "seed", row.run.seed);
  add(shown.device, "device", row.run.device);
  add(shown.format, "format", row.run.format);
  add(shown.kv_type, "kv_type", row.run.kv_type);
  return text;
}

std::string verdict_cell(const result_row& row) {
  const bool quiet = row.verdict == verdict_kind::pass || row.reason.empty();
  return name_of(row.verdict) + (quiet ? "" : ": " + row.reason);
}

// Means over the families, each with the same weight: items and nfe per item differ by family.
std::string mean_line(const std::string& model, const std::string& method,
                      const std::vector<const result_row*>& rows) {
  std::int64_t items = 0;
  std::map<std::string, std::vector<double>> values;
  std::vector<double> scores;
  for (const result_row* row : rows) {
    items += row->workload.items;
    for (const char* name : {"tokens_per_second", "committed_per_step", "redundancy", "nfe"}) {
      if (const auto v = row->value_of(name)) values[name].push_back(*v);
    }
    if (row->score && row->model.weights != "synthetic") scores.push_back(row->score->mean);
  }
  const auto mean = [&](const char* name, int digits) {
    return decimals(mean_of(values[name]), digits);
  };
  const std::string score = scores.empty() ? "–" : fmt::format("{:.1f} %", mean_of(scores) * 100);
  return fmt::format("| **{}** | **{}** | **mean of {}** | {} | {} | {} | {} | {} | {} | |\n",
                     cell(model), cell(method), rows.size(), items, score,
                     mean("tokens_per_second", 1), mean("committed_per_step", 2),
                     mean("redundancy", 2), mean("nfe", 0));
}

std::string markdown(const std::vector<result_row>& rows) {
  std::string text =
      "| model | method | task | items | score | tok/s ± | committed/step | redundancy | nfe | "
      "verdict |\n|---|---|---|---:|---:|---:|---:|---:|---:|---|\n";
  const shown_settings shown = varying(rows);
  std::map<std::pair<std::string, std::string>, std::vector<const result_row*>> groups;
  std::vector<std::pair<std::string, std::string>> order;
  for (const result_row& row : rows) {
    text +=
        fmt::format("| {} | {} | {} | {} |", cell(circumstances(row)),
                    cell(method_cell(row, shown)), cell(row.workload.family), row.workload.items);
    if (believable(row)) {
      text +=
          fmt::format(" {} | {} | {} | {} | {} |", score_text(row), throughput(row),
                      decimals(row.value_of("committed_per_step"), 2),
                      decimals(row.value_of("redundancy"), 2), decimals(row.value_of("nfe"), 0));
      const std::pair key(circumstances(row), method_cell(row, shown));
      if (groups[key].empty()) order.push_back(key);
      groups[key].push_back(&row);
    } else {
      text += " – | – | – | – | – |";  // no number without a believable run
    }
    text += " " + cell(verdict_cell(row)) + " |\n";
  }
  for (const auto& key : order) {
    if (groups[key].size() > 1) text += mean_line(key.first, key.second, groups[key]);
  }
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv(const std::vector<result_row>& rows) {
  std::set<std::string> metrics;
  for (const result_row& row : rows) {
    for (const auto& [name, value] : row.metrics) metrics.insert(name);
  }
  std::string text =
      "point_id,run_id,model,weights,method,label,variation,params,task,items,batch_size,"
      "gen_length,seed,device,format,verdict,reason,score,score_exact,score_n,score_low,score_high,"
      "repetitions,half_width";
  for (const std::string& name : metrics) text += "," + name;
  text += "\n";
  for (const result_row& row : rows) {
    std::string params;
    for (const auto& [name, value] : row.params) {
      params += (params.empty() ? "" : " ") + name + "=" + to_string(value);
    }
    std::vector<std::string> fields = {row.point_id,
                                       row.run_id,
                                       row.model.name,
                                       row.model.weights,
                                       row.method,
                                       row.label,
                                       row.variation,
                                       params,
                                       row.workload.family,
                                       std::to_string(row.workload.items),
                                       std::to_string(row.run.batch_size),
                                       std::to_string(row.run.gen_length),
                                       std::to_string(row.run.seed),
                                       row.run.device,
                                       row.run.format,
                                       name_of(row.verdict),
                                       row.reason};
    const auto number = [&](optional_number value) {
      fields.push_back(value && std::isfinite(*value) ? to_string(parameter_value(*value)) : "");
    };
    const bool scored = row.score && row.model.weights != "synthetic";
    number(scored ? optional_number(row.score->mean) : std::nullopt);
    fields.push_back(scored ? std::to_string(row.score->exact) : "");
    fields.push_back(scored ? std::to_string(row.score->n) : "");
    number(scored ? optional_number(row.score->low) : std::nullopt);
    number(scored ? optional_number(row.score->high) : std::nullopt);
    fields.push_back(std::to_string(row.samples.seconds.size()));
    number(row.samples.half_width);
    for (const std::string& name : metrics) number(row.value_of(name));
    for (std::size_t i = 0; i < fields.size(); ++i) text += (i ? "," : "") + csv_field(fields[i]);
    text += "\n";
  }
  return text;
}

}  // namespace

table_format parse_table_format(const std::string& name) {
  const std::vector<std::string> names = {"md", "csv", "json", "jsonl"};
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw usage_error(unknown_name("table format", name, names));
  return static_cast<table_format>(found - names.begin());
}

std::string render_table(const std::vector<result_row>& all, table_format format) {
  const std::vector<result_row> rows = latest(all);
  if (format == table_format::md) {
    std::vector<result_row> closed, served;
    for (const result_row& row : rows) {
      (row.run.kind == "serve" ? served : closed).push_back(row);
    }
    if (served.empty()) return markdown(closed);
    return closed.empty() ? serve_table(served) : markdown(closed) + "\n" + serve_table(served);
  }
  if (format == table_format::csv) return csv(rows);
  const bool array = format == table_format::json;
  std::string text = array ? "[" : "";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (array) text += i ? ",\n " : "\n ";
    text += to_json_line(rows[i]) + (array ? "" : "\n");
  }
  return array ? text + "\n]\n" : text;
}

}  // namespace unmask
