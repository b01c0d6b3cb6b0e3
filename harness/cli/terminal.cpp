// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/base/display.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/rows/comparable.h"
#include "harness/rows/glossary.h"

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

// A table on its way to a terminal; the package fits its own by the same rules
// (harness/python/unmask/tables/terminal.py), and one test holds both.
struct fitting {
  cells name;    // whole headings
  cells head;    // as they are shown
  cells second;  // the second line of a heading that is broken
  std::vector<bool> right;
  std::vector<cells> rows;
  std::size_t left_out = 0;     // columns
  std::vector<int> width = {};  // of each column

  std::size_t columns() const { return head.size(); }
  void measure(std::size_t i) {
    width[i] = std::max(display_width(head[i]), display_width(second[i]));
    for (const cells& row : rows) width[i] = std::max(width[i], display_width(row[i]));
  }
  int total() const {
    int sum = 0;
    for (std::size_t i = 0; i < columns(); ++i) sum += width[i] + (i > 0 ? 2 : 0);
    return sum;
  }
  void take_out(std::size_t i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    name.erase(name.begin() + at);
    head.erase(head.begin() + at);
    second.erase(second.begin() + at);
    right.erase(right.begin() + at);
    width.erase(width.begin() + at);
    for (cells& row : rows) row.erase(row.begin() + at);
  }
};

// What is equal in all rows, as lines of a heading; such columns are taken out, the last one of text
// is not.
std::string taken_headings(fitting& t, int columns) {
  std::string text, line;
  if (t.rows.size() < 2) return text;
  for (std::size_t i = 0; i < t.columns();) {
    std::string value;
    const bool equal = std::ranges::all_of(t.rows, [&](const cells& row) {
      if (value.empty()) value = row[i];
      return row[i].empty() || row[i] == value;
    });
    const auto texts = std::ranges::count(t.right, false);
    if (!equal || t.rows.front()[i].empty() || t.columns() < 2 || (!t.right[i] && texts < 2)) {
      ++i;
      continue;
    }
    const std::string part = t.head[i] + " " + value;
    if (!line.empty() && display_width(line) + 3 + display_width(part) > columns) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " \u00b7 ") + part;
    t.take_out(i);
  }
  return line.empty() ? text : text + line + "\n\n";
}

// Two lines of a heading, broken after a slash or at a blank so that the wider one is as narrow as it
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

// Breaks the headings of numbers that are wider than their cells.
void break_headings(fitting& t) {
  for (std::size_t i = 0; i < t.columns(); ++i) {
    int body = 0;
    for (const cells& row : t.rows) body = std::max(body, display_width(row[i]));
    if (!t.right[i] || display_width(t.head[i]) <= body) continue;
    std::tie(t.head[i], t.second[i]) = halves(t.name[i]);
    t.measure(i);
  }
}

// Numbers that a reader misses least, in this order, and numbers that have intervals.
constexpr const char* least_missed[] = {"redundancy", "nfe", "committed_per_step", "tpf"};
constexpr const char* with_intervals[] = {"score", "speedup"};

void drop_numbers(fitting& t, int columns) {
  for (const char* stored : least_missed) {
    const std::string name = heading_of(stored);
    for (std::size_t i = t.columns(); i-- > 0 && t.total() > columns;) {
      if (!t.right[i] || t.name[i] != name) continue;
      t.take_out(i);
      ++t.left_out;
    }
  }
  for (const char* stored : with_intervals) {
    const std::string name = heading_of(stored);
    for (std::size_t i = 0; i < t.columns() && t.total() > columns; ++i) {
      if (!t.right[i] || t.name[i] != name) continue;
      for (cells& row : t.rows) row[i] = row[i].substr(0, row[i].find(" ["));
      t.measure(i);
    }
  }
}

// The narrowest that a column of text may become: its cells stay as different as they are.
int least_width(const fitting& t, std::size_t i) {
  const auto different = [&](int width) {
    std::set<std::string> cut;
    for (const cells& row : t.rows) cut.insert(cut_to_width(row[i], width));
    return cut.size();
  };
  const int widest = t.width[i];
  const std::size_t wanted = different(widest);
  int width = std::min(narrowest, widest);
  while (width < widest && different(width) < wanted) ++width;
  return width;
}

// Makes the widest column of text narrower, one column at a time, while its rows stay told apart.
void shorten_texts(fitting& t, int columns) {
  std::vector<int> least(t.columns());
  for (std::size_t i = 0; i < t.columns(); ++i) {
    least[i] = t.right[i] ? t.width[i] : least_width(t, i);
  }
  while (t.total() > columns) {
    std::size_t widest = t.columns();
    for (std::size_t i = 0; i < t.columns(); ++i) {
      if (t.width[i] <= least[i]) continue;
      if (widest == t.columns() || t.width[i] > t.width[widest]) widest = i;
    }
    if (widest == t.columns()) return;
    t.width[widest] = t.width[widest] - 1;
  }
}

std::string padded(const std::string& text, int width, bool right) {
  const std::string cut = cut_to_width(text, width);
  const std::string blanks(static_cast<std::size_t>(std::max(0, width - display_width(cut))), ' ');
  return right ? blanks + cut : cut + blanks;
}

std::string line_of(const fitting& t, const cells& row) {
  std::string line;
  for (std::size_t i = 0; i < t.columns(); ++i) {
    line += (i > 0 ? "  " : "") + padded(row[i], t.width[i], t.right[i]);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string fitted_table(const std::vector<std::string>& lines, int columns) {
  fitting t;
  for (const std::string& line : lines) {
    if (!is_rule(line)) {
      t.rows.push_back(cells_of(line));
    } else {
      for (const std::string& c : cells_of(line)) t.right.push_back(c.ends_with(':'));
    }
  }
  std::size_t widest = t.right.size();
  for (const cells& row : t.rows) widest = std::max(widest, row.size());
  for (cells& row : t.rows) row.resize(widest);
  t.right.resize(widest, false);
  t.width.resize(widest, 0);
  t.name = t.head = t.rows.front();
  t.second.resize(widest);
  t.rows.erase(t.rows.begin());
  for (std::size_t i = 0; i < widest; ++i) t.measure(i);
  std::string text;
  if (t.total() > columns) text = taken_headings(t, columns);
  if (t.total() > columns) break_headings(t);
  drop_numbers(t, columns);
  shorten_texts(t, columns);
  // What tells rows apart stays, whatever the width: the first column of text at least.
  for (std::size_t i = t.columns(); i-- > 1 && t.total() > columns;) {
    if (!t.right[i]) continue;
    t.take_out(i);
    ++t.left_out;
  }
  text += line_of(t, t.head);
  if (std::ranges::any_of(t.second, [](const std::string& half) { return !half.empty(); })) {
    text += line_of(t, t.second);
  }
  cells rule;
  for (std::size_t i = 0; i < t.columns(); ++i) {
    rule.emplace_back(static_cast<std::size_t>(t.width[i]), '-');
  }
  text += line_of(t, rule);
  for (const cells& row : t.rows) text += line_of(t, row);
  if (t.left_out > 0) {
    text += fmt::format("({} more columns: widen the terminal, or write to a file)\n", t.left_out);
  }
  return text;
}

// A line of text over as many lines of the terminal as it needs, broken at blanks.
std::string wrapped(const std::string& text, int columns) {
  if (display_width(text) <= columns) return text + "\n";
  std::string out, line;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (!line.empty() && display_width(line) + 1 + display_width(word) > columns) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
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
    text += wrapped(line, columns);
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
