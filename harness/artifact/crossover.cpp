// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/artifact/crossover.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace unmask {
namespace {

// The swept settings without those that make the cell.
std::string method_name(const result_row& row) {
  std::string kept;
  for (std::size_t begin = 0; begin < row.variation.size();) {
    const std::size_t end = std::min(row.variation.find(' ', begin), row.variation.size());
    const std::string part = row.variation.substr(begin, end - begin);
    const bool of_cell = std::ranges::any_of(
        std::vector<std::string>{
            "batch_size=", "gen_length=", "seed=", "device=", "format=", "limit="},
        [&](const std::string& key) { return part.starts_with(key); });
    if (!of_cell) kept += " " + part;
    begin = end + 1;
  }
  return row.label + kept;
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

double best_score(const std::vector<const result_row*>& group) {
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

std::string percent(const std::optional<double>& share, int digits) {
  return share ? fmt::format("{:.{}f} %", *share * 100, digits) : "–";
}

std::string cell_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

nlohmann::ordered_json of_range(const std::optional<interval>& range) {
  if (!range) return nullptr;
  return {range->low, range->high};
}

}  // namespace

std::vector<crossover_cell> crossover_cells(const std::vector<result_row>& all,
                                            const crossover_rule& rule) {
  const std::string& base = rule.base;
  const bool across_models = rule.across_models;
  std::vector<result_row> rows = believable_rows(all);
  std::erase_if(rows, [](const result_row& r) {
    return r.run.kind == "serve" || !estimate_of(r, "tokens_per_second");
  });
  std::ranges::stable_sort(rows, {}, &result_row::position);
  const std::set<std::string> free =
      across_models ? std::set<std::string>{"model"} : std::set<std::string>{};
  std::map<std::string, std::size_t> place;
  std::vector<std::vector<const result_row*>> groups;
  for (const result_row& row : rows) {
    const auto [at, fresh] = place.emplace(circumstance_of(row, free), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(&row);
  }
  std::vector<crossover_cell> cells;
  bool found = base.empty();
  for (auto& group : groups) {
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
    std::vector<std::string> known;
    for (const result_row& row : rows) known.push_back(method_name(row));
    throw usage_error(unknown_name("base, the label of a row", base, known));
  }
  std::ranges::stable_sort(cells, [](const crossover_cell& a, const crossover_cell& b) {
    return std::tie(a.model, a.prompt_tokens, a.gen_length, a.batch_size) <
           std::tie(b.model, b.prompt_tokens, b.gen_length, b.batch_size);
  });
  return cells;
}

std::string crossover_markdown(const std::vector<crossover_cell>& cells) {
  std::string text =
      "| model | task | prompt | generated | batch | winner | tok/s | over the second | second | "
      "speed-up over base | selection share | score | faster than the winner, but answers worse |\n"
      "|---|---|---:|---:|---:|---|---:|---:|---|---:|---:|---:|---|\n";
  std::map<std::string, std::size_t> wins;
  std::size_t unclear = 0;
  bool synthetic = false;
  for (const crossover_cell& c : cells) {
    const crossover_entry& w = c.methods.front();
    std::string margin = "–", second = "–";
    if (c.margin && c.methods.size() > 1) {
      margin = fmt::format("{:.2f}", c.margin->value);
      if (c.margin->range) {
        margin += fmt::format(" [{:.2f}, {:.2f}]", c.margin->range->low, c.margin->range->high);
      }
      second = c.methods[1].label;
      ++(c.clear ? wins[w.label] : unclear);
    } else if (c.methods.size() > 1) {
      ++wins[w.label];  // nobody else answers as well
    }
    synthetic |= w.synthetic;
    text += fmt::format(
        "| {} | {} | {:.0f} | {} | {} | {}{} | {:.1f}{} | {} | {} | {} | {} | {} | {} |\n",
        cell_text(c.model.empty() ? "all" : c.model), cell_text(c.workload), c.prompt_tokens,
        c.gen_length > 0 ? std::to_string(c.gen_length) : "task", c.batch_size, cell_text(w.label),
        c.clear || !c.margin ? "" : " (not clear)", w.tokens_per_second, w.synthetic ? " †" : "",
        margin, cell_text(second), w.speedup ? fmt::format("{:.2f}", w.speedup->value) : "–",
        percent(w.selection_share, 2), percent(w.score, 1), cell_text(faster_but_worse(c)));
  }
  text += fmt::format("\n{} cells;", cells.size());
  for (const auto& [label, count] : wins) text += fmt::format(" {} wins {},", label, count);
  text += fmt::format(" {} not clear: the interval of the margin holds 1\n", unclear);
  if (synthetic) text += "† synthetic: tokens of weights without meaning\n";
  return text;
}

std::string crossover_jsonl(const std::vector<crossover_cell>& cells) {
  std::string text;
  for (const crossover_cell& c : cells) {
    nlohmann::ordered_json out = {{"kind", "crossover"},
                                  {"model", c.model},
                                  {"workload", c.workload},
                                  {"prompt_tokens", c.prompt_tokens},
                                  {"gen_length", c.gen_length},
                                  {"batch_size", c.batch_size},
                                  {"winner", c.methods.front().label},
                                  {"clear", c.clear},
                                  {"margin", nullptr},
                                  {"margin_interval", nullptr}};
    if (c.margin) {
      out["margin"] = c.margin->value;
      out["margin_interval"] = of_range(c.margin->range);
    }
    out["methods"] = nlohmann::ordered_json::array();
    for (const crossover_entry& e : c.methods) {
      nlohmann::ordered_json method = {{"label", e.label},
                                       {"tokens_per_second", e.tokens_per_second},
                                       {"interval", of_range(e.range)},
                                       {"speedup", nullptr},
                                       {"speedup_interval", nullptr},
                                       {"selection_share", nullptr},
                                       {"score", nullptr},
                                       {"worse", e.worse},
                                       {"synthetic", e.synthetic}};
      if (e.speedup) {
        method["speedup"] = e.speedup->value;
        method["speedup_interval"] = of_range(e.speedup->range);
      }
      if (e.selection_share) method["selection_share"] = *e.selection_share;
      if (e.score) method["score"] = *e.score;
      out["methods"].push_back(method);
    }
    text += out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace unmask
