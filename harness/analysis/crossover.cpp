// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/crossover.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "harness/analysis/json_of.h"
#include "harness/base/error.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

// The swept settings without those that make the cell.
std::string method_name(const result_row& row) {
  std::set<std::string> of_cell = {"limit"};
  for (const run_key& key : run_key_list()) of_cell.insert(key.name);
  return name_of_row(row, of_cell);
}

crossover_entry entry_of(const result_row& row) {
  const estimate speed = *estimate_of(row, "tokens_per_second");
  crossover_entry e;
  e.label = method_name(row);
  e.tokens_per_second = speed.value;
  e.range = speed.range;
  if (const auto share = value_in(row, "selection_share")) e.selection_share = share->value;
  if (const auto score = value_in(row, "score")) e.score = score->value;
  e.synthetic = row.model.weights == "synthetic";
  return e;
}

// Rows that cannot be scored (random weights, open questions) count as equal.
double score_of(const result_row& row) {
  return row.score ? row.score->mean : 1;
}

double best_score(const row_list& group) {
  double best = 0;
  for (const result_row* row : group) best = std::max(best, score_of(*row));
  return best;
}

// "ada_dlm 11.2x, 25.0 %": faster than the winner, answers worse.
std::string faster_but_worse(const crossover_cell& c) {
  std::string text;
  for (const crossover_entry& e : c.methods) {
    if (!e.worse || e.tokens_per_second <= c.methods.front().tokens_per_second) continue;
    text += fmt::format("{}{} {:.2f}x, {:.1f} %", text.empty() ? "" : "; ", e.label,
                        e.tokens_per_second / c.methods.front().tokens_per_second,
                        100 * e.score.value_or(0));
  }
  return text.empty() ? "–" : text;
}

}  // namespace

std::vector<crossover_cell> crossover_cells(const frame& all, const crossover_rule& rule) {
  const std::string& base = rule.base;
  const bool across_models = rule.across_models;
  row_list rows = all.reportable();
  std::erase_if(rows, [](const result_row* r) {
    return r->run.kind == "serve" || !estimate_of(*r, "tokens_per_second");
  });
  std::ranges::stable_sort(rows, {}, [](const result_row* r) { return r->position; });
  const std::set<std::string> free =
      across_models ? std::set<std::string>{"model"} : std::set<std::string>{};
  std::vector<crossover_cell> cells;
  bool found = base.empty();
  for (row_list& group :
       grouped(rows, [&](const result_row& r) { return circumstance_of(r, free); })) {
    std::ranges::stable_sort(group, std::ranges::greater{}, [](const result_row* r) {
      return r->value_of("tokens_per_second").value_or(0);
    });
    const auto is_base = [&](const result_row* r) {
      return r->label == base || method_name(*r) == base;
    };
    const auto against = std::ranges::find_if(group, is_base);
    found |= against != group.end();
    const result_row* const held_against = against != group.end() ? *against : nullptr;
    const double asked =
        (held_against ? score_of(*held_against) : best_score(group)) - rule.score_within - 1e-12;
    const auto worse = [&](const result_row* r) { return score_of(*r) < asked; };
    std::stable_partition(group.begin(), group.end(), std::not_fn(worse));
    const result_row& winner = *group.front();
    crossover_cell cell;
    cell.model = across_models ? "" : winner.model.name;
    cell.workload = winner.workload.family;
    cell.batch_size = winner.run.batch_size;
    cell.gen_length = winner.run.gen_length;
    cell.prompt_tokens = winner.value_of("prompt_tokens").value_or(0) /
                         static_cast<double>(std::max<std::int64_t>(winner.workload.items, 1));
    for (const result_row* row : group) {
      cell.methods.push_back(entry_of(*row));
      cell.methods.back().worse = worse(row);
      if (across_models) cell.methods.back().label += " (" + row->model.name + ")";
      if (held_against) {
        cell.methods.back().speedup =
            ratio_of(*row, *held_against, "tokens_per_second", "tokens_per_second");
      }
    }
    if (group.size() > 1 && !cell.methods[1].worse) {
      cell.margin = ratio_of(winner, *group[1], "tokens_per_second", "tokens_per_second");
      cell.clear = cell.margin && cell.margin->range && cell.margin->range->low > 1;
    }
    cells.push_back(std::move(cell));
  }
  if (!found) {
    throw usage_error(unknown_name("base, the label of a row", base, distinct(rows, method_name)));
  }
  std::ranges::stable_sort(cells, [](const crossover_cell& a, const crossover_cell& b) {
    return std::tie(a.model, a.prompt_tokens, a.gen_length, a.batch_size) <
           std::tie(b.model, b.prompt_tokens, b.gen_length, b.batch_size);
  });
  return cells;
}

text_table crossover_table(const std::vector<crossover_cell>& cells) {
  text_table t{"model | task | >prompt | >generated | >batch | winner | >tok/s",
               ">over the second | second | >speed-up over base | >selection share | >score",
               "faster than the winner, but answers worse"};
  std::map<std::string, std::size_t> wins;
  std::size_t unclear = 0;
  bool synthetic = false;
  const auto percent = [](const std::optional<double>& share, int digits) {
    table_cell cell = number_cell(share, digits, 100);
    if (share) cell.text += " %";
    return cell;
  };
  for (const crossover_cell& c : cells) {
    const crossover_entry& w = c.methods.front();
    const bool rivals = c.methods.size() > 1;
    if (rivals)
      ++(!c.margin || c.clear ? wins[w.label] : unclear);  // no margin: nobody else as good
    synthetic |= w.synthetic;
    table_cell speed = number_cell(w.tokens_per_second, 1);
    speed.dagger = w.synthetic;
    t.add({c.model.empty() ? "all" : c.model, c.workload, number_cell(c.prompt_tokens, 0),
           c.gen_length > 0 ? std::to_string(c.gen_length) : "task", count_cell(c.batch_size),
           w.label + (c.clear || !c.margin ? "" : " (not clear)"), speed,
           c.margin ? number_cell(*c.margin, 2) : "–",
           c.margin && rivals ? c.methods[1].label : "–",
           w.speedup ? number_cell(w.speedup->value, 2) : "–", percent(w.selection_share, 2),
           percent(w.score, 1), faster_but_worse(c)});
  }
  std::string counts = fmt::format("{} cells;", cells.size());
  for (const auto& [label, count] : wins) counts += fmt::format(" {} wins {},", label, count);
  t.notes.push_back(counts +
                    fmt::format(" {} not clear: the interval of the margin holds 1", unclear));
  if (synthetic) t.notes.emplace_back("† synthetic: tokens of weights without meaning");
  return t;
}

std::string crossover_json(const std::vector<crossover_cell>& cells) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const crossover_cell& c : cells) {
    nlohmann::ordered_json methods = nlohmann::ordered_json::array();
    for (const crossover_entry& e : c.methods) {
      methods.push_back(
          {{"label", e.label},
           {"tokens_per_second", e.tokens_per_second},
           {"interval", json_of(e.range)},
           {"speedup", e.speedup ? nlohmann::ordered_json(e.speedup->value) : nullptr},
           {"speedup_interval", e.speedup ? json_of(e.speedup->range) : nullptr},
           {"selection_share", json_of(e.selection_share)},
           {"score", json_of(e.score)},
           {"worse", e.worse},
           {"synthetic", e.synthetic}});
    }
    all.push_back({{"model", c.model},
                   {"workload", c.workload},
                   {"prompt_tokens", c.prompt_tokens},
                   {"gen_length", c.gen_length},
                   {"batch_size", c.batch_size},
                   {"winner", c.methods.front().label},
                   {"clear", c.clear},
                   {"margin", c.margin ? nlohmann::ordered_json(c.margin->value) : nullptr},
                   {"margin_interval", c.margin ? json_of(c.margin->range) : nullptr},
                   {"methods", methods}});
  }
  return json_text(all);
}

}  // namespace unmask
