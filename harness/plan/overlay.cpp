// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/overlay.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"
#include "harness/plan/locate.h"
#include "harness/plan/needs.h"
#include "harness/plan/read_keys.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

bool has_entries(const std::string& key) {
  return key == "model" || key == "workload" || key == "method";
}

[[noreturn]] void refuse(const toml::source_region& at, const std::string& sentence) {
  throw usage_error(place_in_file(at, "") + ": " + sentence);
}

std::string text_of(const toml::table& table, const char* key) {
  const auto* text = table[key].as_string();
  return text ? text->get() : "";
}

// A text, or texts with a comma between.
std::string words_of(const toml::table& table, const char* key) {
  std::vector<std::string> words;
  if (const toml::array* several = table[key].as_array()) {
    for (const toml::node& one : *several) {
      if (one.is_string()) words.push_back(one.as_string()->get());
    }
  }
  return words.empty() ? text_of(table, key) : joined(words);
}

std::string last_part(const std::string& path) {
  const fs::path given = path.starts_with("weights:") ? path.substr(8) : path;
  return (given.has_filename() ? given : given.parent_path()).filename().string();
}

// The key that an entry cannot do without, of those that it has; empty: it has none.
std::string content_of(const std::string& kind, const toml::table& entry) {
  std::vector<const char*> keys = {"tasks", "benchmark", "file", "trace", "lengths"};
  if (kind == "model") keys = {"path"};
  if (kind == "method") keys = {"name"};
  for (const char* key : keys) {
    if (entry.contains(key)) return key;
  }
  return {};
}

const char* name_key(const std::string& kind) {
  return kind == "method" ? "label" : "name";
}

// As its rows are told from those of others; empty: it says nothing of it.
std::string name_of(const std::string& kind, const toml::table& entry) {
  const std::string given = text_of(entry, name_key(kind));
  if (!given.empty()) return given;
  const std::string key = content_of(kind, entry);
  if (key.empty()) return {};
  const std::string words = words_of(entry, key.c_str());
  if (key == "path") return last_part(words);
  if (key == "file" || key == "trace") return fs::path(words).stem().string();
  const std::string task = key == "benchmark" ? text_of(entry, "task") : "";
  return task.empty() ? words : words + "/" + task;
}

// One [kind] table counts as one entry.
toml::array entries_of_node(toml::node&& node, const std::string& kind) {
  toml::array entries;
  if (toml::table* one = node.as_table()) {
    entries.push_back(std::move(*one));
  } else if (toml::array* several = node.as_array()) {
    entries = std::move(*several);
  } else {
    refuse(node.source(), "`" + kind + "` must be written as [[" + kind + "]]");
  }
  for (const toml::node& entry : entries) {
    if (entry.is_table()) continue;
    refuse(entry.source(), "`" + kind + "` must be written as [[" + kind + "]]");
  }
  return entries;
}

// Whether the table says `remove = true`, which is taken out of it.
bool takes_remove(toml::table& table) {
  toml::node* node = table.get("remove");
  if (node == nullptr) return false;
  if (!node->is_boolean() || !node->as_boolean()->get()) {
    refuse(node->source(), "`remove` takes true");
  }
  table.erase("remove");
  return true;
}

class layer {
 public:
  // other: the file below, for messages.
  explicit layer(std::string other) : other_(std::move(other)) {}

  // Tables with words of their own are the top, [scale], [scale.NAME] and what is right below them.
  enum class at { top, scales, scale, inside };

  void lay(toml::table& base, toml::table& over, at level, const std::string& path) {
    for (auto&& [key, node] : over) {
      const std::string name(key.str());
      const std::string full = path.empty() ? name : path + "." + name;
      if (has_entries(name) && (level == at::top || level == at::scale)) {
        lay_entries(base, key, node, full);
      } else if (level != at::inside && node.is_table()) {
        lay_table(base, key, *node.as_table(), level, full);
      } else {
        replace_or_merge(base, key, node);
      }
    }
  }

 private:
  void lay_table(toml::table& base, const toml::key& key, toml::table& over, at level,
                 const std::string& path) {
    const std::string name(key.str());
    toml::table* below = base.get(name) ? base.get(name)->as_table() : nullptr;
    const bool replaces = takes_remove(over);
    if (replaces && below == nullptr) {
      refuse(over.source(), unknown_name("table of " + other_, name, tables_in(base)));
    }
    if (replaces) {
      base.erase(name);
      below = nullptr;
      if (over.empty()) return;
    }
    const at inner = below_level(level, name);
    if (below == nullptr) {
      refuse_removals(over, inner, path);
      base.insert_or_assign(key, std::move(over));
    } else {
      lay(*below, over, inner, path);
    }
  }

  static at below_level(at level, const std::string& name) {
    if (level == at::top) return name == "scale" ? at::scales : at::inside;
    return level == at::scales ? at::scale : at::inside;
  }

  // In a table that the other file does not have there is nothing to remove.
  void refuse_removals(const toml::table& table, at level, const std::string& path) const {
    if (level == at::inside) return;
    const auto refuse_one = [&](const toml::node& node, const std::string& head) {
      const toml::table* inner = node.as_table();
      if (inner && inner->contains("remove")) {
        refuse(inner->get("remove")->source(), other_ + " has no " + head);
      }
    };
    for (const auto& [key, node] : table) {
      const std::string name(key.str()), full = path + "." + name;
      const toml::array* entries = node.as_array();
      refuse_one(node, "[" + full + "]");
      if (node.is_table()) refuse_removals(*node.as_table(), below_level(level, name), full);
      if (entries == nullptr || !has_entries(name)) continue;
      for (const toml::node& entry : *entries) refuse_one(entry, "[[" + full + "]]");
    }
  }

  void replace_or_merge(toml::table& base, const toml::key& key, toml::node& node) {
    toml::node* below = base.get(key.str());
    if (below && below->is_table() && node.is_table()) {
      lay(*below->as_table(), *node.as_table(), at::inside, "");
      return;
    }
    node.visit([&](auto& value) { base.insert_or_assign(key, std::move(value)); });
  }

  void lay_entries(toml::table& base, const toml::key& key, toml::node& node,
                   const std::string& path) {
    const std::string kind(key.str());
    toml::array inherited, added;
    if (toml::node* below = base.get(kind)) inherited = entries_of_node(std::move(*below), kind);
    for (toml::node& entry : entries_of_node(std::move(node), kind)) {
      lay_entry(inherited, *entry.as_table(), kind, path, added);
    }
    for (toml::node& entry : added) inherited.push_back(std::move(*entry.as_table()));
    base.erase(kind);
    if (!inherited.empty()) base.insert_or_assign(key, std::move(inherited));
  }

  void lay_entry(toml::array& inherited, toml::table& entry, const std::string& kind,
                 const std::string& path, toml::array& added) {
    const std::string name = name_of(kind, entry);
    if (takes_remove(entry)) {
      take_away(inherited, entry, kind, name, path);
      return;
    }
    std::vector<toml::table*> changed;
    for (toml::node& below : inherited) {
      if (name_of(kind, *below.as_table()) == name) changed.push_back(below.as_table());
    }
    if (changed.empty() && content_of(kind, entry).empty()) {
      refuse(entry.source(), unknown(kind, name, path, inherited));
    }
    for (std::size_t i = 1; i < changed.size(); ++i) {  // copies, which know no line any more
      toml::table copy = entry;
      change(*changed[i], copy, kind, path);
    }
    if (changed.empty()) {
      added.push_back(std::move(entry));
    } else {
      change(*changed.front(), entry, kind, path);
    }
  }

  // A name that only says which entry is meant is no key of it.
  void change(toml::table& below, toml::table& entry, const std::string& kind,
              const std::string& path) {
    if (!below.contains(name_key(kind))) entry.erase(name_key(kind));
    lay(below, entry, at::inside, path);
  }

  void take_away(toml::array& inherited, const toml::table& entry, const std::string& kind,
                 const std::string& name, const std::string& path) const {
    for (const auto& [key, value] : entry) {
      if (key.str() == name_key(kind) || key.str() == content_of(kind, entry)) continue;
      refuse(key.source(), "`" + path + "." + std::string(key.str()) +
                               "`: an entry with `remove` " + "has its name and no other key");
    }
    const std::size_t before = inherited.size();
    for (auto it = inherited.begin(); it != inherited.end();) {
      const bool gone = name.empty() || name_of(kind, *it->as_table()) == name;
      it = gone ? inherited.erase(it) : it + 1;
    }
    if (inherited.size() == before) refuse(entry.source(), unknown(kind, name, path, inherited));
  }

  std::string unknown(const std::string& kind, const std::string& name, const std::string& path,
                      const toml::array& inherited) const {
    if (name.empty() || inherited.empty()) {
      return other_ + " has no [[" + path + "]]" + (inherited.empty() ? "" : " without a name");
    }
    std::vector<std::string> names;
    for (const toml::node& below : inherited) names.push_back(name_of(kind, *below.as_table()));
    return unknown_name("[[" + path + "]] of " + other_, name, names);
  }

  static std::vector<std::string> tables_in(const toml::table& table) {
    std::vector<std::string> names;
    for (const auto& [key, node] : table) {
      if (node.is_table()) names.emplace_back(key.str());
    }
    return names;
  }

  std::string other_;
};

// The keys of a table that hold paths, by their older names too.
struct path_keys : key_visitor {
  std::vector<std::string> names;
  template <class Value>
  void operator()(const file_key& key, Value&) {
    if constexpr (std::same_as<Value, fs::path>) add(key);
  }
  void hashed(const file_key& key, fs::path&, std::string&) { add(key); }
  void add(const file_key& key) {
    names.emplace_back(key.name);
    if (*key.former != '\0') names.emplace_back(key.former);
  }
};

template <class Table>
std::vector<std::string> path_keys_of() {
  Table any;
  path_keys keys;
  each_key(any, keys);
  return keys.names;
}

fs::path folder_of(const fs::path& file) {
  return fs::absolute(file).parent_path().lexically_normal();
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const fs::path rest = path.lexically_relative(folder);
  return !folder.empty() && !rest.empty() && *rest.begin() != "..";
}

// Whether a path is a name that is looked up: of published weights or traces, or, of a model, one in
// the cache of Hugging Face or of what comes with the program.
bool is_looked_up(const std::string& path, bool of_model, const fs::path& file) {
  if (path.starts_with("weights:") || path.starts_with("trace:")) return true;
  std::error_code none;
  if (!of_model || fs::exists(beside(file, path), none)) return false;
  const bool published = std::ranges::count(path, '/') == 1 && !path.starts_with('.');
  return published || find_embedded(path, file.parent_path()).has_value();
}

// A path of `other` as `file` names it: from its own folder, or from the program's where only `other`
// comes with the program.
std::string seen_from(const std::string& path, bool of_model, const fs::path& other,
                      const fs::path& file) {
  if (path.empty() || fs::path(path).is_absolute()) return path;
  if (is_looked_up(path, of_model, other)) return path;
  const fs::path there = (folder_of(other) / path).lexically_normal();
  const fs::path shipped = shipped_experiments();
  if (is_below(there, shipped) && !is_below(folder_of(file) / "any", shipped)) {
    return ("experiments" / there.lexically_relative(shipped)).generic_string();
  }
  const fs::path near = there.lexically_relative(folder_of(file));
  return (near.empty() ? there : near).generic_string();
}

// The paths of [[kind]] entries, or of one [kind] table.
void move_paths(toml::table& table, const std::string& kind, const fs::path& other,
                const fs::path& file) {
  static const auto of_models = path_keys_of<model_entry>();
  static const auto of_workloads = path_keys_of<workload_table>();
  const bool models = kind == "model";
  const auto move = [&](toml::node& entry) {
    if (!entry.is_table()) return;
    for (const std::string& key : models ? of_models : of_workloads) {
      auto* path = (*entry.as_table())[key].as_string();
      const bool of_model = models ? key == "path" : key == "judge";
      if (path) *path = seen_from(path->get(), of_model, other, file);
    }
  };
  toml::node* entries = table.get(kind);
  if (entries == nullptr) return;
  if (toml::array* several = entries->as_array()) {
    for (toml::node& entry : *several) move(entry);
  } else {
    move(*entries);
  }
}

// The paths of the table, of `other`, and of its scales, as `file` names them.
void move_paths(toml::table& table, const fs::path& other, const fs::path& file) {
  if (folder_of(other) == folder_of(file)) return;
  const auto move = [&](toml::table& of) {
    move_paths(of, "model", other, file);
    move_paths(of, "workload", other, file);
  };
  move(table);
  toml::table* scales = table["scale"].as_table();
  if (scales == nullptr) return;
  for (auto&& [name, scale] : *scales) {
    if (scale.is_table()) move(*scale.as_table());
  }
}

// The file that `extends` names.
fs::path extended_file(const toml::node& node, const fs::path& file, const path_bounds& bounds) {
  const auto* text = node.as_string();
  if (text == nullptr || text->get().empty()) {
    refuse(node.source(), "`extends` takes the name of an experiment file");
  }
  const fs::path near = beside(file, text->get());
  const fs::path found =
      is_file(near) ? near : find_embedded(text->get(), file.parent_path()).value_or(near);
  if (!is_file(found)) {
    refuse(node.source(), "`extends` is '" + text->get() + "', and there is no such file; " +
                              looked_in(file.parent_path()));
  }
  if (!may_read(found, bounds)) {
    refuse(node.source(), "`extends` is " + found.string() + ", outside " + bounds.folder.string() +
                              "; --allow-outside lets this experiment read and write anywhere");
  }
  return found;
}

// Takes the axes of a [sweep] away that have no value, which say so. Axes lie below dotted keys.
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

fs::path real_path(const fs::path& file) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(file, failed);
  return failed ? file : real;
}

// above: the files that extend this one, and itself.
extended_table read_with(const std::string& text, const fs::path& file, const path_bounds& bounds,
                         std::vector<fs::path> above) {
  extended_table read{parsed_toml(text, file), {}, {file}};
  const toml::node* named = read.table.get("extends");
  if (named == nullptr) return read;
  const fs::path other = extended_file(*named, file, bounds);
  const auto same = [&](const fs::path& one) { return real_path(one) == real_path(other); };
  if (std::ranges::any_of(above, same)) {
    refuse(named->source(), "`extends` is " + other.string() + ", which extends this file");
  }
  above.push_back(other);
  extended_table base = read_with(toml_text(other, "experiment"), other, bounds, above);
  read.extends = read.table["extends"].value_or(std::string());
  read.table.erase("extends");
  base.table.erase("artifact");
  move_paths(base.table, other, file);
  layer(other.string()).lay(base.table, read.table, layer::at::top, "");
  if (toml::table* sweep = base.table["sweep"].as_table()) drop_empty_axes(*sweep);
  base.files.push_back(file);
  return {std::move(base.table), read.extends, std::move(base.files)};
}

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

// Names of scales in the order of their file, those of a file that it extends before. (toml++ sorts
// keys; a reader expects the order of the file.)
std::vector<std::string> in_order(const toml::table& scales,
                                  const std::vector<std::filesystem::path>& files) {
  std::vector<std::pair<std::pair<std::ptrdiff_t, std::size_t>, std::string>> found;
  for (const auto& [key, node] : scales) {
    const toml::source_region& at = key.source();
    const auto file = std::ranges::find(files, std::filesystem::path(at.path ? *at.path : ""));
    found.push_back({{file - files.begin(), at.begin.line}, std::string(key.str())});
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [place, name] : found) names.push_back(std::move(name));
  return names;
}

}  // namespace

extended_table with_what_it_extends(const std::string& text, const fs::path& file,
                                    const path_bounds& bounds) {
  return read_with(text, file, bounds, {file});
}

std::string whole_text(const std::string& text, const fs::path& file, const path_bounds& bounds) {
  const extended_table read = with_what_it_extends(text, file, bounds);
  if (read.extends.empty()) return text;
  std::ostringstream out;
  out << toml::toml_formatter(read.table, toml::format_flags::allow_unicode_strings) << "\n";
  return out.str();
}

experiment_table overlaid_table(const std::string& text, const std::filesystem::path& file,
                                const std::string& scale, const path_bounds& bounds) {
  experiment_table read;
  extended_table whole = with_what_it_extends(text, file, bounds);
  read.table = std::move(whole.table);
  read.extends = whole.extends;
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
  for (const std::string& name : in_order(*scales->as_table(), whole.files)) {
    const auto found = scales->as_table()->find(name);
    if (!found->second.is_table()) {
      throw usage_error(place_in_file(found->first.source(), file.string()) + ": `scale." + name +
                        "` must be a table, [scale." + name + "]");
    }
    read.scales.push_back(read_scale(name, *found->second.as_table(), file));
  }
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
  const extended_table whole = with_what_it_extends(text, file, {});
  const toml::table* scales = whole.table["scale"].as_table();
  if (!scales || scales->empty() || scales->contains("tiny")) return "";
  return in_order(*scales, whole.files).front();
}

}  // namespace unmask
