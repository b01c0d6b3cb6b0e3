// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Options of the sub-commands, declared in one table each, and what was given of them. Options that
// mean the same in every command are declared here: -o is a path, --format a format, --set a dotted
// key, --device a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "harness/rows/text_table.h"

namespace unmask {

using texts = std::vector<std::string>;

struct flag {};      // given or not
struct repeated {};  // a text, as often as one likes

// "name" or "name,n"; `otherwise` is the value where it is not given, and its type the option's.
// std::string(): a text without default.
struct option {
  const char* name;
  std::variant<flag, repeated, std::string, std::int64_t, double> otherwise;
  std::string meaning;
};
using option_table = std::vector<option>;
// A line above the options that follow it in help; no option.
option heading(const std::string& words);
bool is_heading(const option& o);
option_table operator+(option_table all, const option_table& more);

const std::string no_default;
option output_option(const std::string& meaning);
option format_option(const std::string& meaning);
option_table settings_options();  // --set, --device
option device_option();
option ranks_option();
// --pictures and --unread: what of a checkpoint is taken although nothing reads it.
option_table unread_options();
option experiments_option();
option_table paired_options();  // --margin, --score-margin, --base

struct help_shown {};  // --help was asked for: nothing else is to be done

// All that a command says about its command line: help, completion and the manual are made of it.
struct command_words {
  std::string usage;  // "run EXPERIMENT.toml|FOLDER... [options]"
  option_table options;
  texts places;
  std::string about;   // paragraphs above the options
  std::string ending;  // and below them
};
// Those of a command, which is not run: its first command_line is made for nobody. Of a command that
// the package answers they come from its --help; none if there is no Python.
struct command;
command_words words_of(const command& c);

// "-o, --output PATH" in parts: "o", "output", "PATH". A flag has no value.
struct option_words {
  std::string letter, name, value;
};
option_words spelled_out(const option& o);
// The meaning with its default behind it, as a person would write it: "... (default: 0.1)".
std::string meaning_of(const option& o);

class command_line {
 public:
  // `usage`: what stands behind "unmask". `places`: names of the words without an option; "NAME..."
  // takes all that are left. `_` and `-` are the same in option names; unknown options are usage
  // errors with the nearest match. --help prints usage, `about`, options, `ending` and the command's
  // examples (help.h) and throws help_shown.
  command_line(const std::string& usage, const option_table& options, const texts& places,
               const texts& arguments, const std::string& about = "",
               const std::string& ending = "");
  ~command_line();

  bool given(const std::string& name) const;
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  texts list(const std::string& name) const;   // of a repeated option, of places
  texts parts(const std::string& name) const;  // "a,b" given once or several times
  // Whole numbers of parts(), each within these bounds; usage error that names the option.
  std::vector<std::int64_t> numbers(const std::string& name, std::int64_t least,
                                    std::int64_t most) const;
  std::int64_t whole(const std::string& name) const;
  // Usage error when it is below `least`.
  std::int64_t at_least(const std::string& name, std::int64_t least) const;
  // Usage error when it is outside; for what goes into a smaller type, or into memory.
  std::int64_t within(const std::string& name, std::int64_t least, std::int64_t most) const;
  double real(const std::string& name) const;

  // A word that must be there; usage error with this sentence where it is not.
  std::string place(const std::string& name, const std::string& missing) const;
  table_format format() const;  // of --format
  // What --set, --device and --ranks say, as assignments in their order; these two last.
  texts settings() const;
  // To standard output, where tables fit the terminal, or to the file that -o names.
  void write(const std::string& text) const;

 private:
  struct parsed;
  std::unique_ptr<parsed> parsed_;
};

// Returns the folder that --experiments-dir names, else the one that comes with the program.
std::filesystem::path experiments_folder(const command_line& line);

}  // namespace unmask
