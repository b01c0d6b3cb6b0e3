// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A paper's table from our rows: the paper's numbers and ours side by side.
//
//   [layout]            rows = KEY or [KEYS], row_header, across = KEY, columns = [METRICS] or
//   [[layout.columns]]  metric, header, where = {...}, published, published_metric, factor, digits,
//                       best = "max" | "min"
//   [layout.published_rows]  our row = the paper's row;  [layout.base] selector that "speedup"
//                       divides by
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/analysis/estimates.h"
#include "harness/analysis/frame.h"
#include "harness/analysis/published.h"
#include "harness/analysis/text_table.h"

namespace unmask {

struct layout_column {
  std::string metric;            // of a row, "score", "speedup", "probes.PATH", "calibration.PATH"
  std::string header;            // default: the metric
  row_selector where;            // rows that fit are averaged
  std::string published;         // column of the paper; "{}" becomes the value of `across`
  std::string published_metric;  // where the paper's cell holds several
  double factor = 1;             // of our value: 100 for shares shown in per cent
  std::int64_t digits = 1;
  std::string best;  // max, min: in bold; empty: none
};

struct paper_layout {
  std::string id, title, scale;  // of the artifact
  std::vector<std::string> row_keys;
  std::string row_header, across;
  std::vector<layout_column> columns;  // none: the file has no [layout]
  std::map<std::string, std::string> published_rows;
  std::optional<row_selector> base;
  std::optional<published_paper> published;
};

// [layout] of an artifact's table, where there is one, over what `layout` says already. Usage errors
// that name file, line and key.
void parse_layout(toml_reader& artifact, paper_layout& layout);

struct layout_cell {
  std::optional<double> measured;  // times the column's factor, as is the interval
  std::optional<interval> range;
  std::size_t n = 0;  // samples behind the interval, or rows averaged
  std::string unit_of_n;
  bool dagger = false;  // synthetic or analytic
  bool bold = false;
  std::string harness;         // of a benchmark's score; several: joined
  bool other_harness = false;  // the paper has a score here, of another harness
  std::optional<published_value> published;
};

struct laid_out_column {
  std::string header, metric, across;  // across: value of that key; empty: none
  std::int64_t digits = 1;
  bool has_published = false;
};

struct laid_out_row {
  std::string name;
  std::vector<layout_cell> cells;
};

struct laid_out_table {
  std::string title, row_header, scale;
  std::vector<laid_out_column> columns;
  std::vector<laid_out_row> rows;  // ours in the order of the plan, then the paper's alone
  std::vector<std::string> footnotes;
};

// Of rows with the same point id the last counts; rows that are not PASS or NOT_VERIFIED show
// nothing. A row's name is the first key's value and " key=value" of the others.
laid_out_table lay_out(const paper_layout& layout, const frame& rows);

// As the paper arranges it, for md, latex and json.
text_table table_of(const laid_out_table& table);
// One line per cell, for csv.
text_table cells_of(const laid_out_table& table);
std::string render_layout(const laid_out_table& table, table_format format);

}  // namespace unmask
