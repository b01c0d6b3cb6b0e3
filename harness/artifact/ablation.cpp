// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/artifact/ablation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace unmask {
namespace {

std::string verdict_of(const std::optional<interval>& range, double low, double high,
                       const char* below, const char* above) {
  if (!range || !std::isfinite(range->low) || !std::isfinite(range->high)) return "AMBIGUOUS";
  if (range->low >= low && range->high <= high) return "SAME";
  if (range->low > high) return above;
  if (range->high < low) return below;
  return "AMBIGUOUS";
}

std::string full_name(const result_row& row) {
  return row.label + (row.variation.empty() ? "" : " " + row.variation);
}

using row_list = std::vector<const result_row*>;

// Rows that may be compared, groups in the order of the plan.
std::vector<row_list> comparable(const std::vector<result_row>& rows) {
  std::map<std::string, std::size_t> place;
  std::vector<row_list> groups;
  for (const result_row& row : rows) {
    const auto [at, fresh] = place.emplace(circumstance_of(row, {}), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(&row);
  }
  for (row_list& group : groups) {
    std::ranges::stable_sort(group, {}, [](const result_row* r) { return r->position; });
  }
  return groups;
}

// A sweep over run settings is the same for the whole group; what is left tells the points apart.
const result_row* base_of(const result_row& row, const row_list& group, const std::string& wanted) {
  const result_row* first = nullptr;
  for (const result_row* candidate : group) {
    if (!wanted.empty()) {
      if (candidate->label == wanted || full_name(*candidate) == wanted) return candidate;
      continue;
    }
    if (candidate->label != row.label) continue;
    if (candidate->variation.empty()) return candidate;
    if (!first) first = candidate;
  }
  return first;
}

std::size_t right_only(const item_records& a, const item_records& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a.exact[i] && !b.exact[i];
  return count;
}

void compare_items(ablation_line& line, const result_row& row, const result_row& base) {
  if (row.items.empty() || row.items.id != base.items.id) return;
  line.items = row.items.size();
  line.same_answers = 0;
  for (std::size_t i = 0; i < row.items.size(); ++i) {
    *line.same_answers += row.items.answer_hash[i] == base.items.answer_hash[i];
  }
  if (row.run.batch_size == 1) {
    std::vector<double> ours, theirs;
    for (std::size_t i = 0; i < row.items.size(); ++i) {
      ours.push_back(mean_of(row.items.seconds[i]));
      theirs.push_back(mean_of(base.items.seconds[i]));
      line.faster_items += ours.back() < theirs.back();
    }
    line.item_speed = paired_ratio(theirs, ours);
    line.item_speed->unit_of_n = "items";
  }
  if (line.score)
    line.p = mcnemar_p(right_only(row.items, base.items), right_only(base.items, row.items));
}

ablation_line compared(const result_row& row, const result_row& base,
                       const ablation_margins& margins) {
  ablation_line line;
  line.model = row.model.name;
  line.workload = row.workload.family;
  line.batch_size = row.run.batch_size;
  line.setting = full_name(row);
  line.base = full_name(base);
  line.paired =
      row.run_id == base.run_id && row.samples.seconds.size() == base.samples.seconds.size();
  line.speed.value = std::nan("");
  line.speed.how = "not measured";
  if (const auto e = ratio_of(row, base, "tokens_per_second", "tokens_per_second")) line.speed = *e;
  line.speed_verdict = ratio_verdict(line.speed, margins.speed);
  line.score = score_difference_of(row, base);
  compare_items(line, row, base);
  line.score_text = "–";
  if (line.score) {
    const bool identical = line.same_answers && *line.same_answers == line.items;
    line.score_text = identical ? "SAME" : score_verdict(*line.score, margins.score);
  }
  return line;
}

// "a=1 b=2" -> {a: 1, b: 2}, as the plan writes it.
std::map<std::string, std::string> factors_of(const std::string& variation) {
  std::map<std::string, std::string> factors;
  for (std::size_t begin = 0; begin < variation.size();) {
    const std::size_t end = std::min(variation.find(' ', begin), variation.size());
    const std::string part = variation.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    if (equals != std::string::npos) factors[part.substr(0, equals)] = part.substr(equals + 1);
    begin = end + 1;
  }
  return factors;
}

struct factorial_row {
  const result_row* row;
  std::map<std::string, std::string> factors;
};

std::optional<main_effect> effect_of(const std::vector<factorial_row>& rows,
                                     const std::string& factor, const std::string& first,
                                     const std::string& level, const ablation_margins& margins) {
  std::vector<double> logs;  // sums over the other factors' settings, per repetition
  std::size_t settings = 0;
  for (const factorial_row& base : rows) {
    if (base.factors.at(factor) != first) continue;
    auto wanted = base.factors;
    wanted[factor] = level;
    for (const factorial_row& other : rows) {
      if (other.factors != wanted) continue;
      const std::vector<double>& a = base.row->samples.seconds;
      const std::vector<double>& b = other.row->samples.seconds;
      if (a.size() != b.size() || base.row->run_id != other.row->run_id) return {};
      logs.resize(a.size());
      const double tokens = std::log(other.row->value_of("output_tokens").value_or(1) /
                                     base.row->value_of("output_tokens").value_or(1));
      for (std::size_t r = 0; r < a.size(); ++r) logs[r] += tokens + std::log(a[r] / b[r]);
      ++settings;
    }
  }
  if (settings == 0) return {};
  for (double& v : logs) v = std::exp(v / static_cast<double>(settings));
  const result_row& any = *rows.front().row;
  main_effect effect{any.model.name,
                     any.workload.family,
                     any.label,
                     any.run.batch_size,
                     factor,
                     level,
                     first,
                     settings,
                     {},
                     ""};
  effect.speed = paired_ratio(logs, std::vector<double>(logs.size(), 1.0));
  effect.verdict = ratio_verdict(effect.speed, margins.speed);
  return effect;
}

std::string range_text(const std::optional<interval>& range, double factor, int digits) {
  if (!range) return " (no interval)";
  return fmt::format(" [{:.{}f}, {:.{}f}]", range->low * factor, digits, range->high * factor,
                     digits);
}

std::string ratio_cell(const estimate& e) {
  return std::isfinite(e.value) ? fmt::format("{:.3f}", e.value) + range_text(e.range, 1, 3) : "–";
}

std::string cell(std::string text) {
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) {
    text.insert(i, "\\");
  }
  return text;
}

nlohmann::ordered_json of_estimate(const estimate& e) {
  nlohmann::ordered_json out = {{"value", nullptr}, {"interval", nullptr}};
  if (std::isfinite(e.value)) out["value"] = e.value;
  if (e.range) out["interval"] = {e.range->low, e.range->high};
  out["n"] = e.n;
  out["n_unit"] = e.unit_of_n;
  out["how"] = e.how;
  return out;
}

}  // namespace

std::string ratio_verdict(const estimate& ratio, double margin) {
  return verdict_of(ratio.range, 1 / (1 + margin), 1 + margin, "SLOWER", "FASTER");
}

std::string score_verdict(const estimate& difference, double margin) {
  return verdict_of(difference.range, -margin, margin, "WORSE", "BETTER");
}

std::vector<ablation_line> paired_comparison(const std::vector<result_row>& all,
                                             const ablation_margins& margins,
                                             const std::string& base) {
  const std::vector<result_row> rows = believable_rows(all);
  std::vector<ablation_line> lines;
  bool found = base.empty();
  for (const row_list& group : comparable(rows)) {
    for (const result_row* row : group) {
      const result_row* against = base_of(*row, group, base);
      found |= against != nullptr;
      if (against && against != row) lines.push_back(compared(*row, *against, margins));
    }
  }
  if (!found) {
    std::vector<std::string> known;
    for (const result_row& row : rows) known.push_back(full_name(row));
    throw usage_error(unknown_name("base, the label of a row", base, known));
  }
  return lines;
}

std::vector<main_effect> main_effects(const std::vector<result_row>& all,
                                      const ablation_margins& margins) {
  const std::vector<result_row> rows = believable_rows(all);
  std::vector<main_effect> effects;
  for (const row_list& group : comparable(rows)) {
    std::map<std::string, std::vector<factorial_row>> labels;
    for (const result_row* row : group) {
      labels[row->label].push_back({row, factors_of(row->variation)});
    }
    for (const auto& [label, members] : labels) {
      // Levels by factor, in the order of the plan; run settings do not vary within a group.
      std::vector<std::pair<std::string, std::vector<std::string>>> levels;
      for (const auto& [name, value] : members.front().factors) levels.push_back({name, {}});
      bool same_factors = true;
      for (const factorial_row& m : members) {
        same_factors &= m.factors.size() == levels.size();
        for (auto& [name, values] : levels) {
          const auto at = m.factors.find(name);
          if (at == m.factors.end()) {
            same_factors = false;
          } else if (std::ranges::find(values, at->second) == values.end()) {
            values.push_back(at->second);
          }
        }
      }
      std::erase_if(levels, [](const auto& l) { return l.second.size() < 2; });
      if (!same_factors || levels.size() < 2) continue;
      for (const auto& [name, values] : levels) {
        for (std::size_t i = 1; i < values.size(); ++i) {
          if (auto e = effect_of(members, name, values[0], values[i], margins)) {
            effects.push_back(std::move(*e));
          }
        }
      }
    }
  }
  return effects;
}

std::string ablation_markdown(const std::vector<ablation_line>& lines,
                              const std::vector<main_effect>& effects,
                              const ablation_margins& margins) {
  std::string text =
      "| model | task | batch | setting | against | speed ratio | speed | per item | items faster "
      "| "
      "score difference, points | score | McNemar p | same answers | n |\n"
      "|---|---|---:|---|---|---:|---|---:|---:|---:|---|---:|---:|---:|\n";
  bool unpaired = false;
  for (const ablation_line& l : lines) {
    unpaired |= !l.paired;
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {}{} | {} | {} | {} | {} | {} | {} | {} |\n",
        cell(l.model), cell(l.workload), l.batch_size, cell(l.setting), cell(l.base),
        ratio_cell(l.speed), l.speed_verdict, l.paired ? "" : " (unpaired)",
        l.item_speed ? ratio_cell(*l.item_speed) : "–",
        l.item_speed ? fmt::format("{} of {}", l.faster_items, l.items) : "–",
        l.score ? fmt::format("{:+.1f}", l.score->value * 100) + range_text(l.score->range, 100, 1)
                : "–",
        l.score_text, l.p ? fmt::format("{:.3f}", *l.p) : "–",
        l.same_answers ? fmt::format("{} of {}", *l.same_answers, l.items) : "–", l.speed.n);
  }
  if (!effects.empty()) {
    text +=
        "\nMain effects: one factor's level against its first, averaged over the other factors.\n\n"
        "| model | task | batch | method | factor | level | against | settings | speed ratio | "
        "speed |\n|---|---|---:|---|---|---|---|---:|---:|---|\n";
    for (const main_effect& e : effects) {
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", cell(e.model),
                      cell(e.workload), e.batch_size, cell(e.label), cell(e.factor), cell(e.level),
                      cell(e.first_level), e.settings, ratio_cell(e.speed), e.verdict);
    }
  }
  text += fmt::format(
      "\nSAME: the 95 % interval lies within the margin, {:.3g} % of speed and {:.3g} points of "
      "score; FASTER, SLOWER, BETTER, WORSE: wholly beyond it; otherwise AMBIGUOUS. n: "
      "repetitions; per item: ratio of the items' times, interval over items.\n",
      margins.speed * 100, margins.score * 100);
  if (unpaired) text += "unpaired: not measured in turn; unmask ablation measures them so.\n";
  return text;
}

std::string ablation_json(const std::vector<ablation_line>& lines,
                          const std::vector<main_effect>& effects,
                          const ablation_margins& margins) {
  nlohmann::ordered_json out = {{"speed_margin", margins.speed}, {"score_margin", margins.score}};
  out["comparisons"] = nlohmann::ordered_json::array();
  for (const ablation_line& l : lines) {
    nlohmann::ordered_json line = {{"model", l.model},
                                   {"workload", l.workload},
                                   {"batch_size", l.batch_size},
                                   {"setting", l.setting},
                                   {"base", l.base},
                                   {"paired", l.paired},
                                   {"speed", of_estimate(l.speed)},
                                   {"speed_verdict", l.speed_verdict},
                                   {"item_speed", nullptr},
                                   {"faster_items", l.faster_items},
                                   {"score", nullptr},
                                   {"score_verdict", nullptr},
                                   {"mcnemar_p", nullptr},
                                   {"same_answers", nullptr},
                                   {"items", l.items}};
    if (l.score) {
      line["score"] = of_estimate(*l.score);
      line["score_verdict"] = l.score_text;
    }
    if (l.item_speed) line["item_speed"] = of_estimate(*l.item_speed);
    if (l.p) line["mcnemar_p"] = *l.p;
    if (l.same_answers) line["same_answers"] = *l.same_answers;
    out["comparisons"].push_back(line);
  }
  out["main_effects"] = nlohmann::ordered_json::array();
  for (const main_effect& e : effects) {
    out["main_effects"].push_back({{"model", e.model},
                                   {"workload", e.workload},
                                   {"batch_size", e.batch_size},
                                   {"label", e.label},
                                   {"factor", e.factor},
                                   {"level", e.level},
                                   {"first_level", e.first_level},
                                   {"settings", e.settings},
                                   {"speed", of_estimate(e.speed)},
                                   {"verdict", e.verdict}});
  }
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace unmask
