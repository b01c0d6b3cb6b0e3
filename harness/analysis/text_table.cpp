// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/text_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "harness/analysis/json_of.h"
#include "harness/base/error.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

std::string markdown_text(std::string text) {
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) {
    text.insert(i, "\\");
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// A spreadsheet takes what begins with = + - @ for a formula: unless it is a number, an apostrophe before
// it says that it is text.
std::string csv_field(const std::string& field) {
  const bool formula = !field.empty() && std::strchr("=+-@\t\r", field[0]) != nullptr;
  double number = 0;
  const auto [end, failed] = std::from_chars(field.data(), field.data() + field.size(), number);
  const bool is_number = failed == std::errc{} && end == field.data() + field.size();
  const std::string text = (formula && !is_number ? "'" : "") + field;
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
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
  for (const std::string& note : t.notes) text += "\n" + note + "\n";
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

std::string latex_text(const std::string& text) {
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
      out += text[i] == '\n' ? ' ' : text[i];
      ++i;
    } else {
      out += found->second;
      i += found->first.size();
    }
  }
  return out;
}

}  // namespace unmask
