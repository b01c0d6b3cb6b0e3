// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every key of an experiment file, with type, default and meaning: `unmask show format`, from which
// experiments/FORMAT.md is written. A test compares the list with the keys that parse_spec() asks for.
#pragma once

#include <string>
#include <vector>

namespace unmask {

struct format_key {
  std::string name, type, otherwise;  // otherwise: the value without it; "needed"
  std::string meaning;
  std::string former = {};  // an older name, which is still read
};

struct format_table {
  std::string head;  // as it is written: "[[model]]"
  std::string path;  // as toml_reader names it: "model"; "scale.*" for any scale
  std::string says;  // one sentence
  std::vector<format_key> keys;
};

// Tables in the order in which a file states them; [run] and [serve] from their own lists.
const std::vector<format_table>& format_tables();

// The same as Markdown, with the needs, the fields of a task and its scorers behind.
std::string format_page();

// The needs with what stands behind the colon, as JSON: the text of needs.json of the package, which
// reads it (`unmask show needs`).
std::string needs_text();

}  // namespace unmask
