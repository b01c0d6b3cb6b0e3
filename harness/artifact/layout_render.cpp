// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include <fmt/format.h>

#include "harness/artifact/layout.h"
#include "harness/base/error.h"

namespace unmask {
namespace {

std::string escaped_cell(std::string text) {
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) {
    text.insert(i, "\\");
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string ours_name(const laid_out_table& table) {
  return table.scale.empty() ? "measured" : table.scale;
}

struct style {
  const char *bold_open, *bold_close, *range_open, *range_close, *dagger, *none;
};
constexpr style in_markdown = {"**", "**", " [", "]", " †", "–"};
constexpr style in_latex = {"\\textbf{", "}", " {\\scriptsize[", "]}", "$^\\dagger$", "--"};

std::string measured_text(const layout_cell& c, std::int64_t digits, const style& s) {
  if (!c.measured) return s.none;
  std::string text = fmt::format("{:.{}f}", *c.measured, digits);
  if (c.bold) text = s.bold_open + text + s.bold_close;
  if (c.range) {
    text += fmt::format("{}{:.{}f}, {:.{}f}{}", s.range_open, c.range->low, digits, c.range->high,
                        digits, s.range_close);
  }
  return c.dagger ? text + s.dagger : text;
}

// The paper's number as it was printed: no digits added or taken.
std::string published_text(const layout_cell& c, const style& s) {
  return c.published ? fmt::format("{}", c.published->value) : s.none;
}

std::string markdown(const laid_out_table& table) {
  std::string text = "**" + escaped_cell(table.title) + "**\n\n| " + escaped_cell(table.row_header);
  std::string rule = "|---";
  for (const laid_out_column& c : table.columns) {
    if (c.has_published) {
      text += " | " + escaped_cell(c.header) + ", paper";
      rule += "|---:";
    }
    text += " | " + escaped_cell(c.header) + ", " + ours_name(table);
    rule += "|---:";
  }
  text += " |\n" + rule + "|\n";
  for (const laid_out_row& row : table.rows) {
    text += "| " + escaped_cell(row.name);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].has_published) text += " | " + published_text(row.cells[i], in_markdown);
      text += " | " + measured_text(row.cells[i], table.columns[i].digits, in_markdown);
    }
    text += " |\n";
  }
  for (const std::string& note : table.footnotes) text += "\n" + note + "\n";
  return text;
}

std::string latex(const laid_out_table& table) {
  std::string columns = "l", head = latex_text(table.row_header);
  for (const laid_out_column& c : table.columns) {
    if (c.has_published) {
      columns += "r";
      head += " & " + latex_text(c.header + ", paper");
    }
    columns += "r";
    head += " & " + latex_text(c.header + ", " + ours_name(table));
  }
  std::string text = "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n\\caption{" +
                     latex_text(table.title) + "}\n\\begin{tabular}{" + columns + "}\n\\toprule\n" +
                     head + " \\\\\n\\midrule\n";
  for (const laid_out_row& row : table.rows) {
    text += latex_text(row.name);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].has_published) text += " & " + published_text(row.cells[i], in_latex);
      text += " & " + measured_text(row.cells[i], table.columns[i].digits, in_latex);
    }
    text += " \\\\\n";
  }
  text += "\\bottomrule\n\\end{tabular}\n";
  for (const std::string& note : table.footnotes) {
    text += "\\par{\\footnotesize " + latex_text(note) + "}\n";
  }
  return text + "\\end{table}\n";
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv(const laid_out_table& table) {
  std::string text =
      "row,column,metric,across,scale,measured,low,high,n,n_unit,synthetic_or_analytic,published,"
      "published_unit,published_source\n";
  for (const laid_out_row& row : table.rows) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const laid_out_column& column = table.columns[i];
      const layout_cell& c = row.cells[i];
      if (!c.measured && !c.published) continue;
      const auto number = [](std::optional<double> v) { return v ? fmt::format("{}", *v) : ""; };
      const std::vector<std::string> fields = {
          row.name,
          column.header,
          column.metric,
          column.across,
          table.scale,
          number(c.measured),
          c.range ? fmt::format("{}", c.range->low) : "",
          c.range ? fmt::format("{}", c.range->high) : "",
          c.measured ? std::to_string(c.n) : "",
          c.measured ? c.unit_of_n : "",
          c.measured ? (c.dagger ? "yes" : "no") : "",
          c.published ? fmt::format("{}", c.published->value) : "",
          c.published ? c.published->unit : "",
          c.published ? c.published->source : ""};
      for (std::size_t f = 0; f < fields.size(); ++f) text += (f ? "," : "") + csv_field(fields[f]);
      text += "\n";
    }
  }
  return text;
}

}  // namespace

layout_format parse_layout_format(const std::string& name) {
  const std::vector<std::string> names = {"md", "csv", "latex"};
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw usage_error(unknown_name("format of a layout", name, names));
  return static_cast<layout_format>(found - names.begin());
}

std::string render_layout(const laid_out_table& table, layout_format format) {
  if (format == layout_format::csv) return csv(table);
  return format == layout_format::md ? markdown(table) : latex(table);
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
