// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <tuple>
#include <utility>

#include "harness/base/display.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/rows/comparable.h"

namespace unmask {
namespace {

constexpr int narrowest = 6;  // columns that a cell of text is cut to

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

using cells = std::vector<std::string>;

// A line of a Markdown table without its bars; "\|" is a bar of a text.
cells cells_of(const std::string& line) {
  cells all;
  std::string cell;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == '|' || line[i + 1] == '\\')) {
      cell += line[++i];
    } else if (line[i] == '|') {
      const std::size_t first = cell.find_first_not_of(' ');
      const std::size_t last = cell.find_last_not_of(' ');
      all.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return all;
}

bool is_rule(const std::string& line) {
  return line.starts_with("|-") && line.find_first_not_of("|-:") == std::string::npos;
}

struct shape {
  std::vector<int> widths;
  std::vector<bool> right;
  std::size_t shown = 0;  // columns
};

int total(const shape& s) {
  int sum = 0;
  for (std::size_t i = 0; i < s.shown; ++i) sum += s.widths[i] + (i > 0 ? 2 : 0);
  return sum;
}

// Makes the widest column of text narrower, one column at a time; then drops columns.
void fit(shape& s, int columns) {
  while (total(s) > columns) {
    std::size_t widest = s.shown;
    for (std::size_t i = 0; i < s.shown; ++i) {
      if (s.right[i] || s.widths[i] <= narrowest) continue;
      if (widest == s.shown || s.widths[i] > s.widths[widest]) widest = i;
    }
    if (widest < s.shown) {
      --s.widths[widest];
    } else if (s.shown > 1) {
      --s.shown;
    } else {
      s.widths[0] = std::max(columns, 1);
      return;
    }
  }
}

// A heading as two lines, broken after a slash or at a blank so that the wider one is as narrow as it
// can be.
std::pair<std::string, std::string> halves(const std::string& heading) {
  std::pair<std::string, std::string> best = {heading, ""};
  int narrow = display_width(heading);
  for (std::size_t i = 0; i < heading.size(); ++i) {
    if (heading[i] != '/' && heading[i] != ' ') continue;
    const std::string first = heading.substr(0, i + (heading[i] == '/' ? 1 : 0));
    const std::string second = heading.substr(i + 1);
    const int width = std::max(display_width(first), display_width(second));
    if (width < narrow) {
      narrow = width;
      best = {first, second};
    }
  }
  return best;
}

// Breaks the headings of columns of numbers that are wider than their cells into two lines.
void break_headings(std::vector<cells>& rows, shape& s) {
  cells second(rows.front().size());
  for (std::size_t i = 0; i < second.size(); ++i) {
    if (!s.right[i]) continue;
    int body = 0;
    for (std::size_t r = 1; r < rows.size(); ++r) {
      if (i < rows[r].size()) body = std::max(body, display_width(rows[r][i]));
    }
    std::string& first = rows.front()[i];
    if (display_width(first) > body) std::tie(first, second[i]) = halves(first);
    s.widths[i] = std::max({body, display_width(first), display_width(second[i])});
  }
  rows.insert(rows.begin() + 1, second);
}

std::string padded(const std::string& text, int width, bool right) {
  const std::string cut = cut_to_width(text, width);
  const std::string blanks(static_cast<std::size_t>(std::max(0, width - display_width(cut))), ' ');
  return right ? blanks + cut : cut + blanks;
}

std::string fitted_table(const std::vector<std::string>& lines, int columns) {
  std::vector<cells> rows;
  shape s;
  for (const std::string& line : lines) {
    if (is_rule(line)) {
      for (const std::string& c : cells_of(line)) s.right.push_back(c.ends_with(':'));
      continue;
    }
    rows.push_back(cells_of(line));
    s.widths.resize(std::max(s.widths.size(), rows.back().size()), 0);
    for (std::size_t i = 0; i < rows.back().size(); ++i) {
      s.widths[i] = std::max(s.widths[i], display_width(rows.back()[i]));
    }
  }
  s.right.resize(s.widths.size(), false);
  s.shown = s.widths.size();
  std::size_t heads = 1;  // lines of headings
  if (total(s) > columns && !rows.empty()) {
    break_headings(rows, s);
    heads = 2;
  }
  fit(s, columns);
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const cells& row = rows[r];
    std::string line;
    for (std::size_t i = 0; i < std::min(s.shown, row.size()); ++i) {
      line += (i > 0 ? "  " : "") + padded(row[i], s.widths[i], s.right[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (r == 0 || r + 1 != heads || !line.empty()) text += line + "\n";
    if (r + 1 != heads) continue;
    for (std::size_t i = 0; i < s.shown; ++i) {
      text += (i > 0 ? "  " : "") + std::string(static_cast<std::size_t>(s.widths[i]), '-');
    }
    text += "\n";
  }
  if (s.shown < s.widths.size()) {
    text += fmt::format("({} more columns: widen the terminal, or write to a file)\n",
                        s.widths.size() - s.shown);
  }
  return text;
}

struct sigaction before[3];
constexpr int endings[] = {SIGINT, SIGTERM, SIGHUP};

void leave_and_die(int signal) {
  constexpr char leave[] = "\x1b[0m\x1b[?25h\x1b[?1049l";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, leave, sizeof leave - 1);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

bool output_is_terminal() {
  return isatty(STDOUT_FILENO) == 1 && variable("TERM") != "dumb";
}

terminal_size size_of_terminal() {
  winsize size{};
  terminal_size t;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return t;
  if (size.ws_col > 0) t.columns = size.ws_col;
  if (size.ws_row > 0) t.rows = size.ws_row;
  return t;
}

option color_option() {
  return {"color", std::string("auto"),
          "colour: auto (on a terminal, unless $NO_COLOR is set), always or never"};
}

bool with_color(const command_line& line) {
  const std::string asked = line.text("color");
  find_known("value of --color", asked, {"auto", "always", "never"});
  if (asked != "auto") return asked == "always";
  return output_is_terminal() && variable("NO_COLOR").empty();
}

std::string fitted(const std::string& markdown, int columns) {
  std::istringstream in(markdown);
  std::string text;
  std::vector<std::string> table;
  const auto flush = [&] {
    // A table has a rule under its head; other lines with a bar are text.
    if (table.size() >= 2 && is_rule(table[1])) {
      text += fitted_table(table, columns);
    } else {
      for (const std::string& line : table) text += line + "\n";
    }
    table.clear();
  };
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("|")) {
      table.push_back(line);
      continue;
    }
    flush();
    text += line + "\n";
  }
  flush();
  return text;
}

void print_tables(const std::string& markdown) {
  const std::string clean = shown(markdown);
  write_output(output_is_terminal() ? fitted(clean, size_of_terminal().columns) : clean);
}

void tell_unfit(const row_table& rows) {
  const std::string why = unfit_sentence(rows.all());
  if (!why.empty()) tell("note: {}\n", why);
}

alternate_screen::alternate_screen() {
  for (int i = 0; i < 3; ++i) {
    struct sigaction how {};
    how.sa_handler = leave_and_die;
    sigaction(endings[i], &how, &before[i]);
  }
  draw_output("\x1b[?1049h\x1b[?25l\x1b[H\x1b[J");
}

alternate_screen::~alternate_screen() {
  draw_output("\x1b[0m\x1b[?25h\x1b[?1049l");
  for (int i = 0; i < 3; ++i) sigaction(endings[i], &before[i], nullptr);
}

}  // namespace unmask
