// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/overlay.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/toml_reader.h"
#include "harness/plan/needs.h"
#include "harness/plan/read_keys.h"

namespace unmask {
namespace {

// Reads [scale.NAME], whose settings may be dotted keys and say their own line.
class scale_reader final : public key_reader {
 public:
  using key_reader::key_reader;
  using key_reader::operator();
  void operator()(const file_key& key, std::vector<dotted_setting>& into) {
    r_.table(key.name, [&](toml_reader& set) {
      set.leaves([&](const std::string& name, const toml::node& node) {
        const std::string where = set.where(node);
        into.push_back({name, toml_scalar(node, where + ": `set." + name + "`"), where});
      });
    });
  }
};

// The keys that a scale does not lay over anything.
struct own_keys : key_visitor {
  std::vector<std::string> names;
  template <class Value>
  void operator()(const file_key& key, Value&) {
    names.emplace_back(key.name);
  }
};

// Nodes are moved, not copied: only then do they keep the line they stand on.
void lay_over(toml::table& base, toml::table& over) {
  for (auto&& [key, node] : over) {
    toml::node* below = base.get(key.str());
    if (below && below->is_table() && node.is_table()) {
      lay_over(*below->as_table(), *node.as_table());
      continue;
    }
    node.visit([&, &name = key](auto& value) { base.insert_or_assign(name, std::move(value)); });
  }
}

// An empty axis of a scale takes the shared one away. Axes lie below dotted keys.
void drop_empty_axes(toml::table& sweep) {
  for (auto it = sweep.begin(); it != sweep.end();) {
    toml::node& node = it->second;
    if (toml::table* below = node.as_table()) drop_empty_axes(*below);
    const bool empty_array = node.is_array() && node.as_array()->empty();
    const bool empty_table = node.is_table() && node.as_table()->empty();
    if (empty_array || empty_table) {
      it = sweep.erase(it);
    } else {
      ++it;
    }
  }
}

scale_entry read_scale(const std::string& name, const toml::table& table,
                       const std::filesystem::path& file) {
  scale_entry read;
  read.name = name;
  toml_reader r(table, file.string(), "scale." + name);
  scale_reader reader(r, "[scale." + name + "]", file);
  each_key(read, reader);
  for (const std::string& need : read.needs) check_need(need, r.where());
  r.finish();
  return read;
}

const scale_entry& chosen_scale(const std::vector<scale_entry>& scales, const std::string& wanted,
                                const std::string& file) {
  const std::vector<std::string> names = names_in(scales, &scale_entry::name);
  const std::string name = wanted.empty() ? "tiny" : wanted;
  if (wanted.empty() && std::ranges::find(names, name) == names.end()) {
    throw usage_error(file + ": has no scale \"tiny\"; choose one with --scale: " +
                      nearest_list("", names, names.size()));
  }
  return scales[find_known("scale", name, names, file)];
}

}  // namespace

experiment_table overlaid_table(const std::string& text, const std::filesystem::path& file,
                                const std::string& scale) {
  experiment_table read;
  read.table = parsed_toml(text, file);
  const toml::node* scales = read.table.get("scale");
  if (!scales) {
    // An artifact that nobody can reproduce has none, and says so at every scale.
    const bool explained = read.table["artifact"]["not_reproducible"].is_string();
    if (scale.empty() || explained) return read;
    throw usage_error(file.string() + ": has no scales, so --scale " + scale + " means nothing");
  }
  if (!scales->is_table() || scales->as_table()->empty()) {
    throw usage_error(file.string() + ": `scale` must be written as [scale.NAME]");
  }
  for (const auto& [key, node] : *scales->as_table()) {
    const std::string name(key.str());
    if (!node.is_table()) {
      throw usage_error(file.string() + ":" + std::to_string(key.source().begin.line) +
                        ": `scale." + name + "` must be a table, [scale." + name + "]");
    }
    read.scales.push_back(read_scale(name, *node.as_table(), file));
  }
  // toml++ sorts keys; a reader expects the order of the file.
  std::ranges::stable_sort(read.scales, {}, [&](const scale_entry& s) {
    return scales->as_table()->find(s.name)->first.source().begin.line;
  });
  read.scale = chosen_scale(read.scales, scale, file.string());
  toml::table over = std::move(*read.table["scale"][read.scale.name].as_table());
  own_keys own;
  scale_entry any;
  each_key(any, own);
  for (const std::string& key : own.names) over.erase(key);
  read.table.erase("scale");
  lay_over(read.table, over);
  if (toml::table* sweep = read.table["sweep"].as_table()) drop_empty_axes(*sweep);
  return read;
}

std::string some_scale(const std::string& text, const std::filesystem::path& file) {
  const toml::table table = parsed_toml(text, file);
  const toml::table* scales = table["scale"].as_table();
  if (!scales || scales->empty() || scales->contains("tiny")) return "";
  const auto first = std::ranges::min_element(
      *scales, {}, [](const auto& entry) { return entry.first.source().begin.line; });
  return std::string((*first).first.str());
}

}  // namespace unmask
