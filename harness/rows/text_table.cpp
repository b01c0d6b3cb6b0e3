// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/text_table.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/rows/json_of.h"

namespace unmask {
namespace {

// One line in which nothing ends the cell or begins a tag of HTML.
std::string markdown_text(const std::string& raw) {
  const std::string text = shown_line(raw);
  std::string out;
  std::size_t slashes = 0;  // directly before this sign
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    const bool tag = c == '<' && (std::isalpha(static_cast<unsigned char>(next)) != 0 ||
                                  next == '/' || next == '!' || next == '?');
    // Backslashes before a bar would escape the one that escapes the bar.
    if (c == '|') out.append(slashes + 1, '\\');
    if (tag) out += '\\';
    out += c;
    slashes = c == '\\' ? slashes + 1 : 0;
  }
  return out;
}

bool is_number(const std::string& text) {
  const char* begin = text.data() + (text.starts_with("+") ? 1 : 0);
  const char* end = text.data() + text.size();
  double value = 0;
  const auto [stop, failed] = std::from_chars(begin, end, value);
  return begin < end && *begin != '+' && stop == end &&
         (failed == std::errc{} || failed == std::errc::result_out_of_range);
}

// A text that a spreadsheet would take for a formula gets the apostrophe by which spreadsheets know
// a text (OWASP, "CSV Injection").
std::string csv_field(const std::string& raw) {
  std::string text = shown(raw);
  const bool formula =
      !raw.empty() && std::string_view("=+-@\t\r").find(raw[0]) != std::string::npos;
  if (formula && !is_number(raw)) text.insert(0, "'");
  if (text.find_first_of(",\"\n\t") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// "**1.6** [1.5, 1.7] †"; an empty cell of a bold line stays empty.
std::string markdown_cell(const table_cell& c) {
  std::string text = markdown_text(c.text);
  if (c.bold && !text.empty()) text = "**" + text + "**";
  if (!c.range.empty()) text += " [" + c.range + "]";
  return c.dagger ? text + " †" : text;
}

std::string latex_cell(const table_cell& c) {
  std::string text = latex_text(c.text);
  if (c.bold && !text.empty()) text = "\\textbf{" + text + "}";
  if (!c.range.empty()) text += " {\\scriptsize[" + c.range + "]}";
  return c.dagger ? text + "$^\\dagger$" : text;
}

std::string markdown(const text_table& t) {
  std::string text = t.title.empty() ? "" : "**" + markdown_text(t.title) + "**\n\n";
  std::string rule = "|";
  const auto line = [](std::string& into, const std::string& cell) {
    into += cell.empty() ? " |" : " " + cell + " |";
  };
  text += "|";
  for (const table_column& c : t.columns) {
    line(text, markdown_text(c.header));
    rule += c.right ? "---:|" : "---|";
  }
  text += "\n" + rule + "\n";
  for (const auto& row : t.rows) {
    text += "|";
    for (const table_cell& c : row) line(text, markdown_cell(c));
    text += "\n";
  }
  for (const std::string& note : t.notes) text += "\n" + shown(note) + "\n";
  return text;
}

std::string csv(const text_table& t) {
  std::string text;
  for (std::size_t i = 0; i < t.columns.size(); ++i) {
    text += (i ? "," : "") + csv_field(t.columns[i].header);
  }
  text += "\n";
  for (const auto& row : t.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i ? "," : "") + csv_field(row[i].text);
    text += "\n";
  }
  return text;
}

std::string latex(const text_table& t) {
  std::string columns, head;
  for (const table_column& c : t.columns) {
    head += (columns.empty() ? "" : " & ") + latex_text(c.header);
    columns += c.right ? "r" : "l";
  }
  std::string text = "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n\\caption{" +
                     latex_text(t.title) + "}\n\\begin{tabular}{" + columns + "}\n\\toprule\n" +
                     head + " \\\\\n\\midrule\n";
  for (const auto& row : t.rows) {
    // Behind "\\\\" a bracket is a distance and a star a command.
    if (!row.empty() && row.front().text.find_first_of("[*") == 0) text += "{}";
    for (std::size_t i = 0; i < row.size(); ++i) text += (i ? " & " : "") + latex_cell(row[i]);
    text += " \\\\\n";
  }
  text += "\\bottomrule\n\\end{tabular}\n";
  for (const std::string& note : t.notes) {
    text += "\\par{\\footnotesize " + latex_text(note) + "}\n";
  }
  return text + "\\end{table}\n";
}

}  // namespace

table_cell number_cell(std::optional<double> value, int digits, double factor,
                       const std::optional<interval>& range) {
  if (!value || !std::isfinite(*value)) return "–";
  table_cell cell(fmt::format("{:.{}f}", *value * factor, digits));
  cell.value = *value * factor;
  if (range) {
    cell.low = range->low * factor;
    cell.high = range->high * factor;
    cell.range = fmt::format("{:.{}f}, {:.{}f}", cell.low, digits, cell.high, digits);
  }
  return cell;
}

table_cell count_cell(std::int64_t value) {
  table_cell cell(std::to_string(value));
  cell.value = static_cast<double>(value);
  return cell;
}

text_table::text_table(std::initializer_list<const char*> headers) {
  for (const std::string_view several : headers) {
    for (std::size_t at = 0; at <= several.size();) {
      const std::size_t end = std::min(several.find(" | ", at), several.size());
      const bool right = several.substr(at).starts_with(">");
      column(std::string(several.substr(at + right, end - at - right)), right);
      at = end + 3;
    }
  }
}

table_format parse_table_format(const std::string& name, const std::vector<std::string>& known) {
  const std::vector<std::string> all = {"md", "csv", "latex", "json"};
  const auto found = std::ranges::find(all, name);
  if (found == all.end() || std::ranges::find(known, name) == known.end()) {
    throw usage_error(unknown_name("format", name, known));
  }
  return static_cast<table_format>(found - all.begin());
}

std::string render(const text_table& table, table_format format) {
  switch (format) {
    case table_format::md:
      return markdown(table);
    case table_format::csv:
      return csv(table);
    case table_format::latex:
      return latex(table);
    case table_format::json:
      return json_text(json_of(table));
  }
  return "";
}

std::string render(const std::vector<text_table>& tables, table_format format) {
  if (format == table_format::json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const text_table& t : tables) all.push_back(json_of(t));
    return json_text(all);
  }
  std::string text;
  for (const text_table& t : tables) text += (text.empty() ? "" : "\n") + render(t, format);
  return text;
}

std::string latex_text(const std::string& raw) {
  const std::string text = shown_line(raw);
  // Bytes of UTF-8 signs that plain LaTeX does not set, and its own special characters.
  static const std::vector<std::pair<std::string, std::string>> signs = {
      {"\\", "\\textbackslash{}"},
      {"{", "\\{"},
      {"}", "\\}"},
      {"&", "\\&"},
      {"%", "\\%"},
      {"$", "\\$"},
      {"#", "\\#"},
      {"_", "\\_"},
      {"~", "\\textasciitilde{}"},
      {"^", "\\textasciicircum{}"},
      {"<", "$<$"},
      {">", "$>$"},
      {"†", "$^\\dagger$"},
      {"–", "--"},
      {"±", "$\\pm$"},
      {"α", "$\\alpha$"},
      {"×", "$\\times$"},
      {"↑", "$\\uparrow$"},
      {"↓", "$\\downarrow$"}};
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto found = std::ranges::find_if(signs, [&](const auto& sign) {
      return text.compare(i, sign.first.size(), sign.first) == 0;
    });
    if (found == signs.end()) {
      out += text[i];
      ++i;
    } else {
      out += found->second;
      i += found->first.size();
    }
  }
  return out;
}

}  // namespace unmask
