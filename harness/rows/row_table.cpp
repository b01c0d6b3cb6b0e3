// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/row_table.h"

#include <algorithm>
#include <charconv>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"
#include "harness/rows/json_of.h"
#include "harness/rows/store.h"

namespace unmask {
namespace {

// Besides the keys of [run].
const std::vector<std::string> plain_keys = {"label",    "method",    "preset", "model",
                                             "workload", "variation", "kind"};

std::optional<std::string> of_map(const parameter_map& map, const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end()) return {};
  return to_string(found->second);
}

}  // namespace

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

row_table::row_table(const std::vector<result_row>& rows) {
  std::map<std::string, std::size_t> place;
  for (const result_row& row : rows) {
    const auto [at, fresh] =
        place.emplace(row.point_id + "\n" + machine_class_of(row), rows_.size());
    if (fresh) {
      rows_.push_back(row);
    } else {
      rows_[at->second] = row;
    }
  }
  // Rows are written as points finish; within one experiment the plan's order reads better.
  const bool one = std::ranges::all_of(
      rows_, [&](const result_row& row) { return row.title == rows_.front().title; });
  if (one) std::ranges::stable_sort(rows_, {}, &result_row::position);
}

std::string machine_of(const result_row& row) {
  const auto machine = tree_of(row.environment);
  const auto text = [&](const char* key) {
    const auto found = machine.is_object() ? machine.find(key) : machine.end();
    if (!machine.is_object() || found == machine.end() || found->is_null()) return std::string();
    return found->is_string() ? found->get<std::string>() : found->dump();
  };
  if (machine.is_object() && row.device && row.device->is_card) {
    const auto gpus = machine.find("gpus");
    if (gpus != machine.end() && gpus->is_array() && !gpus->empty() && (*gpus)[0].is_object()) {
      const auto name = (*gpus)[0].find("name");
      if (name != (*gpus)[0].end() && name->is_string()) return name->get<std::string>();
    }
  }
  const std::string cores = text("cpus_usable");
  return text("cpu_model") + (cores.empty() ? "" : ", " + cores + " cores");
}

std::string machine_class_of(const result_row& row) {
  const auto machine = tree_of(row.environment);
  std::string text;
  if (!machine.is_object()) return text;
  for (const char* key : {"cpu_model", "cpus_usable"}) {
    const auto found = machine.find(key);
    text += (found == machine.end() ? "" : found->dump()) + "\n";
  }
  const auto gpus = machine.find("gpus");
  if (gpus == machine.end() || !gpus->is_array()) return text;
  for (const auto& gpu : *gpus) {
    const bool named = gpu.is_object() && gpu.contains("name");
    text += (named ? gpu["name"].dump() : gpu.dump()) + "\n";
  }
  return text;
}

std::vector<row_list> over_seeds(const row_list& rows) {
  std::size_t alone = 0;
  const auto key = [&](const result_row& row) {
    if (!is_reportable(row)) return std::to_string(++alone);
    std::string text = circumstance_of(row, {"seed"}) + row.model.hash + "\n" + row.workload.hash +
                       "\n" + row.method + "\n" + row.preset + "\n" + name_of_row(row, {"seed"}) +
                       "\n" + machine_class_of(row);
    for (const auto& [name, value] : row.params) text += "\n" + name + "=" + to_string(value);
    return text;
  };
  std::vector<row_list> groups = grouped(rows, key);
  // Of one seed several rows are several measurements, no sample of seeds.
  std::vector<row_list> lines;
  for (row_list& group : groups) {
    std::set<std::int64_t> seeds;
    for (const result_row* row : group) seeds.insert(row->run.seed);
    if (seeds.size() == group.size()) {
      lines.push_back(std::move(group));
    } else {
      for (const result_row* row : group) lines.push_back({row});
    }
  }
  return lines;
}

bool is_of_any_seed(const result_row& row) {
  const auto parts = variation_of(row);
  return std::ranges::find(parts, std::pair<std::string, std::string>("seed", "any")) !=
         parts.end();
}

row_table read_row_table(const std::vector<std::filesystem::path>& paths) {
  std::vector<result_row> rows;
  for (const std::filesystem::path& path : paths) {
    stored_rows stored = read_rows(path);
    std::ranges::move(stored.rows, std::back_inserter(rows));
  }
  return row_table(rows);
}

row_list row_table::all() const {
  row_list list;
  for (const result_row& row : rows_) list.push_back(&row);
  return list;
}

row_list row_table::reportable() const {
  row_list list = all();
  std::erase_if(list, [](const result_row* row) { return !is_reportable(*row); });
  return list;
}

std::vector<row_list> grouped(const row_list& rows,
                              const std::function<std::string(const result_row&)>& key) {
  std::map<std::string, std::size_t> place;
  std::vector<row_list> groups;
  for (const result_row* row : rows) {
    const auto [at, fresh] = place.emplace(key(*row), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(row);
  }
  return groups;
}

std::vector<std::pair<std::string, std::string>> variation_of(const result_row& row) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (std::size_t begin = 0; begin < row.variation.size();) {
    const std::size_t end = std::min(row.variation.find(' ', begin), row.variation.size());
    const std::string part = row.variation.substr(begin, end - begin);
    const std::size_t equals = std::min(part.find('='), part.size());
    if (!part.empty()) {
      parts.emplace_back(part.substr(0, equals), part.substr(std::min(equals + 1, part.size())));
    }
    begin = end + 1;
  }
  return parts;
}

std::string name_of_row(const result_row& row, const std::set<std::string>& without) {
  std::string name = row.label;
  for (const auto& [key, value] : variation_of(row)) {
    if (without.contains(key.substr(key.rfind('.') + 1))) continue;
    name += " " + key + (value.empty() ? "" : "=" + value);
  }
  return name;
}

void check_row_key(const std::string& key, const std::string& where) {
  if (std::ranges::find(plain_keys, key) != plain_keys.end() || find_run_key(key)) return;
  if ((key.starts_with("params.") && key.size() > 7) ||
      (key.starts_with("serve.") && key.size() > 6)) {
    return;
  }
  std::vector<std::string> known = plain_keys;
  for (const run_key& run : run_key_list()) known.emplace_back(run.name);
  known.emplace_back("params.NAME");
  known.emplace_back("serve.NAME");
  throw usage_error(where + ": " + unknown_name("key of a row", key, known));
}

std::optional<std::string> setting_of(const result_row& row, const std::string& key) {
  if (key == "label") return row.label;
  if (key == "method") return row.method;
  if (key == "preset") return row.preset;
  if (key == "model") return row.model.name;
  if (key == "workload") return row.workload.family;
  if (key == "variation") return row.variation;
  if (key == "kind") return row.run.kind;
  if (const run_key* run = find_run_key(key)) return run->text(row.run);
  if (key.starts_with("params.")) return of_map(row.params, key.substr(7));
  if (key.starts_with("serve.")) return of_map(row.run.serve, key.substr(6));
  return {};
}

bool row_selector::matches(const result_row& row) const {
  return std::ranges::all_of(keys, [&](const auto& wanted) {
    if (wanted.first == "seed" && is_of_any_seed(row)) return true;  // met under every seed
    const auto found = setting_of(row, wanted.first);
    if (!found) return false;
    return std::ranges::any_of(wanted.second, [&](const parameter_value& v) {
      if (to_string(v) == *found) return true;
      const auto here = as_number(*found), there = as_number(to_string(v));  // 1 and 1.0
      return here && there && *here == *there;
    });
  });
}

std::string row_selector::text() const {
  std::string out;
  for (const auto& [key, values] : keys) {
    out += (out.empty() ? "" : ", ") + key + " = ";
    for (std::size_t i = 0; i < values.size(); ++i) out += (i ? "|" : "") + to_string(values[i]);
  }
  return out.empty() ? "any row" : out;
}

std::string circumstance_of(const result_row& row, const std::set<std::string>& free) {
  std::string text;
  for (const char* key : {"model", "workload", "kind"}) {
    if (!free.contains(key)) text += *setting_of(row, key) + "\n";
  }
  for (const run_key& run : run_key_list()) {
    if (!free.contains(run.name)) text += run.text(row.run) + "\n";
  }
  for (const auto& [name, value] : row.run.serve) {
    if (!free.contains("serve." + name)) text += name + "=" + to_string(value) + "\n";
  }
  return text;
}

row_selector selector_of(const std::string& toml, const std::string& where) {
  const toml::table parsed = parsed_toml("rows = " + toml, where);
  toml_reader reader(parsed, where, "");
  row_selector by;
  reader.table("rows", [&](toml_reader& t) {
    t.leaves([&](const std::string& name, const toml::node& node) {
      const std::string place = t.where(node);
      check_row_key(name, place);
      std::vector<parameter_value>& values = by.keys[name];
      const std::string what = place + ": `rows." + name + "`";
      if (const toml::array* list = node.as_array()) {
        for (const toml::node& item : *list) values.push_back(toml_scalar(item, what));
      } else {
        values.push_back(toml_scalar(node, what));
      }
      if (values.empty()) throw usage_error(what + " holds no value");
    });
  });
  reader.finish();
  if (by.keys.empty()) {
    throw usage_error(where + " takes keys and values of rows, {label = \"FOCUS\"}, not '" + toml +
                      "'");
  }
  return by;
}

}  // namespace unmask
