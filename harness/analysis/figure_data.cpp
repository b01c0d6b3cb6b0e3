// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/figure_data.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/analysis/crossover.h"
#include "harness/analysis/estimates.h"
#include "harness/analysis/json_of.h"

namespace unmask {
namespace {

using nlohmann::ordered_json;

double value_or_nan(const result_row& row, const std::string& name) {
  return row.value_of(name).value_or(std::nan(""));
}

bool is_served(const result_row& row) {
  return row.run.kind == "serve";
}

std::string shown_name(const result_row& row) {
  return name_of_row(row) + (row.model.weights == "synthetic" ? " (synthetic)" : "") +
         (row.run.impose != "none" ? " (commits imposed)" : "");
}

bool vary(const row_list& rows, const std::function<std::string(const result_row&)>& key) {
  return distinct(rows, key).size() > 1;
}

// The name of a row, with batch size, device and model where they differ between the rows.
std::function<std::string(const result_row&)> series_names(const row_list& rows) {
  const bool batches =
      vary(rows, [](const result_row& r) { return std::to_string(r.run.batch_size); });
  const bool devices = vary(rows, [](const result_row& r) { return r.run.device; });
  const bool models = vary(rows, [](const result_row& r) { return r.model.name; });
  return [=](const result_row& row) {
    std::string name = shown_name(row);
    if (batches && name.find("batch_size=") == std::string::npos) {
      name += fmt::format(" batch {}", row.run.batch_size);
    }
    if (devices) name += " on " + row.run.device;
    return models ? name + " · " + row.model.name : name;
  };
}

std::string machine_of(const result_row& row) {
  const ordered_json environment = ordered_json::parse(row.environment, nullptr, false);
  if (!environment.is_object()) return "machine unknown";
  const ordered_json gpus = environment.value("gpus", ordered_json::array());
  if (row.run.device != "cpu" && gpus.is_array() && !gpus.empty()) {
    return gpus[0].is_object() ? gpus[0].value("name", "GPU") : gpus[0].dump();
  }
  const ordered_json cpu = environment.value("cpu_model", ordered_json());
  return cpu.is_string() ? cpu.get<std::string>() : "machine unknown";
}

ordered_json row_json(const result_row& row, const std::string& series) {
  ordered_json out = ordered_json::parse(to_json_line(row));
  out["name"] = shown_name(row);
  out["series"] = series;
  out["parts"] = variation_of(row);
  out["machine"] = machine_of(row);
  out["reportable"] = is_reportable(row);
  out["half_width"] = row.samples.half_width * value_or_nan(row, "tokens_per_second");
  return out;
}

// Rows of one method taken together: tokens over seconds, the mean score of all items.
struct together {
  double speed = 0, half_width = 0, kv_bytes = 0, score = std::nan("");
  interval range;
  std::size_t n = 0;
  bool hollow = false;  // rests on a model of the machine or on weights without meaning
};

together pool(const row_list& rows) {
  together all;
  double tokens = 0, seconds = 0, spread = 0, right = 0;
  for (const result_row* row : rows) {
    tokens += value_or_nan(*row, "output_tokens");
    const double wall = value_or_nan(*row, "wall_seconds");
    seconds += wall;
    const double half = wall * row->samples.half_width;
    if (std::isfinite(half)) spread += half * half;
    all.kv_bytes = std::max(all.kv_bytes, row->value_of("peak_kv_bytes").value_or(0));
    const auto speed = value_in(*row, "tokens_per_second");
    all.hollow |= speed && (speed->from == origin::analytic || speed->from == origin::synthetic);
    if (row->score && row->score->n > 0) {
      right += row->score->mean * static_cast<double>(row->score->n);
      all.n += static_cast<std::size_t>(row->score->n);
    }
  }
  all.speed = tokens / seconds;
  all.half_width = all.speed * std::sqrt(spread) / seconds;
  all.range = wilson_interval(right, all.n);
  if (all.n > 0) {
    all.score = right / static_cast<double>(all.n);
    // Rounding must not put the share itself outside.
    all.range = {std::min(all.score, all.range.low), std::max(all.score, all.range.high)};
  }
  return all;
}

// Of one model and workload (empty: all), with the methods that no other beats at both marked.
void add_front(ordered_json& out, const row_list& rows, const ordered_json& workload,
               const std::function<std::string(const result_row&)>& series) {
  std::vector<together> all;
  const std::vector<row_list> groups = grouped(rows, series);
  for (const row_list& group : groups) all.push_back(pool(group));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const together& p = all[i];
    const std::string& model = groups[i].front()->model.name;
    bool front = true;
    for (std::size_t j = 0; j < groups.size(); ++j) {
      const together& q = all[j];
      front &= groups[j].front()->model.name != model || q.speed < p.speed || q.score < p.score ||
               (q.speed == p.speed && q.score == p.score);
    }
    out.push_back({{"series", series(*groups[i].front())},
                   {"model", model},
                   {"workload", workload},
                   {"tokens_per_second", p.speed},
                   {"score", p.score},
                   {"interval", {p.range.low, p.range.high}},
                   {"n", p.n},
                   {"front", front}});
  }
}

ordered_json pooled(const row_list& all) {
  row_list rows = all;
  std::erase_if(rows, [](const result_row* r) {
    return !r->score || r->score->n == 0 || r->model.weights == "synthetic" ||
           !r->value_of("tokens_per_second");
  });
  ordered_json out = ordered_json::array();
  const auto series = series_names(rows);
  add_front(out, rows, nullptr, series);
  for (const row_list& task :
       grouped(rows, [](const result_row& r) { return r.workload.family; })) {
    add_front(out, task, task.front()->workload.family, series);
  }
  return out;
}

// A row's place in a sweep: numbers that may be an axis, and the text of everything else.
struct sweep_place {
  std::map<std::string, double> numbers;
  std::string rest;
};

// "0.5K", "32K": a workload named by its length.
bool names_length(const std::string& family) {
  return family.ends_with("K") && as_number(family.substr(0, family.size() - 1));
}

sweep_place place_of(const result_row& row) {
  sweep_place place;
  for (const auto& [key, value] : variation_of(row)) {
    const double v = as_number(value).value_or(std::nan(""));
    const std::string last = key.substr(key.rfind('.') + 1);
    if (std::isfinite(v) && last != "batch_size" && last != "rate") {
      place.numbers[key] = v;
    } else {
      place.rest += (place.rest.empty() ? "" : " ") + key + (value.empty() ? "" : "=" + value);
    }
  }
  if (names_length(row.workload.family) && row.workload.items > 0) {
    place.numbers["tokens of the prompt"] =
        value_or_nan(row, "prompt_tokens") / static_cast<double>(row.workload.items);
  }
  return place;
}

struct sweep_line {
  std::string label, rest, model;
  std::map<std::string, double> others;
  std::int64_t batch = 1;
  std::map<double, row_list> points;
};

// Lines along one number that takes three values or more with everything else equal.
std::vector<sweep_line> lines_along(const row_list& rows, const std::string& axis, bool models) {
  std::vector<sweep_line> lines;
  for (const result_row* row : rows) {
    sweep_place place = place_of(*row);
    const auto at = place.numbers.find(axis);
    if (at == place.numbers.end()) continue;
    const double x = at->second;
    place.numbers.erase(at);
    sweep_line wanted{row->label,    place.rest,          models ? row->model.name : "",
                      place.numbers, row->run.batch_size, {}};
    const auto found = std::ranges::find_if(lines, [&](const sweep_line& l) {
      return std::tie(l.label, l.rest, l.model, l.others, l.batch) ==
             std::tie(wanted.label, wanted.rest, wanted.model, wanted.others, wanted.batch);
    });
    sweep_line& line = found == lines.end() ? lines.emplace_back(std::move(wanted)) : *found;
    line.points[x].push_back(row);
  }
  std::erase_if(lines, [](const sweep_line& l) { return l.points.size() < 3; });
  return lines;
}

// Of the other numbers only those that tell lines apart are worth naming.
std::string name_of_line(const sweep_line& line, const std::vector<sweep_line>& all) {
  std::string name = line.label;
  const auto add = [&](const std::string& part) { name += part.empty() ? "" : " " + part; };
  add(line.rest);
  bool batches = false;
  for (const sweep_line& l : all) batches |= l.batch != line.batch;
  for (const auto& [key, value] : line.others) {
    const bool telling = std::ranges::any_of(all, [&, &k = key, &v = value](const sweep_line& l) {
      const auto at = l.others.find(k);
      return at == l.others.end() || at->second != v;
    });
    if (telling) add(fmt::format("{}={:g}", key, value));
  }
  add(line.model);
  if (batches && line.rest.find("batch_size=") == std::string::npos) {
    add(fmt::format("batch {}", line.batch));
  }
  return name;
}

ordered_json sweeps(const row_list& all) {
  row_list rows = all;
  std::erase_if(rows, [](const result_row* r) {
    return !r->value_of("tokens_per_second") ||
           setting_of(*r, "serve.arrivals").value_or("closed") != "closed";
  });
  const bool models = vary(rows, [](const result_row& r) { return r.model.name; });
  std::vector<std::string> axes;
  for (const result_row* row : rows) {
    for (const auto& [key, value] : place_of(*row).numbers) {
      if (std::ranges::find(axes, key) == axes.end()) axes.push_back(key);
    }
  }
  ordered_json out = ordered_json::array();
  for (const std::string& axis : axes) {
    const std::vector<sweep_line> lines = lines_along(rows, axis, models);
    if (lines.empty()) continue;
    ordered_json drawn = ordered_json::array();
    for (const sweep_line& line : lines) {
      ordered_json points = ordered_json::array();
      for (const auto& [x, group] : line.points) {
        const together p = pool(group);
        const std::vector<double> interval = {p.range.low, p.range.high};
        ordered_json ids = ordered_json::array();
        for (const result_row* row : group) ids.push_back(row->point_id);
        points.push_back({{"x", x},
                          {"tokens_per_second", p.speed},
                          {"half_width", p.half_width},
                          {"kv_mib", p.kv_bytes / (1 << 20)},
                          {"score", p.score},
                          {"interval", p.n > 0 ? ordered_json(interval) : ordered_json()},
                          {"hollow", p.hollow},
                          {"rows", ids}});
      }
      drawn.push_back({{"name", name_of_line(line, lines)}, {"points", points}});
    }
    out.push_back({{"axis", axis}, {"lines", drawn}});
  }
  return out;
}

// Device time where kernels were traced, else the CPU's own time; the time of containers themselves
// is the phase "between phases".
ordered_json phases(const row_list& all) {
  row_list rows = all;
  std::erase_if(rows, [](const result_row* r) { return !r->probes.contains("phases"); });
  ordered_json out = ordered_json::array();
  const auto series = series_names(rows);
  for (const row_list& group : grouped(rows, series)) {
    double forwards = 0;
    ordered_json parts = ordered_json::array();
    for (const result_row* row : group) {
      forwards += row->value_of("batched_forwards").value_or(0);
      const ordered_json report = ordered_json::parse(row->probes.at("phases"));
      for (const ordered_json& phase : report["phases"]) {
        const std::string name = phase["container"] ? "between phases" : phase["phase"];
        auto at = std::ranges::find_if(parts, [&](const auto& p) { return p["phase"] == name; });
        if (at == parts.end()) {
          parts.push_back({{"phase", name},
                           {"seconds", 0.0},
                           {"flops", 0.0},
                           {"bytes", 0.0},
                           {"analytic", false}});
          at = parts.end() - 1;
        }
        ordered_json& total = *at;
        const bool device = phase.contains("device_seconds") && phase["device_seconds"].is_number();
        total["seconds"] = total["seconds"].get<double>() +
                           phase[device ? "device_seconds" : "own_seconds"].get<double>();
        total["flops"] = total["flops"].get<double>() + phase["flops"].get<double>();
        auto& bytes = total["bytes"];
        if (!phase["bytes"].is_number()) bytes = nullptr;
        if (bytes.is_number()) bytes = bytes.get<double>() + phase["bytes"].get<double>();
        if (phase["provenance"] == "analytic") total["analytic"] = true;
      }
    }
    out.push_back({{"series", series(*group.front())}, {"forwards", forwards}, {"phases", parts}});
  }
  return out;
}

}  // namespace

ordered_json figure_data(const frame& rows) {
  const row_list shown = rows.reportable();
  const auto series = series_names(shown);
  ordered_json all = ordered_json::array();
  for (const result_row* row : rows.all()) all.push_back(row_json(*row, series(*row)));
  const bool decodes =
      std::ranges::any_of(shown, [](const result_row* r) { return !is_served(*r); });
  return {{"rows", all},
          {"pooled", pooled(shown)},
          {"sweeps", sweeps(shown)},
          {"crossover", decodes ? ordered_json::parse(crossover_json(crossover_cells(rows)))
                                : ordered_json::array()},
          {"phases", phases(shown)}};
}

}  // namespace unmask
