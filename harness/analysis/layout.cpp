// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/process.h"
#include "harness/base/toml_reader.h"

namespace unmask {
namespace {

// A string, or an array of strings.
std::vector<std::string> one_or_more(toml_reader& r, const std::string& key) {
  std::vector<std::string> all;
  const toml::node* node = r.find(key);
  if (node && node->is_string()) {
    all.emplace_back();
    r.text(key, all.back());
  } else {
    r.texts(key, all);
  }
  return all;
}

void finish_column(const toml_reader& r, layout_column& c) {
  if (c.metric.empty()) throw usage_error(r.where() + ": a column of [layout] needs `metric`");
  if (c.header.empty()) c.header = c.metric;
  if (!c.best.empty()) r.choice("`best` of a column", c.best, {"max", "min"});
}

layout_column read_column(toml_reader& r) {
  layout_column c;
  r.text("metric", c.metric);
  r.text("header", c.header);
  read_selector(r, "where", c.where);
  r.text("published", c.published);
  r.text("published_metric", c.published_metric);
  r.real("factor", c.factor, -1e12, 1e12);
  r.integer("digits", c.digits, 0, 12);
  r.text("best", c.best);
  finish_column(r, c);
  return c;
}

void read_columns(toml_reader& r, paper_layout& layout) {
  const toml::node* node = r.find("columns");
  const bool names = node && node->is_array() && !node->as_array()->empty() &&
                     node->as_array()->front().is_string();
  if (!names) {
    r.tables("columns", [&](toml_reader& t) { layout.columns.push_back(read_column(t)); });
  } else {
    std::vector<std::string> metrics;
    r.texts("columns", metrics);
    for (const std::string& metric : metrics) {
      layout.columns.push_back({});
      layout.columns.back().metric = metric;
      finish_column(r, layout.columns.back());
    }
  }
  if (layout.columns.empty()) throw usage_error(r.where() + ": [layout] needs `columns`");
}

void read_layout_table(toml_reader& r, paper_layout& layout) {
  layout.row_keys = one_or_more(r, "rows");
  if (layout.row_keys.empty()) layout.row_keys = {"label"};
  r.text("row_header", layout.row_header);
  r.text("across", layout.across);
  for (const std::string& key : layout.row_keys) check_row_key(key, r.where() + ": `rows`");
  if (!layout.across.empty()) check_row_key(layout.across, r.where() + ": `across`");
  read_columns(r, layout);
  r.table("published_rows", [&](toml_reader& t) {
    t.leaves([&](const std::string& ours, const toml::node& node) {
      const auto* text = node.as_string();
      if (!text) t.fail(node, "`published_rows." + ours + "` takes a string");
      layout.published_rows[ours] = text->get();
    });
  });
  if (r.find("base")) {
    layout.base.emplace();
    read_selector(r, "base", *layout.base);
  }
  const bool speedup = std::ranges::any_of(
      layout.columns, [](const layout_column& c) { return c.metric == "speedup"; });
  if (speedup && !layout.base) {
    throw usage_error(r.where() + ": a column \"speedup\" needs [layout.base]");
  }
}

std::string row_name(const result_row& row, const std::vector<std::string>& keys) {
  std::string name;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string value = setting_of(row, keys[i]).value_or("–");
    name += i == 0 ? value : fmt::format(" {}={}", keys[i].substr(keys[i].rfind('.') + 1), value);
  }
  return name;
}

std::optional<estimate> value_of_row(const result_row& row, const layout_column& column,
                                     const paper_layout& layout, const row_list& rows,
                                     bool& dagger) {
  const std::string metric = column.metric == "speedup" ? "tokens_per_second" : column.metric;
  const auto plain = value_in(row, metric);
  if (!plain) return {};
  dagger |= plain->from == origin::analytic || plain->from == origin::synthetic ||
            (row.model.weights == "synthetic" && metric != "score");
  if (column.metric != "speedup") return estimate_of(row, metric);
  std::set<std::string> free;
  for (const auto& [key, values] : layout.base->keys) free.insert(key);
  for (const result_row* base : selected(rows, *layout.base)) {
    if (circumstance_of(*base, free) == circumstance_of(row, free)) {
      return ratio_of(row, *base, metric, metric);
    }
  }
  return {};
}

layout_cell cell_of(const row_list& chosen, const layout_column& column, const paper_layout& layout,
                    const row_list& rows) {
  layout_cell cell;
  std::vector<estimate> found;
  for (const result_row* row : chosen) {
    const auto e = value_of_row(*row, column, layout, rows, cell.dagger);
    if (e && std::isfinite(e->value)) found.push_back(*e);
    const std::string& harness = row->workload.benchmark.harness;
    if (column.metric == "score" && cell.harness.find(harness) == std::string::npos) {
      cell.harness += (cell.harness.empty() ? "" : ", ") + harness;
    }
  }
  if (found.empty()) return cell;
  if (found.size() == 1) {
    const estimate& e = found.front();
    cell.measured = e.value * column.factor;
    cell.n = e.n;
    cell.unit_of_n = e.unit_of_n;
    const bool exact = e.range && e.range->low == e.range->high;
    if (e.range && !exact) {
      cell.range = interval{e.range->low * column.factor, e.range->high * column.factor};
    }
    return cell;
  }
  std::vector<double> values;
  for (const estimate& e : found) values.push_back(e.value);
  cell.measured = mean_of(values) * column.factor;
  cell.n = values.size();
  cell.unit_of_n = "rows";
  return cell;
}

std::string filled(std::string text, const std::string& value) {
  const std::size_t at = text.find("{}");
  return at == std::string::npos ? text : text.replace(at, 2, value);
}

std::string paper_row(const paper_layout& layout, const std::string& ours) {
  const auto found = layout.published_rows.find(ours);
  return found == layout.published_rows.end() ? ours : found->second;
}

void add_published(laid_out_table& table, const paper_layout& layout) {
  if (!layout.published) return;
  const std::size_t across = table.columns.size() / layout.columns.size();
  const auto look_up = [&](const std::string& row, std::size_t column) {
    const layout_column& c = layout.columns[column / across];
    const published_value* v =
        c.published.empty() ? nullptr
                            : layout.published->find(
                                  layout.id, row, filled(c.published, table.columns[column].across),
                                  c.published_metric);
    return v ? std::optional(*v) : std::nullopt;
  };
  const auto fill = [&](laid_out_row& row, const std::string& name) {
    bool any = false;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      layout_cell& cell = row.cells[i];
      cell.published = look_up(name, i);
      // Scores of two harnesses answer different questions: they never stand side by side.
      if (cell.published && !cell.harness.empty() && cell.harness != layout.published->harness) {
        cell.published.reset();
        cell.other_harness = true;
      }
      any |= row.cells[i].published.has_value();
      table.columns[i].has_published |= row.cells[i].published.has_value();
    }
    return any;
  };
  std::set<std::string> shown;
  for (laid_out_row& row : table.rows) {
    const std::string name = paper_row(layout, row.name);
    fill(row, name);
    shown.insert(name);
  }
  for (const published_value& v : layout.published->values) {
    if (v.artifact != layout.id || !shown.insert(v.row).second) continue;
    laid_out_row row{v.row, std::vector<layout_cell>(table.columns.size())};
    if (fill(row, v.row)) table.rows.push_back(std::move(row));
  }
}

void mark_best(laid_out_table& table, const paper_layout& layout) {
  const std::size_t across = table.columns.size() / layout.columns.size();
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string& best = layout.columns[i / across].best;
    if (best.empty()) continue;
    std::optional<double> top;
    for (const laid_out_row& row : table.rows) {
      const auto& v = row.cells[i].measured;
      if (v && (!top || (best == "max" ? *v > *top : *v < *top))) top = v;
    }
    for (laid_out_row& row : table.rows) {
      row.cells[i].bold = top && row.cells[i].measured == top;
    }
  }
}

void add_footnotes(laid_out_table& table, const paper_layout& layout, const row_list& rows) {
  const std::vector<std::string> models =
      distinct(rows, [](const auto& r) { return r.model.name; });
  const std::vector<std::string> devices =
      distinct(rows, [](const auto& r) { return r.run.device; });
  const bool tiny = std::ranges::any_of(
      rows, [](const result_row* r) { return r->model.parameters < 100'000'000; });
  table.footnotes.push_back(fmt::format("Measured here: {} on {}{}.", joined(models),
                                        joined(devices),
                                        tiny ? "; tiny models, not the paper's, so compare "
                                               "directions, not sizes"
                                             : ""));
  if (std::ranges::any_of(rows, [](const result_row* r) {
        return r->environment.find(shared_machine_note) != std::string::npos;
      })) {
    table.footnotes.push_back(std::string("Read no speed here: ") + shared_machine_note + ".");
  }
  for (const std::string& judge : distinct(rows, [](const auto& r) { return r.workload.judge; })) {
    if (judge.empty()) continue;
    table.footnotes.push_back("Score of free text: its likelihood per token under " + judge + ".");
  }
  bool range = false, dagger = false, mean = false, published = false;
  std::string other_harness;
  std::size_t least = std::numeric_limits<std::size_t>::max(), most = 0;
  for (const laid_out_row& row : table.rows) {
    for (const layout_cell& c : row.cells) {
      dagger |= c.dagger && c.measured;
      mean |= c.unit_of_n == "rows";
      published |= c.published.has_value();
      if (c.other_harness) other_harness = c.harness;
      if (!c.range) continue;
      range = true;
      least = std::min(least, c.n);
      most = std::max(most, c.n);
    }
  }
  if (range) {
    table.footnotes.push_back(
        least == most ? fmt::format("In brackets: 95 % interval, n = {}.", least)
                      : fmt::format("In brackets: 95 % interval, n from {} to {}.", least, most));
  }
  if (mean) table.footnotes.push_back("Without interval: mean over several rows, or counted.");
  if (dagger) {
    table.footnotes.push_back(
        "† synthetic or analytic: from weights without meaning, or computed from shapes.");
  }
  if (!other_harness.empty()) {
    const std::string theirs = layout.published->harness;
    table.footnotes.push_back(fmt::format(
        "The paper's score is left out where ours is of another harness ({}; the paper: {}).",
        other_harness, theirs.empty() ? "not stated" : theirs));
  }
  if (published) {
    table.footnotes.push_back(
        fmt::format("paper: as printed in {}{}.", layout.published->title,
                    layout.published->arxiv.empty() ? "" : ", arXiv " + layout.published->arxiv));
  }
}

}  // namespace

void parse_layout(toml_reader& artifact, paper_layout& layout) {
  artifact.table("layout", [&](toml_reader& t) { read_layout_table(t, layout); });
  if (layout.row_header.empty()) layout.row_header = "Method";
}

laid_out_table lay_out(const paper_layout& layout, const frame& all) {
  if (layout.columns.empty()) {
    throw usage_error("the artifact " + layout.id + " has no [layout]");
  }
  row_list rows = all.reportable();
  std::ranges::stable_sort(rows, {}, [](const result_row* r) { return r->position; });
  const auto across_of = [&](const result_row& r) {
    return layout.across.empty() ? "" : setting_of(r, layout.across).value_or("");
  };
  const auto name_of = [&](const result_row& r) { return row_name(r, layout.row_keys); };
  laid_out_table table;
  table.title = layout.title;
  table.row_header = layout.row_header;
  table.scale = layout.scale;
  std::vector<std::string> across = distinct(rows, across_of);
  std::ranges::stable_sort(across, {}, [](const std::string& v) {
    return std::pair(v.size(), v);  // numbers by value: shorter first
  });
  if (across.empty()) across = {""};
  for (const layout_column& c : layout.columns) {
    for (const std::string& value : across) {
      const std::string tail =
          layout.across.empty()
              ? ""
              : fmt::format(", {} {}", layout.across.substr(layout.across.rfind('.') + 1), value);
      table.columns.push_back({c.header + tail, c.metric, value, c.digits, false});
    }
  }
  for (const row_list& of_row : grouped(rows, name_of)) {
    laid_out_row line{name_of(*of_row.front()), {}};
    for (const layout_column& c : layout.columns) {
      for (const std::string& value : across) {
        row_list chosen = selected(of_row, c.where);
        std::erase_if(chosen, [&](const result_row* r) { return across_of(*r) != value; });
        line.cells.push_back(cell_of(chosen, c, layout, rows));
      }
    }
    table.rows.push_back(std::move(line));
  }
  add_published(table, layout);
  mark_best(table, layout);
  add_footnotes(table, layout, rows);
  return table;
}

text_table table_of(const laid_out_table& laid) {
  text_table t;
  t.title = laid.title;
  t.notes = laid.footnotes;
  t.column(laid.row_header, false);
  const std::string ours = laid.scale.empty() ? "measured" : laid.scale;
  // A column that no row fills is a footnote: beside those that are filled it hides them.
  std::vector<bool> shown;
  std::vector<std::string> empty;
  for (std::size_t i = 0; i < laid.columns.size(); ++i) {
    const auto fills = [&](const laid_out_row& r) { return r.cells[i].measured.has_value(); };
    shown.push_back(std::ranges::any_of(laid.rows, fills));
    if (!shown[i]) empty.push_back(laid.columns[i].header);
  }
  if (empty.size() == shown.size()) {
    shown.assign(shown.size(), true);
  } else if (!empty.empty()) {
    t.notes.push_back("Measured in no row: " + joined(empty, "; ") + ".");
  }
  for (std::size_t i = 0; i < laid.columns.size(); ++i) {
    const laid_out_column& c = laid.columns[i];
    if (c.has_published) t.column(c.header + ", paper", true);
    if (shown[i]) t.column(c.header + ", " + ours, true);
  }
  for (const laid_out_row& row : laid.rows) {
    std::vector<table_cell> cells = {row.name};
    for (std::size_t i = 0; i < laid.columns.size(); ++i) {
      const layout_cell& c = row.cells[i];
      if (laid.columns[i].has_published) {  // as it was printed: no digits added or taken
        cells.emplace_back(c.published ? fmt::format("{}", c.published->value) : "–");
        if (c.published) cells.back().value = c.published->value;
      }
      if (!shown[i]) continue;
      cells.push_back(
          number_cell(c.measured, static_cast<int>(laid.columns[i].digits), 1, c.range));
      cells.back().bold = c.bold;
      cells.back().dagger = c.dagger && c.measured;
    }
    t.add(std::move(cells));
  }
  return t;
}

text_table cells_of(const laid_out_table& laid) {
  text_table t{"row | column | metric | across | scale | measured | low | high | n | n_unit",
               "synthetic_or_analytic | published | published_unit | published_source"};
  for (const laid_out_row& row : laid.rows) {
    for (std::size_t i = 0; i < laid.columns.size(); ++i) {
      const laid_out_column& column = laid.columns[i];
      const layout_cell& c = row.cells[i];
      if (!c.measured && !c.published) continue;
      const auto number = [](std::optional<double> v) { return v ? fmt::format("{}", *v) : ""; };
      t.add({row.name, column.header, column.metric, column.across, laid.scale, number(c.measured),
             c.range ? fmt::format("{}", c.range->low) : "",
             c.range ? fmt::format("{}", c.range->high) : "", c.measured ? std::to_string(c.n) : "",
             c.measured ? c.unit_of_n : "", c.measured ? (c.dagger ? "yes" : "no") : "",
             c.published ? fmt::format("{}", c.published->value) : "",
             c.published ? c.published->unit : "", c.published ? c.published->source : ""});
    }
  }
  return t;
}

std::string render_layout(const laid_out_table& table, table_format format) {
  return render(format == table_format::csv ? cells_of(table) : table_of(table), format);
}

}  // namespace unmask
