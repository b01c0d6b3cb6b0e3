// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The words that tables, help and pages show: terms, headings of columns and verdicts. The list is
// harness/python/unmask/rows/glossary.toml, which the Python package reads too; the build puts its
// text into the program.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"
#include "harness/rows/text_table.h"

namespace unmask {

struct glossary_term {
  std::string section;  // decoding, measuring, claims, columns, verdicts
  std::string word, meaning;
  std::string stored;                 // the name in rows, keys and options; empty: none
  std::vector<std::string> replaces;  // words that texts for users no longer contain
  std::string of, when;               // of a verdict: what is judged, and under which condition
};
const std::vector<glossary_term>& glossary();

// The heading of a column: of a metric by its stored name, of another column by its word. Throws
// std::logic_error for a name that the glossary lacks.
const std::string& heading_of(const std::string& name);
// A table with these columns, by the names that heading_of() takes: "model | >tpf".
text_table table_with(std::initializer_list<const char*> names);

// The word for a stored verdict of a list: "row", "claim", ... Throws as heading_of().
const std::string& shown_verdict(const std::string& of, const std::string& stored,
                                 const std::string& when = "");
// The verdict of a row as tables show it: UNSCORED for NOT_VERIFIED, UNCHECKED if the device check
// was off.
const std::string& shown_verdict(const result_row& row);

// The reason of rows whose prompts have no right answer, such as random ones.
inline constexpr const char* nothing_to_score = "no item of this workload can be scored";

// The terms as Markdown, a table for each section, and as one JSON object of lists.
std::string glossary_page();
std::string glossary_json();

}  // namespace unmask
