// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/ablation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/analysis/json_of.h"
#include "harness/base/error.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

std::string circumstances(const result_row& row) {
  return circumstance_of(row, {});
}

// A sweep over run settings is the same for the whole group; what is left tells the points apart.
const result_row* base_of(const result_row& row, const row_list& group, const std::string& wanted) {
  const result_row* first = nullptr;
  for (const result_row* candidate : group) {
    if (!wanted.empty()) {
      if (candidate->label == wanted || name_of_row(*candidate) == wanted) return candidate;
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
  line.setting = name_of_row(row);
  line.base = name_of_row(base);
  line.paired =
      row.run_id == base.run_id && row.samples.seconds.size() == base.samples.seconds.size();
  line.speed.value = std::nan("");
  line.speed.how = "not measured";
  if (const auto e = ratio_of(row, base, "tokens_per_second", "tokens_per_second")) line.speed = *e;
  line.speed_verdict = ratio_verdict(line.speed, margins.speed);
  line.score = score_difference_of(row, base);
  compare_items(line, row, base);
  if (line.score) {
    const bool identical = line.same_answers && *line.same_answers == line.items;
    line.score_verdict = identical ? verdict::same : score_verdict(*line.score, margins.score);
  }
  return line;
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
                     verdict::ambiguous};
  effect.speed = paired_ratio(logs, std::vector<double>(logs.size(), 1.0));
  effect.speed_verdict = ratio_verdict(effect.speed, margins.speed);
  return effect;
}

}  // namespace

verdict ratio_verdict(const estimate& ratio, double margin) {
  return against_margin(ratio.range, {1 / (1 + margin), 1 + margin}, verdict::slower,
                        verdict::faster);
}

verdict score_verdict(const estimate& difference, double margin) {
  return against_margin(difference.range, {-margin, margin}, verdict::worse, verdict::better);
}

std::vector<ablation_line> paired_comparison(const frame& rows, const ablation_margins& margins,
                                             const std::string& base) {
  std::vector<ablation_line> lines;
  bool found = base.empty();
  for (const row_list& group : grouped(rows.reportable(), circumstances)) {
    for (const result_row* row : group) {
      const result_row* against = base_of(*row, group, base);
      found |= against != nullptr;
      if (against && against != row) lines.push_back(compared(*row, *against, margins));
    }
  }
  if (!found) {
    throw usage_error(unknown_name(
        "base, the label of a row", base,
        distinct(rows.reportable(), [](const result_row& r) { return name_of_row(r); })));
  }
  return lines;
}

std::vector<main_effect> main_effects(const frame& rows, const ablation_margins& margins) {
  std::vector<main_effect> effects;
  for (const row_list& group : grouped(rows.reportable(), circumstances)) {
    std::map<std::string, std::vector<factorial_row>> labels;
    for (const result_row* row : group) {
      const auto parts = variation_of(*row);
      labels[row->label].push_back({row, {parts.begin(), parts.end()}});
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

std::vector<text_table> ablation_tables(const std::vector<ablation_line>& lines,
                                        const std::vector<main_effect>& effects,
                                        const ablation_margins& margins) {
  text_table t{"model | task | >batch | setting | against | >speed ratio | speed | >per item",
               ">items faster | >score difference, points | score | >McNemar p | >same answers",
               ">n"};
  const auto ratio = [](const estimate& e) {
    table_cell cell = number_cell(e, 3);
    if (!e.range && std::isfinite(e.value)) cell.text += " (no interval)";
    return cell;
  };
  const auto of_items = [](std::size_t part, std::size_t whole) {
    return table_cell(fmt::format("{} of {}", part, whole));
  };
  bool unpaired = false;
  for (const ablation_line& l : lines) {
    unpaired |= !l.paired;
    table_cell score = "–";
    if (l.score) {
      score = number_cell(*l.score, 1, 100);
      score.text = fmt::format("{:+.1f}", l.score->value * 100);
    }
    t.add({l.model, l.workload, count_cell(l.batch_size), l.setting, l.base, ratio(l.speed),
           name_of(l.speed_verdict) + std::string(l.paired ? "" : " (unpaired)"),
           l.item_speed ? ratio(*l.item_speed) : "–",
           l.item_speed ? of_items(l.faster_items, l.items) : "–", score,
           l.score_verdict ? name_of(*l.score_verdict) : "–", number_cell(l.p, 3),
           l.same_answers ? of_items(*l.same_answers, l.items) : "–",
           count_cell(static_cast<std::int64_t>(l.speed.n))});
  }
  std::vector<text_table> tables = {std::move(t)};
  if (!effects.empty()) {
    text_table e{"model | task | >batch | method | factor | level | against | >settings",
                 ">speed ratio | speed"};
    e.title = "Main effects: one factor's level against its first, averaged over the other factors";
    for (const main_effect& m : effects) {
      e.add({m.model, m.workload, count_cell(m.batch_size), m.label, m.factor, m.level,
             m.first_level, count_cell(static_cast<std::int64_t>(m.settings)), ratio(m.speed),
             name_of(m.speed_verdict)});
    }
    tables.push_back(std::move(e));
  }
  tables.back().notes.push_back(fmt::format(
      "SAME: the 95 % interval lies within the margin, {:.3g} % of speed and {:.3g} points of "
      "score; FASTER, SLOWER, BETTER, WORSE: wholly beyond it; otherwise AMBIGUOUS. n: "
      "repetitions; per item: ratio of the items' times, interval over items.",
      margins.speed * 100, margins.score * 100));
  if (unpaired) {
    tables.back().notes.emplace_back(
        "unpaired: not measured in turn; unmask run --paired measures them so.");
  }
  return tables;
}

std::string ablation_json(const std::vector<ablation_line>& lines,
                          const std::vector<main_effect>& effects,
                          const ablation_margins& margins) {
  nlohmann::ordered_json out = {{"speed_margin", margins.speed},
                                {"score_margin", margins.score},
                                {"comparisons", nlohmann::ordered_json::array()},
                                {"main_effects", nlohmann::ordered_json::array()}};
  for (const ablation_line& l : lines) {
    out["comparisons"].push_back({{"model", l.model},
                                  {"workload", l.workload},
                                  {"batch_size", l.batch_size},
                                  {"setting", l.setting},
                                  {"base", l.base},
                                  {"paired", l.paired},
                                  {"speed", json_of(l.speed)},
                                  {"speed_verdict", name_of(l.speed_verdict)},
                                  {"item_speed", json_of(l.item_speed)},
                                  {"faster_items", l.faster_items},
                                  {"score", json_of(l.score)},
                                  {"score_verdict", json_of(l.score_verdict)},
                                  {"mcnemar_p", json_of(l.p)},
                                  {"same_answers", json_of(l.same_answers)},
                                  {"items", l.items}});
  }
  for (const main_effect& e : effects) {
    out["main_effects"].push_back({{"model", e.model},
                                   {"workload", e.workload},
                                   {"batch_size", e.batch_size},
                                   {"label", e.label},
                                   {"factor", e.factor},
                                   {"level", e.level},
                                   {"first_level", e.first_level},
                                   {"settings", e.settings},
                                   {"speed", json_of(e.speed)},
                                   {"verdict", name_of(e.speed_verdict)}});
  }
  return json_text(out);
}

}  // namespace unmask
