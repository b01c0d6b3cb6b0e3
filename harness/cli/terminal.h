// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What is different where standard output is a terminal.
#pragma once

#include <string>

#include "harness/cli/options.h"
#include "harness/rows/row_table.h"

namespace unmask {

struct terminal_size {
  int columns = 80, rows = 24;
};

// Whether standard output is a terminal that can be drawn on.
bool output_is_terminal();
// Returns the size of the terminal on standard output; 80 x 24 where it does not say.
terminal_size size_of_terminal();

option color_option();
// --color always, never, or auto: on a terminal, unless $NO_COLOR is set (no-color.org). Usage error
// for another word.
bool with_color(const command_line& line);

// Markdown for people: its tables with padded columns, without the bars at their ends. A table that is
// wider than so many columns of a terminal says once what is equal in all rows, leaves out the numbers
// that are missed least (a line below tells how many), then intervals; texts become shorter while rows
// stay told apart, and other numbers go last. Long lines beside tables are broken at blanks.
std::string fitted(const std::string& markdown, int columns);

// Standard output: fitted() on a terminal, as it is otherwise.
void print_tables(const std::string& markdown);

// Tells, on standard error, that the machine was not fit to measure these rows on, if it was not.
void tell_unfit(const row_table& rows);

// The other screen of a terminal for as long as this lives, left also when a signal ends the program.
class alternate_screen {
 public:
  alternate_screen();
  ~alternate_screen();
  alternate_screen& operator=(alternate_screen&&) = delete;
};

}  // namespace unmask
