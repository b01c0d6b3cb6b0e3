// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/format.h"

#include <concepts>
#include <filesystem>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/nearest.h"
#include "harness/base/run_keys.h"
#include "harness/plan/keys.h"
#include "harness/plan/needs.h"
#include "harness/plan/serve_settings.h"
#include "harness/plan/settings.h"
#include "harness/plan/spec.h"
#include "harness/rows/text_table.h"
#include "harness/workload/scorer.h"
#include "harness/workload/task_fields.h"

namespace unmask {
namespace {

const char* const text_type = "text";
const char* const texts_type = "array of texts";
const char* const integer_type = "integer";
const char* const number_type = "number";
const char* const flag_type = "true or false";
const char* const table_type = "table";

std::string type_of(const parameter_value& value) {
  const char* names[] = {flag_type, integer_type, number_type, text_type};
  return names[value.index()];
}

// A line of the page for each key that a table declares (keys.h).
struct key_lister {
  std::vector<format_key>& into;

  template <class Value>
  void operator()(const file_key& key, const Value& value) const {
    if constexpr (key_scalar<Value>) {
      const parameter_value usual(value);
      add(key, type_of(usual), to_string(usual));
    } else if constexpr (std::same_as<Value, std::vector<std::string>>) {
      add(key, texts_type);
    } else {
      add(key, std::same_as<Value, std::filesystem::path> ? text_type : table_type);
    }
  }
  void range(const file_key& key, const char*, std::int64_t, std::int64_t) const {
    add(key, "[LOW, HIGH]");
  }
  void one_or_more(const file_key& key, const std::vector<std::string>&) const {
    add(key, "text or texts");
  }
  void hashed(const file_key& key, const std::filesystem::path&, const std::string&) const {
    add(key, text_type);
  }
  void over(const file_key& key, const char* type) const { add(key, type); }

  void add(const file_key& key, const std::string& type, const std::string& usual = "") const {
    std::string meaning = *key.only_of == '\0' ? "" : std::string(key.only_of) + ": ";
    meaning += *key.meaning != '\0' ? key.meaning : joined(key.words());
    if (*key.former != '\0') meaning += std::string(" (also `") + key.former + "`)";
    const std::string without = key.is_needed ? "needed" : key.without;
    into.push_back({key.name, type, without.empty() ? usual : without, meaning, key.former});
  }
};

// The head and sentence of a table, with the keys that it declares behind.
template <class Table>
format_table listed(format_table page) {
  Table usual;
  key_lister list{page.keys};
  each_key(usual, list);
  return page;
}

format_table run_table() {
  format_table t{"[run]", "run", "How each sweep point is run and how often.", {}};
  const run_settings run;
  for (const run_key& key : run_key_list()) {
    const bool is_text = std::holds_alternative<std::string run_keys::*>(key.field);
    std::string meaning = key.meaning;
    if (*key.words != '\0') meaning += fmt::format(" ({})", fmt::join(key.choices(), ", "));
    if (*key.unit != '\0') meaning = std::string(key.unit) + " " + meaning;
    t.keys.push_back({key.name, is_text ? text_type : integer_type, key.text(run), meaning});
  }
  const evidence_settings e;
  for (const evidence_key& key : evidence_key_list()) {
    const parameter_value value =
        std::visit([&](const auto field) { return parameter_value(e.*field); }, key.field);
    t.keys.push_back({key.name, type_of(value), to_string(value), key.meaning});
  }
  return t;
}

format_table serve_table() {
  format_table t{"[serve]", "serve", "Arrivals and scheduling, where kind = \"serve\".", {}};
  for (const parameter_spec& p : serve_parameters()) {
    t.keys.push_back({p.name, type_of(p.default_value), to_string(p.default_value), p.meaning});
  }
  return t;
}

format_table top_table() {
  return listed<experiment_spec>({"top of the file", "", "Before the first table.", {}});
}

format_table model_table() {
  return listed<model_entry>({"[[model]]", "model", "One model; methods run on each of them.", {}});
}

format_table workload_keys() {
  return listed<workload_table>(
      {"[[workload]]",
       "workload",
       "What is answered: exactly one of `tasks`, `file`, `trace`, `lengths` and `benchmark`.",
       {}});
}

format_table method_table() {
  return listed<method_entry>(
      {"[[method]]",
       "method",
       "One method in one setting (`unmask list methods`, `unmask show METHOD`).",
       {}});
}

format_table probe_table() {
  return listed<probe_settings>(
      {"[probe]", "probe", "What is looked at besides speed and score, in an additional run.", {}});
}

format_table sweep_table() {
  return {
      "[sweep]",
      "sweep",
      "Axes by dotted key, `\"params.threshold\" = [0.7, 0.9]`: params.NAME of every method that "
      "has it, method.LABEL.NAME of one, serve.NAME, limit, and every key of [run].",
      {{"mode", text_type, "cross",
        "cross (or factorial): every combination; zip: the i-th values together; one-at-a-time: "
        "the first values, then each other one alone; leave-one-out: without the sweep, then "
        "each value alone"}}};
}

format_table artifact_table() {
  return listed<artifact_header>(
      {"[artifact]", "artifact", "Which table or figure of a paper the file repeats.", {}});
}

format_table scale_table() {
  return listed<scale_entry>(
      {"[scale.NAME]",
       "scale.*",
       "Laid over the file by --scale NAME: tables merge and the scale wins; [[scale.NAME.model]] "
       "and other arrays replace.",
       {}});
}

format_table layout_table() {
  return {
      "[layout]",
      "layout",
      "How the paper arranges the numbers, for `unmask table --view paper` (the Python package "
      "reads it).",
      {{"rows", texts_type, "[\"label\"]", "keys of a row that make a line"},
       {"row_header", text_type, "Method", "above them"},
       {"across", text_type, "", "a key whose values are groups of columns"},
       {"columns", "array", "",
        "metrics, or tables with metric, header, where, published, "
        "published_metric, factor, digits, best"},
       {"published_rows", table_type, "", "our line = the paper's line"},
       {"base", table_type, "", "selector of the row that speedup divides by"},
       {"pool", text_type, "", "\"model\": a number may be over several models; else an error"}}};
}

// A table in Markdown; the first cell of a line is a word to type.
std::string markdown(std::initializer_list<const char*> heads,
                     const std::vector<std::vector<std::string>>& lines) {
  text_table t(heads);
  for (const std::vector<std::string>& line : lines) {
    t.add(std::vector<table_cell>(line.begin(), line.end()));
  }
  return render(t, table_format::md);
}

std::string code(const std::string& name) {
  return "`" + name + "`";
}

std::string extends_page() {
  return "## A file that extends another\n\n`extends = \"other.toml\"` lays this file over another "
         "experiment "
         "file, which may extend a third. `unmask show FILE.toml` prints the result, which is also "
         "what `run.json` "
         "and bundles keep. Its points have the ids of a file that says the same by itself.\n\n" +
         markdown({"in this file", "effect"},
                  {{"a value or an array", "replaces that of the other file"},
                   {"a table, such as `[run]` or `[scale.tiny.set]`", "merges with it key by key"},
                   {"`[[model]]`, `[[workload]]`, `[[method]]` of a name that is there",
                    "changes these keys of the entry, or of every entry that has the name"},
                   {"such an entry of a new name", "is added after the others"},
                   {"an entry with its name and `remove = true`", "removes that entry"},
                   {"an entry with only `remove = true`", "removes all entries of the other file"},
                   {"a table with `remove = true`", "has only the keys of this file"},
                   {"an empty array in `[sweep]`", "removes that axis"},
                   {"`[artifact]`", "is never taken from the other file"}}) +
         "\nA method has the name `label`, else `name`. A model has `name`, else the last part of "
         "its `path`. A "
         "workload has `name`, else its tasks, its benchmark, its lengths or the stem of its "
         "file.\n\nA relative path "
         "belongs to the file that gives it. With `--confine`, the other file must also be in that "
         "folder or come "
         "with the program.\n\n";
}

std::string needs_page() {
  std::vector<std::vector<std::string>> lines;
  for (const need_kind& n : need_list()) lines.push_back({code(n.spelled()), n.meaning});
  return "## Needs\n\n`needs = [\"cuda\", \"memory_gb:64\"]` of a scale. What models, workloads "
         "and devices imply need not stand there.\n\n" +
         markdown({"need", "meaning"}, lines) + "\n";
}

std::string task_page() {
  std::vector<std::vector<std::string>> fields, checks;
  for (const task_field& f : task_fields()) {
    fields.push_back({code(f.name), f.type, f.needed ? "needed" : "", f.meaning});
  }
  for (const check_field& f : check_fields()) {
    checks.push_back({code(f.scorer), code(std::string("check.") + f.name), f.type, f.meaning});
  }
  return "## Tasks of your own\n\n`[[workload]] file = \"mine.jsonl\"`: one JSON object a "
         "line.\n\n" +
         markdown({"field", "type", "without it", "meaning"}, fields) +
         "\nScorers that need something of `check`:\n\n" +
         markdown({"scorer", "needs", "type", "meaning"}, checks) +
         fmt::format("\nAll scorers: {}. `none` scores nothing.\n",
                     fmt::join(scorer_names(), ", "));
}

}  // namespace

const std::vector<format_table>& format_tables() {
  static const std::vector<format_table> all = {top_table(),     run_table(),   model_table(),
                                                workload_keys(), serve_table(), method_table(),
                                                probe_table(),   sweep_table(), artifact_table(),
                                                scale_table(),   layout_table()};
  return all;
}

std::string needs_text() {
  nlohmann::ordered_json needs = nlohmann::ordered_json::object();
  for (const need_kind& n : need_list()) {
    const char* values[] = {"", "number", "name"};
    needs[n.name] = values[static_cast<std::size_t>(n.takes)];
  }
  const nlohmann::ordered_json all = {{"$comment", "SPDX-License-Identifier: Apache-2.0"},
                                      {"needs", needs}};
  return all.dump(1) + "\n";
}

std::string format_page() {
  std::string page;
  for (const format_table& t : format_tables()) {
    std::vector<std::vector<std::string>> lines;
    for (const format_key& key : t.keys) {
      lines.push_back({code(key.name), key.type, key.otherwise, key.meaning});
    }
    page += "## " + t.head + "\n\n" + t.says + "\n\n" +
            markdown({"key", "type", "without it", "meaning"}, lines) + "\n";
    if (t.path.empty()) page += extends_page();
  }
  return page + needs_page() + task_page();
}

}  // namespace unmask
