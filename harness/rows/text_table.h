// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A table, and its four writers. Whatever computes something fills one of these; nothing else writes
// Markdown, CSV or LaTeX, and every sign that a format takes for its own is escaped in one place.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/rows/statistics.h"

namespace unmask {

struct table_cell {
  std::string text;   // as shown, without markup
  std::string range;  // ends of an interval as shown, "1.60, 1.66"; empty: none
  bool bold = false;
  bool dagger = false;  // synthetic or analytic
  // The number itself and its interval, for readers of JSON; NaN: none.
  double value = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();

  table_cell() = default;
  table_cell(std::string shown) : text(std::move(shown)) {}  // NOLINT: cells are written as text
  table_cell(const char* shown) : text(shown) {}             // NOLINT
};

// "–", or the number times `factor` with so many digits and its interval behind it.
table_cell number_cell(std::optional<double> value, int digits, double factor = 1,
                       const std::optional<interval>& range = {});
table_cell count_cell(std::int64_t value);

struct table_column {
  std::string header;
  bool right = false;  // numbers
};

struct text_table {
  std::string title;  // above it, bold; empty: none
  std::vector<table_column> columns;
  std::vector<std::vector<table_cell>> rows;
  std::vector<std::string> notes;  // below it, a paragraph each

  text_table() = default;
  // "model | >batch": two columns, the second of numbers.
  explicit text_table(std::initializer_list<const char*> headers);
  void add(std::vector<table_cell> row) { rows.push_back(std::move(row)); }
  void column(const std::string& header, bool right) { columns.push_back({header, right}); }
};

enum class table_format : std::uint8_t { md, csv, latex, json };
// Usage error with the nearest of `known` for any other name.
table_format parse_table_format(const std::string& name, const std::vector<std::string>& known = {
                                                             "md", "csv", "latex", "json"});

// Control characters are written out (base/output.h), and cells that a spreadsheet would take for a
// formula begin with an apostrophe in CSV; numbers stay numbers.
// md: title, table, notes. csv: the header, then the rows; notes are left out. latex: a table
// environment (booktabs). json: {title, columns: [{header, right}], rows: [[{text, range, bold,
// dagger, value, low, high}]], notes}, keys without content left out.
std::string render(const text_table& table, table_format format);
// Several in one document; json: an array.
std::string render(const std::vector<text_table>& tables, table_format format);

// Text in LaTeX: every special character escaped.
std::string latex_text(const std::string& text);

}  // namespace unmask
