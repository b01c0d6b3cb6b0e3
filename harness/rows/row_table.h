// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows as tables see them: the latest of each point, those that may be reported, picked by what was
// run, and grouped by it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/rows/row.h"

namespace unmask {

using row_list = std::vector<const result_row*>;  // into a row_table that outlives it

// If a point has several rows of one machine, the last one is used, in the place of the first; rows of
// one experiment stand in the order of its plan.
class row_table {
 public:
  row_table() = default;
  row_table(const std::vector<result_row>& rows);  // NOLINT: rows of one place are a row_table

  const std::vector<result_row>& rows() const { return rows_; }
  row_list all() const;
  row_list reportable() const;

 private:
  std::vector<result_row> rows_;
};
// The machine of a row as a table names it: its GPU, or its processor and cores; empty: not known.
// machine_class_of() tells apart what such names do not: a row on a GPU holds its processor too.
std::string machine_of(const result_row& row);
std::string machine_class_of(const result_row& row);

// Rows that differ in their seed alone, those of one line of a table, in the order of their first; a row
// that may not be reported is alone.
std::vector<row_list> over_seeds(const row_list& rows);

// In `variation`: no seed changes what the row says, so it was measured once for all of them.
inline constexpr const char* any_seed = "seed=any";
bool is_of_any_seed(const result_row& row);

// Rows of files and directories, as read_rows() gives them.
row_table read_row_table(const std::vector<std::filesystem::path>& paths);

// Keys: label method preset model workload variation kind, those of [run], params.NAME, serve.NAME.
// Usage error beginning with `where` for any other.
void check_row_key(const std::string& key, const std::string& where);
// The setting of a row as text ("0.9", "word_problem"); nothing when the row does not have it.
std::optional<std::string> setting_of(const result_row& row, const std::string& key);
// A text that is a number to its end.
std::optional<double> as_number(const std::string& text);

struct row_selector {
  std::map<std::string, std::vector<parameter_value>> keys;  // any of the values; none: all rows
  bool matches(const result_row& row) const;
  std::string text() const;  // "label = FOCUS, batch_size = 1|4"
};
// From one line of TOML, {label = "FOCUS", batch_size = [1, 4]}; usage error for what cannot be read.
row_selector selector_of(const std::string& toml, const std::string& where);

// Groups of equal keys, in the order of their first rows.
std::vector<row_list> grouped(const row_list& rows,
                              const std::function<std::string(const result_row&)>& key);

// What a sweep changed, "a=1 b=2" as pairs, in its order.
std::vector<std::pair<std::string, std::string>> variation_of(const result_row& row);
// Label and variation, without the parts of these keys (their last names: "batch_size").
std::string name_of_row(const result_row& row, const std::set<std::string>& without = {});

// What two rows must agree in to be compared: model, workload, batch_size, gen_length, seed,
// every key of [run] and every key of serve, except `free` ones.
std::string circumstance_of(const result_row& row, const std::set<std::string>& free);

}  // namespace unmask
