// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "harness/rows/comparable.h"
#include "harness/rows/estimates.h"
#include "harness/rows/glossary.h"
#include "harness/rows/json_of.h"

namespace unmask {
namespace {

std::string model_name(const result_row& row) {
  const bool imposed = row.run.impose != "none";
  if (row.model.weights == "synthetic") {
    return row.model.name + (imposed ? " (synthetic, commits imposed)" : " (synthetic)");
  }
  return row.model.name + (imposed ? " (commits imposed)" : "");
}

bool scored(const result_row& row) {
  return row.score && row.model.weights != "synthetic";
}

table_cell metric_cell(const result_row& row, const std::string& name, int digits,
                       double factor = 1) {
  return number_cell(row.value_of(name), digits, factor);
}

// Known to worse than a tenth.
constexpr double noisy_from = 0.1;
bool badly_known(const result_row& row) {
  return std::isfinite(row.samples.half_width) && row.samples.half_width > noisy_from;
}

// A speed that was timed once has no spread: nothing says how well it is known.
bool is_of_one_pass(const result_row& row) {
  const auto speed = row.metrics.find("tokens_per_second");
  return row.samples.seconds.size() == 1 && speed != row.metrics.end() &&
         speed->second.from == origin::measured;
}

table_cell throughput(const result_row& row) {
  table_cell cell = metric_cell(row, "tokens_per_second", 1);
  if (is_of_one_pass(row)) cell.text += " (one pass)";
  const double spread = row.samples.half_width;
  if (std::isfinite(cell.value) && std::isfinite(spread)) {
    cell.text += fmt::format(" ± {:.1f} %{}", spread * 100, badly_known(row) ? " !" : "");
    cell.low = cell.value * (1 - spread);
    cell.high = cell.value * (1 + spread);
  }
  return cell;
}

table_cell score_cell(const result_row& row) {
  if (!scored(row)) return "–";
  table_cell cell(fmt::format("{:.1f}", row.score->mean * 100));
  cell.value = row.score->mean * 100;
  cell.low = row.score->low * 100;
  cell.high = row.score->high * 100;
  cell.range = fmt::format("{:.0f}, {:.0f}", cell.low, cell.high);
  return cell;
}

// Keys of [run] that differ within one table: their rows must be told apart.
using run_key_names = std::vector<const run_key*>;
run_key_names varying(const row_list& rows) {
  run_key_names keys;
  for (const run_key& key : run_key_list()) {
    const auto differs = [&](const result_row* r) {
      return key.text(r->run) != key.text(rows.front()->run);
    };
    if (std::ranges::any_of(rows, differs)) keys.push_back(&key);
  }
  return keys;
}

std::string method_cell(const result_row& row, const run_key_names& shown) {
  std::string text = name_of_row(row);
  const bool named = row.label.find(row.preset) != std::string::npos;
  if (!row.preset.empty() && !named) text.insert(row.label.size(), " (" + row.preset + ")");
  for (const run_key* key : shown) {
    const bool there = row.variation.find(std::string(key->name) + "=") != std::string::npos;
    if (!there) text += fmt::format(" {}={}", key->name, key->text(row.run));
  }
  return text;
}

// What each row's speed is compared with: the first method that ran on the same weights and prompts
// in the same circumstances.
class speed_bases {
 public:
  explicit speed_bases(const row_list& rows) {
    for (const result_row* row : rows) {
      if (is_reportable(*row)) first_.try_emplace(place_of(*row), row);
    }
  }
  table_cell speedup(const result_row& row) {
    const result_row* base = first_.at(place_of(row));
    if (base == &row) return "base";
    const auto ratio = speed_over(row, *base);
    if (!ratio) return "–";
    const std::string apart = difference_of(row, *base);
    if (apart.empty()) return number_cell(ratio->value, 2, 1, ratio->range);
    apart_.insert(apart);
    table_cell cell = number_cell(ratio->value, 2);
    cell.text += " ≠";
    return cell;
  }
  void add_notes(text_table& t) const {
    for (const std::string& apart : apart_) {
      t.notes.push_back(
          "≠: the rows are not of one program and machine, so the ratio has no "
          "interval; they differ in " +
          apart);
    }
  }

 private:
  static std::string place_of(const result_row& row) {
    return circumstance_of(row, {}) + row.model.hash + "\n" + row.workload.hash;
  }
  std::map<std::string, const result_row*> first_;
  std::set<std::string> apart_;
};

// Verdicts with their reasons; long ones as footnotes, each once. That there was nothing to score is
// a note without a number, for it is no fault of a row.
class verdict_cells {
 public:
  std::string cell(const result_row& row) {
    const std::string verdict = shown_verdict(row);
    if (row.verdict == row_verdict::pass || row.reason.empty()) return verdict;
    if (row.reason == nothing_to_score) {
      const bool random = row.workload.family.ends_with("random tokens");
      unscored_.insert(random ? "not scored: random prompts have no right answer"
                              : "not scored: " + row.reason);
      return verdict;
    }
    if (row.reason.size() <= longest_inside) return verdict + ": " + row.reason;
    auto at = std::ranges::find(reasons_, row.reason);
    if (at == reasons_.end()) at = reasons_.insert(at, row.reason);
    return fmt::format("{} ({})", verdict, at - reasons_.begin() + 1);
  }
  void add_notes(text_table& t) const {
    t.notes.insert(t.notes.end(), unscored_.begin(), unscored_.end());
    for (std::size_t i = 0; i < reasons_.size(); ++i) {
      t.notes.push_back(fmt::format("({}) {}", i + 1, reasons_[i]));
    }
  }

 private:
  static constexpr std::size_t longest_inside = 24;
  std::vector<std::string> reasons_;
  std::set<std::string> unscored_;
};

// Means over the families, each with the same weight: items and nfe per item differ by family.
std::vector<table_cell> mean_line(const std::string& method, const row_list& rows) {
  const auto mean = [&](const char* name, int digits) {
    std::vector<double> values;
    for (const result_row* row : rows) {
      if (const auto v = row->value_of(name)) values.push_back(*v);
    }
    return number_cell(mean_of(values), digits);
  };
  std::int64_t items = 0;
  std::vector<double> scores;
  for (const result_row* row : rows) {
    items += row->workload.items;
    if (scored(*row)) scores.push_back(row->score->mean);
  }
  std::vector<table_cell> line = {model_name(*rows.front()), method,
                                  fmt::format("mean of {}", rows.size())};
  for (table_cell& cell : line) cell.bold = true;
  line.insert(
      line.end(),
      {count_cell(items), number_cell(mean_of(scores), 1, 100), mean("tokens_per_second", 1), "",
       mean("tpf", 2), mean("committed_per_step", 2), mean("redundancy", 2), mean("nfe", 0), ""});
  return line;
}

std::string serve_setting(const result_row& row, const std::string& name) {
  return setting_of(row, "serve." + name).value_or("");
}

std::string arrivals(const result_row& row) {
  const std::string how = serve_setting(row, "arrivals");
  const auto rate = row.value_of("request_rate");
  return how == "closed" || !rate ? how : how + fmt::format(" {:.2f}/s", *rate);
}

}  // namespace

text_table decode_table(const row_list& rows) {
  text_table t =
      table_with({"model | label | family | >items | >score | >tokens_per_second | >speedup | >tpf",
                  ">committed_per_step | >redundancy | >nfe | verdict"});
  const run_key_names shown = varying(rows);
  speed_bases bases(rows);
  verdict_cells verdicts;
  for (const result_row* row : rows) {
    std::vector<table_cell> line = {model_name(*row), method_cell(*row, shown),
                                    row->workload.family, count_cell(row->workload.items)};
    if (is_reportable(*row)) {
      line.insert(line.end(),
                  {score_cell(*row), throughput(*row), bases.speedup(*row),
                   metric_cell(*row, "tpf", 2), metric_cell(*row, "committed_per_step", 2),
                   metric_cell(*row, "redundancy", 2), metric_cell(*row, "nfe", 0)});
    } else {
      line.insert(line.end(), 7, "–");  // no number of a run that may not be reported
    }
    line.emplace_back(verdicts.cell(*row));
    t.add(std::move(line));
  }
  row_list good = rows;
  std::erase_if(good, [](const result_row* r) { return !is_reportable(*r); });
  const auto method = [&](const result_row& r) { return method_cell(r, shown); };
  for (const row_list& group :
       grouped(good, [&](const result_row& r) { return model_name(r) + "\n" + method(r); })) {
    if (group.size() > 1) t.add(mean_line(method(*group.front()), group));
  }
  verdicts.add_notes(t);
  bases.add_notes(t);
  const auto shown_noisy = [](const result_row* r) { return is_reportable(*r) && badly_known(*r); };
  if (std::ranges::any_of(rows, shown_noisy)) {
    t.notes.push_back(fmt::format("!: speed known to worse than {:.0f} %", noisy_from * 100));
  }
  if (std::ranges::any_of(good, [](const result_row* r) { return is_of_one_pass(*r); })) {
    t.notes.emplace_back("one pass: timed once, so the verdict says nothing of the speed");
  }
  return t;
}

text_table serve_table(const row_list& rows) {
  text_table t =
      table_with({"model | label | workload | >requests_finished | arrivals | clock",
                  ">tokens_per_second | >ttfb_p50_seconds | tpot | >tpot_p50_seconds",
                  ">tpot_p90_seconds | >goodput_requests_per_second",
                  ">slo_capacity_requests_per_second | >batch_mean | >chunk_mean | verdict"});
  verdict_cells verdicts;
  for (const result_row* row : rows) {
    std::string method = name_of_row(*row);
    if (row->variation.find("policy=") == std::string::npos) {
      method += " policy=" + serve_setting(*row, "policy");
    }
    std::vector<table_cell> line = {model_name(*row), method, row->workload.family};
    if (is_reportable(*row)) {
      const std::string tpot = "tpot_" + serve_setting(*row, "tpot");
      const auto whole = [&](const char* name) { return metric_cell(*row, name, 0).text; };
      line.insert(line.end(),
                  {whole("requests_finished") + " of " + whole("requests"), arrivals(*row),
                   serve_setting(*row, "clock"), metric_cell(*row, "tokens_per_second", 1),
                   metric_cell(*row, "ttfb_p50_seconds", 2, 1e3), serve_setting(*row, "tpot"),
                   metric_cell(*row, tpot + "_p50_seconds", 2, 1e3),
                   metric_cell(*row, tpot + "_p90_seconds", 2, 1e3),
                   metric_cell(*row, "goodput_requests_per_second", 2),
                   metric_cell(*row, "slo_capacity_requests_per_second", 2),
                   metric_cell(*row, "batch_mean", 1), metric_cell(*row, "chunk_mean", 1)});
    } else {
      line.insert(line.end(), 12, "–");
    }
    line.emplace_back(verdicts.cell(*row));
    t.add(std::move(line));
  }
  verdicts.add_notes(t);
  return t;
}

std::vector<text_table> tables_of(const row_table& rows) {
  row_list closed = rows.all(), served = rows.all();
  const auto is_served = [](const result_row* r) { return r->run.kind == "serve"; };
  std::erase_if(closed, is_served);
  std::erase_if(served, std::not_fn(is_served));
  std::vector<text_table> tables;
  if (!closed.empty() || served.empty()) tables.push_back(decode_table(closed));
  if (!served.empty()) tables.push_back(serve_table(served));
  return tables;
}

// What of a row's machine a reader asks for first.
std::string machine_text(const result_row& row, const char* key) {
  const auto environment = tree_of(row.environment);
  if (!environment.is_object() || !environment.contains(key)) return "";
  const auto& value = environment[key];
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array() || value.empty()) return "";
  const bool named = value[0].is_object() && value[0].value("name", "") != "";
  return named ? value[0]["name"].get<std::string>() : value[0].dump();
}

text_table flat_table(const row_table& rows) {
  std::set<std::string> metrics, params;
  for (const result_row* row : rows.all()) {
    for (const auto& [name, value] : row->metrics) metrics.insert(name);
    for (const auto& [name, value] : row->params) params.insert(name);
  }
  text_table t{
      "point_id | run_id | commit | finished_at | cpu | gpu | model | model_hash | weights",
      "method | label | variation | task | task_hash | items"};
  for (const std::string& name : params) t.column("params." + name, false);
  for (const run_key& key : run_key_list()) t.column(key.name, false);
  for (const char* name : {"verdict", "reason", "checked", "score", "score_exact", "score_n",
                           "score_low", "score_high", "repetitions", "half_width",
                           "tokens_per_second_low", "tokens_per_second_high"}) {
    t.column(name, false);
  }
  for (const std::string& name : metrics) t.column(name, true);
  const auto number = [](std::optional<double> value) {
    return value && std::isfinite(*value) ? to_string(parameter_value(*value)) : "";
  };
  for (const result_row* row : rows.all()) {
    const score_record none;
    const score_record& score = scored(*row) ? *row->score : none;
    const auto of_score = [&](const auto& value) {
      return scored(*row) ? number(static_cast<double>(value)) : "";
    };
    std::vector<table_cell> line = {row->point_id,
                                    row->run_id,
                                    row->source_hash,
                                    row->finished_at,
                                    machine_text(*row, "cpu_model"),
                                    machine_text(*row, "gpus"),
                                    row->model.name,
                                    row->model.hash,
                                    row->model.weights,
                                    row->method,
                                    row->label,
                                    row->variation,
                                    row->workload.family,
                                    row->workload.hash,
                                    std::to_string(row->workload.items)};
    for (const std::string& name : params) {
      const auto found = row->params.find(name);
      line.emplace_back(found == row->params.end() ? "" : to_string(found->second));
    }
    for (const run_key& key : run_key_list()) line.emplace_back(key.text(row->run));
    line.insert(
        line.end(),
        {name_of(row->verdict), row->reason, row->model.checked, of_score(score.mean),
         of_score(score.exact), of_score(score.n), of_score(score.low), of_score(score.high),
         std::to_string(row->samples.seconds.size()), number(row->samples.half_width)});
    // A rate is the inverse of a time: so are the ends of its interval.
    const std::optional<double> speed = row->value_of("tokens_per_second");
    const double half = row->samples.half_width;
    const bool known = speed && row->samples.seconds.size() > 1 && half < 1;
    line.emplace_back(known ? number(*speed / (1 + half)) : "");
    line.emplace_back(known ? number(*speed / (1 - half)) : "");
    for (const std::string& name : metrics) line.emplace_back(number(row->value_of(name)));
    t.add(std::move(line));
  }
  return t;
}

std::string render_rows(const row_table& rows, table_format format) {
  if (format == table_format::csv) return render(flat_table(rows), format);
  if (format != table_format::json) return render(tables_of(rows), format);
  std::string text = "[";
  for (const result_row* row : rows.all()) {
    text += (text.size() > 1 ? ",\n " : "\n ") + to_json_line(*row);
  }
  return text + "\n]\n";
}

}  // namespace unmask
