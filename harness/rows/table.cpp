// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "harness/rows/comparable.h"
#include "harness/rows/estimates.h"
#include "harness/rows/glossary.h"
#include "harness/rows/json_of.h"
#include "harness/rows/scores.h"

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

// Of rows that differ in their seed alone: the mean over seeds.
table_cell metric_cell(const row_list& rows, const std::string& name, int digits) {
  std::vector<double> values;
  for (const result_row* row : rows) {
    if (const auto v = row->value_of(name)) values.push_back(*v);
  }
  return number_cell(mean_of(values), digits);
}

std::optional<interval> interval_over(const std::vector<double>& samples) {
  const double middle = mean_of(samples), spread = deviation_of(samples);
  if (samples.size() < 2 || !(spread > 0)) return {};
  const double half = std::abs(middle) * relative_half_width(samples);
  return interval{middle - half, middle + half};
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

table_cell throughput(const row_list& rows) {
  if (rows.size() == 1) return throughput(*rows.front());
  table_cell cell = metric_cell(rows, "tokens_per_second", 1);
  std::vector<double> speeds;
  for (const result_row* row : rows)
    speeds.push_back(row->value_of("tokens_per_second").value_or(0));
  const double spread = relative_half_width(speeds);
  if (std::isfinite(cell.value) && std::isfinite(spread)) {
    cell.text += fmt::format(" ± {:.1f} %{}", spread * 100, spread > noisy_from ? " !" : "");
    cell.low = cell.value * (1 - spread);
    cell.high = cell.value * (1 + spread);
  }
  return cell;
}

// Over seeds: the mean, and Student's interval of it; where every seed gives one score that of its
// items.
table_cell score_cell(const row_list& rows) {
  std::vector<double> scores;
  for (const result_row* row : rows) {
    if (scored(*row)) scores.push_back(score_with_undecided(*row->score).mean);
  }
  if (scores.empty()) return "–";
  const double mean = mean_of(scores);
  table_cell cell(fmt::format("{:.1f}", mean * 100));
  cell.value = mean * 100;
  const auto over = interval_over(scores);
  const score_record& first = *rows.front()->score;
  const shown_score shown = score_with_undecided(first);
  const auto of_items = shown.undecided ? std::optional{shown.range} : score_range(first);
  if (const auto range = over ? over : of_items) {
    cell.low = std::max(range->low, 0.0) * 100;
    cell.high = std::min(range->high, 1.0) * 100;
    cell.range = fmt::format("{:.0f}, {:.0f}", cell.low, cell.high);
  }
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

std::string name_of_line(const row_list& rows, const run_key_names& shown) {
  const result_row& row = *rows.front();
  const bool seeds = rows.size() > 1;
  std::string text = seeds ? name_of_row(row, {"seed"}) : name_of_row(row);
  const bool named = row.label.find(row.preset) != std::string::npos;
  if (!row.preset.empty() && !named) text.insert(row.label.size(), " (" + row.preset + ")");
  for (const run_key* key : shown) {
    const bool there = row.variation.find(std::string(key->name) + "=") != std::string::npos;
    if (seeds && std::string_view(key->name) == "seed") continue;
    if (!there) text += fmt::format(" {}={}", key->name, key->text(row.run));
  }
  return seeds ? text + fmt::format(", {} seeds", rows.size()) : text;
}

// Names of a table's lines. Where two lines of one task would have one name, as a rule before and after an
// edit, all lines of that name also have the parameters in which these differ.
class line_names {
 public:
  explicit line_names(const std::vector<row_list>& lines) : shown_(varying(rows_of(lines))) {
    std::map<std::string, const result_row*> first;
    for (const row_list& line : lines) {
      const result_row& row = *line.front();
      const std::string name = key_of(line);
      const auto [at, fresh] =
          first.try_emplace(name + row.workload.family + "\n" + machine_class_of(row), &row);
      if (fresh) continue;
      for (const result_row* one : {at->second, &row}) {
        for (const auto& [key, value] : one->params) {
          const std::string other = "params." + key;
          if (setting_of(row, other) != setting_of(*at->second, other)) apart_[name].insert(key);
        }
      }
    }
  }
  std::string operator()(const row_list& line) const {
    std::string text = name_of_line(line, shown_);
    const auto apart = apart_.find(key_of(line));
    if (apart == apart_.end()) return text;
    for (const std::string& key : apart->second) {
      std::string value = setting_of(*line.front(), "params." + key).value_or("absent");
      if (key == "code") value.resize(std::min<std::size_t>(value.size(), 8));  // a SHA-256
      text += " " + key + "=" + value;
    }
    return text;
  }

 private:
  static row_list rows_of(const std::vector<row_list>& lines) {
    row_list all;
    for (const row_list& line : lines) all.insert(all.end(), line.begin(), line.end());
    return all;
  }
  std::string key_of(const row_list& line) const {
    return model_name(*line.front()) + "\n" + line.front()->method + "\n" +
           name_of_line(line, shown_) + "\n";
  }
  run_key_names shown_;
  std::map<std::string, std::set<std::string>> apart_;  // parameters, by model, method and name
};

// What each line's speed is compared with: the first method that ran on the same weights and prompts
// in the same circumstances, on the same machine, seed by seed. Where that is of any seed it is the base of
// all; what is of any seed otherwise is compared with the bases of all seeds.
class speed_bases {
 public:
  explicit speed_bases(const row_list& rows) {
    for (const result_row* row : rows) {
      if (!is_reportable(*row)) continue;
      const result_row* lead = lead_.try_emplace(place_of(*row, {"seed"}), row).first->second;
      if (is_of_any_seed(*row) && !is_of_any_seed(*lead)) continue;
      const auto [at, fresh] =
          first_.try_emplace(place_of(*row), is_of_any_seed(*lead) ? lead : row);
      if (fresh) of_all_seeds_[lead].push_back(at->second);
    }
  }
  table_cell speedup(const row_list& rows) {
    std::vector<double> speeds, bases;
    const result_row* last = nullptr;
    std::string apart;
    for (const result_row* row : rows) {
      for (const result_row* base : bases_of(*row)) {
        if (base == row) return "base";
        const auto a = row->value_of("tokens_per_second"), b = base->value_of("tokens_per_second");
        if (!a || !b) return "–";
        if (apart.empty()) apart = difference_of(*row, *base);
        speeds.push_back(*a);
        bases.push_back(*b);
        last = base;
      }
    }
    const result_row& first = *rows.front();
    const auto ratio =
        speeds.size() > 1 ? std::optional(paired_ratio(speeds, bases)) : speed_over(first, *last);
    if (!ratio) return "–";
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
  static std::string place_of(const result_row& row, const std::set<std::string>& free = {}) {
    return circumstance_of(row, free) + row.model.hash + "\n" + row.workload.hash + "\n" +
           machine_class_of(row);
  }
  row_list bases_of(const result_row& row) const {
    const result_row* lead = lead_.at(place_of(row, {"seed"}));
    if (is_of_any_seed(row) && !is_of_any_seed(*lead)) return of_all_seeds_.at(lead);
    return {first_.at(place_of(row))};
  }

  std::map<std::string, const result_row*> lead_, first_;
  std::map<const result_row*, row_list> of_all_seeds_;
  std::set<std::string> apart_;
};

// Verdicts with their reasons; long ones as footnotes, each once. That there was nothing to score is
// a note without a number, for it is no fault of a row.
class verdict_cells {
 public:
  std::string cell(const result_row& row) {
    const std::string verdict = shown_verdict(row);
    // Of a speed that is badly known the column of speeds says how badly.
    const bool said = row.verdict == row_verdict::noisy &&
                      row.reason.starts_with("the speed is known") &&
                      row.reason.find(';') == std::string::npos && badly_known(row);
    if (row.verdict == row_verdict::pass || row.reason.empty() || said) return verdict;
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

// Means over the tasks that have right answers, each with the same weight. A likelihood of free text is
// another quantity, and speeds, items and forwards differ by task: they are in no mean.
std::vector<table_cell> mean_line(const std::string& method, const std::vector<row_list>& tasks) {
  const auto mean = [&](const char* name, int digits) {
    std::vector<double> values;
    for (const row_list& rows : tasks) {
      if (const double v = metric_cell(rows, name, digits).value; std::isfinite(v))
        values.push_back(v);
    }
    return number_cell(mean_of(values), digits);
  };
  std::vector<double> scores;
  for (const row_list& rows : tasks) scores.push_back(score_cell(rows).value);
  std::vector<table_cell> line = {model_name(*tasks.front().front()), method,
                                  fmt::format("mean of {} tasks", tasks.size())};
  for (table_cell& cell : line) cell.bold = true;
  line.insert(line.end(), {"", number_cell(mean_of(scores), 1), "", "", mean("tpf", 2),
                           mean("committed_per_step", 2), mean("redundancy", 2), "", ""});
  return line;
}

constexpr const char* seeds_note =
    "N seeds: means of rows that differ in their seed alone, 95 % intervals over the seeds";
constexpr const char* any_seed_note =
    "seed=any: nothing in the row reads the seed, so it was measured once for all seeds";
constexpr const char* mean_note =
    "mean of N tasks: of those with right answers, each with the same weight; likelihoods and "
    "speeds are "
    "in no mean";

void add_means(text_table& t, const std::vector<row_list>& lines, const line_names& name_of) {
  std::map<std::string, std::size_t> place;
  std::vector<std::vector<row_list>> groups;
  for (const row_list& rows : lines) {
    const result_row& row = *rows.front();
    if (!is_reportable(row) || !scored(row) || !has_right_answers(row)) continue;
    const std::string key = model_name(row) + "\n" + name_of(rows) + "\n" + machine_class_of(row);
    const auto [at, fresh] = place.emplace(key, groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(rows);
  }
  const std::size_t before = t.rows.size();
  for (const auto& tasks : groups) {
    if (tasks.size() > 1) t.add(mean_line(name_of(tasks.front()), tasks));
  }
  if (t.rows.size() > before) t.notes.emplace_back(mean_note);
}

// Where answers could not be judged, whose and how many.
std::string note_of_undecided(const row_list& rows) {
  std::string text;
  std::size_t left = 0, named = 0;
  for (const result_row* row : rows) {
    if (!scored(*row) || row->score->undecided <= 0) continue;
    const auto score = score_with_undecided(*row->score);
    if (++named > 8) {
      ++left;
      continue;
    }
    text += fmt::format("{}{} of {} of {}, {}", text.empty() ? "" : "; ", score.undecided, score.n,
                        name_of_row(*row), row->workload.family);
  }
  if (text.empty()) return "";
  return "Undecided answers count as wrong, and the score's interval ends where all of them were "
         "right: " +
         text + (left > 0 ? fmt::format("; and {} more rows", left) : "");
}

// Settings that were measured under several seeds for nothing: all of them gave the same answers.
std::string note_of_same_answers(const std::vector<row_list>& lines) {
  std::string text;
  for (const row_list& rows : lines) {
    const result_row& row = *rows.front();
    const bool same = std::ranges::all_of(
        rows, [&](const result_row* r) { return r->answers_hash == row.answers_hash; });
    if (rows.size() < 2 || row.answers_hash.empty() || !same) continue;
    text += (text.empty() ? "" : "; ") + name_of_row(row, {"seed"}) + ", " + row.workload.family;
  }
  return text.empty() ? "" : "The seed changes no answer of: " + text;
}

// A column "machine" behind the model, where rows are of several.
void add_machines(text_table& t, const std::vector<row_list>& lines) {
  const auto machine = [](const row_list& rows) { return machine_class_of(*rows.front()); };
  const bool one = std::ranges::all_of(
      lines, [&](const row_list& rows) { return machine(rows) == machine(lines.front()); });
  if (one) return;
  t.columns.insert(t.columns.begin() + 1, {"machine", false});
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    t.rows[i].insert(t.rows[i].begin() + 1,
                     table_cell(i < lines.size() ? machine_of(*lines[i].front()) : ""));
  }
}

// What a reader of speeds wants to know first, in words: of each model and task the fastest line whose
// score is no worse than the best one's interval says. Too many tasks are no answer.
std::string note_of_fastest(const std::vector<row_list>& lines, const line_names& name_of) {
  constexpr std::size_t most = 6;
  std::map<std::string, std::size_t> place;
  std::vector<std::vector<const row_list*>> tasks;
  for (const row_list& rows : lines) {
    const result_row& row = *rows.front();
    if (!is_reportable(row) || !std::isfinite(score_cell(rows).value)) continue;
    const auto [at, fresh] =
        place.emplace(model_name(row) + "\n" + row.workload.hash, tasks.size());
    if (fresh) tasks.emplace_back();
    tasks[at->second].push_back(&rows);
  }
  std::erase_if(tasks, [](const auto& of_task) { return of_task.size() < 2; });
  if (tasks.empty() || tasks.size() > most) return "";
  std::string text;
  for (const auto& of_task : tasks) {
    const auto score = [](const row_list* rows) { return score_cell(*rows).value; };
    const row_list& best = **std::ranges::max_element(of_task, {}, score);
    const row_list* fastest = nullptr;
    for (const row_list* rows : of_task) {
      if (score(rows) < score_cell(best).low) continue;
      const double speed = throughput(*rows).value;
      if (std::isfinite(speed) && (!fastest || speed > throughput(*fastest).value)) fastest = rows;
    }
    if (!fastest) continue;
    const result_row& row = *fastest->front();
    text += fmt::format("{}{}, {}: {} ({:.1f} tok/s, {:.1f} %)", text.empty() ? "" : "; ",
                        model_name(row), row.workload.family, name_of(*fastest),
                        throughput(*fastest).value, score_cell(*fastest).value);
  }
  return text.empty() ? "" : "Fastest at a score within the best's interval: " + text;
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
  speed_bases bases(rows);
  const std::vector<row_list> lines = over_seeds(rows);
  const line_names name_of(lines);
  verdict_cells verdicts;
  for (const row_list& of_line : lines) {
    const result_row& row = *of_line.front();
    std::vector<table_cell> line = {model_name(row), name_of(of_line), row.workload.family,
                                    count_cell(row.workload.items)};
    if (is_reportable(row)) {
      line.insert(line.end(),
                  {score_cell(of_line), throughput(of_line), bases.speedup(of_line),
                   metric_cell(of_line, "tpf", 2), metric_cell(of_line, "committed_per_step", 2),
                   metric_cell(of_line, "redundancy", 2), metric_cell(of_line, "nfe", 0)});
    } else {
      line.insert(line.end(), 7, "–");  // no number of a run that may not be reported
    }
    const auto worst = std::ranges::find_if(
        of_line, [](const result_row* r) { return r->verdict != row_verdict::pass; });
    line.emplace_back(verdicts.cell(worst == of_line.end() ? row : **worst));
    t.add(std::move(line));
  }
  add_means(t, lines, name_of);
  add_machines(t, lines);
  verdicts.add_notes(t);
  bases.add_notes(t);
  const auto shown_noisy = [](const result_row* r) { return is_reportable(*r) && badly_known(*r); };
  if (std::ranges::any_of(rows, shown_noisy)) {
    t.notes.push_back(fmt::format("!: speed known to worse than {:.0f} %", noisy_from * 100));
  }
  const auto timed_once = [](const result_row* r) {
    return is_reportable(*r) && is_of_one_pass(*r);
  };
  if (std::ranges::any_of(rows, timed_once)) {
    t.notes.emplace_back("one pass: timed once, so the verdict says nothing of the speed");
  }
  if (std::ranges::any_of(lines, [](const row_list& of_line) { return of_line.size() > 1; })) {
    t.notes.emplace_back(seeds_note);
  }
  if (std::ranges::any_of(rows, [](const result_row* r) { return is_of_any_seed(*r); })) {
    t.notes.emplace_back(any_seed_note);
  }
  for (const std::string& note :
       {note_of_same_answers(lines), note_of_undecided(rows), note_of_fastest(lines, name_of)}) {
    if (!note.empty()) t.notes.push_back(note);
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
                           "score_low", "score_high", "score_undecided", "repetitions",
                           "half_width", "tokens_per_second_low", "tokens_per_second_high"}) {
    t.column(name, false);
  }
  for (const std::string& name : metrics) t.column(name, true);
  const auto number = [](std::optional<double> value) {
    return value && std::isfinite(*value) ? to_string(parameter_value(*value)) : "";
  };
  for (const result_row* row : rows.all()) {
    const score_record none;
    const shown_score score = score_with_undecided(scored(*row) ? *row->score : none);
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
    line.insert(line.end(),
                {name_of(row->verdict), row->reason, row->model.checked, of_score(score.mean),
                 of_score(scored(*row) ? row->score->exact : 0), of_score(score.n),
                 of_score(score.range.low), of_score(score.range.high), of_score(score.undecided),
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
