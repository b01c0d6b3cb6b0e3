// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The only way to standard output and standard error. Checkpoints, rows and files of strangers hold
// texts that would command the reader's terminal; print() and tell() show such characters instead.
#pragma once

#include <fmt/core.h>

#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>

namespace unmask {

// The text with every control character written out, "\u001b": C0 but newline and tab, DEL, C1, and
// the marks that turn the direction of writing. What is no UTF-8 becomes U+FFFD. Inside a JSON
// string that is the same text, so a JSON document stays what it was.
std::string shown(std::string_view text);
// shown() with newlines and tabs as blanks: for one line of a table or a list.
std::string shown_line(std::string_view text);

void write_output(std::string_view text);  // shown(), to standard output
void write_error(std::string_view text);   // shown(), to standard error

template <class... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  write_output(fmt::format(format, std::forward<Values>(values)...));
}
// To standard error, behind all that print() has written: the two may share a file.
template <class... Values>
void tell(fmt::format_string<Values...> format, Values&&... values) {
  write_error(fmt::format(format, std::forward<Values>(values)...));
}
// write_error() as a stream, for what writes to one.
std::ostream& error_stream();

// While one exists, print() writes into it and not to standard output: for a program that holds this one and
// gives back what was measured in its own way. There is no lock: one computation runs at a time in a process.
class caught_output {
 public:
  caught_output();
  ~caught_output();
  caught_output(const caught_output&) = delete;
  caught_output& operator=(const caught_output&) = delete;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string* before_;
};

// The program's own control sequences, as they are, at once.
void draw_output(std::string_view text);

// Environment error when something that was printed did not reach its file.
void check_output();

}  // namespace unmask
