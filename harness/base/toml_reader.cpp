// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/toml_reader.h"

#include <algorithm>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

toml_reader::asked_keys* asked = nullptr;

std::string kind_of(const toml::node& node) {
  std::ostringstream text;
  text << node.type();
  return text.str();
}

}  // namespace

toml_reader::toml_reader(const toml::table& table, std::string file, std::string path)
    : table_(table), file_(std::move(file)), path_(std::move(path)) {}

std::string toml_reader::where(const toml::node& node) const {
  return place_in_file(node.source(), file_);
}

std::filesystem::path toml_reader::file_of(const toml::node& node) const {
  return node.source().path ? *node.source().path : file_;
}

void toml_reader::fail(const toml::node& node, const std::string& sentence) const {
  throw usage_error(where(node) + ": " + sentence);
}

std::string toml_reader::name_of(const std::string& key) const {
  return "`" + (path_.empty() ? key : path_ + "." + key) + "`";
}

void toml_reader::note_asked(asked_keys* into) {
  asked = into;
}

const toml::node* toml_reader::find(const std::string& key) {
  known_.insert(key);
  if (asked != nullptr) (*asked)[path_].insert(key);
  return table_.get(key);
}

void toml_reader::text(const std::string& key, std::string& into) {
  const toml::node* node = find(key);
  if (!node) return;
  const auto* value = node->as_string();
  if (!value) fail(*node, name_of(key) + " takes a string, not " + kind_of(*node));
  into = value->get();
}

void toml_reader::flag(const std::string& key, bool& into) {
  const toml::node* node = find(key);
  if (!node) return;
  const auto* value = node->as_boolean();
  if (!value) fail(*node, name_of(key) + " takes true or false, not " + kind_of(*node));
  into = value->get();
}

void toml_reader::integer(const std::string& key, std::int64_t& into, std::int64_t low,
                          std::int64_t high) {
  const toml::node* node = find(key);
  if (!node) return;
  const auto* value = node->as_integer();
  if (!value) fail(*node, name_of(key) + " takes an integer, not " + kind_of(*node));
  if (value->get() < low || value->get() > high) {
    fail(*node, name_of(key) + " is " + std::to_string(value->get()) + " but must be " +
                    (high == std::numeric_limits<std::int64_t>::max()
                         ? "at least " + std::to_string(low)
                         : "from " + std::to_string(low) + " to " + std::to_string(high)));
  }
  into = value->get();
}

void toml_reader::real(const std::string& key, double& into, double low, double high) {
  const toml::node* node = find(key);
  if (!node) return;
  if (!node->is_number()) fail(*node, name_of(key) + " takes a number, not " + kind_of(*node));
  const double value = *node->value<double>();
  if (!(value >= low && value <= high)) {
    fail(*node, name_of(key) + " is " + to_string(parameter_value(value)) + " but must be from " +
                    to_string(parameter_value(low)) + " to " + to_string(parameter_value(high)));
  }
  into = value;
}

void toml_reader::texts(const std::string& key, std::vector<std::string>& into) {
  const toml::node* node = find(key);
  if (!node) return;
  const toml::array* items = node->as_array();
  if (!items) fail(*node, name_of(key) + " takes an array of strings, not " + kind_of(*node));
  for (const toml::node& item : *items) {
    if (!item.is_string()) {
      fail(item, name_of(key) + " takes an array of strings, but holds " + kind_of(item));
    }
    into.push_back(item.as_string()->get());
  }
}

void toml_reader::tables(const std::string& key, const std::function<void(toml_reader&)>& read) {
  const toml::node* node = find(key);
  if (!node) return;
  const auto read_one = [&](const toml::node& item) {
    const toml::table* table = item.as_table();
    if (!table) fail(item, name_of(key) + " must be written as [[" + key + "]]");
    toml_reader inner(*table, file_, path_.empty() ? key : path_ + "." + key);
    read(inner);
    inner.finish();
  };
  if (const toml::array* items = node->as_array()) {
    for (const toml::node& item : *items) read_one(item);
  } else {
    read_one(*node);
  }
}

void toml_reader::table(const std::string& key, const std::function<void(toml_reader&)>& read) {
  const toml::node* node = find(key);
  if (!node) return;
  if (!node->is_table()) fail(*node, name_of(key) + " must be a table, [" + key + "]");
  tables(key, read);
}

void toml_reader::scalars(const std::string& key, parameter_map& into) {
  table(key, [&](toml_reader& inner) {
    for (const auto& [name, node] : inner.table_) {
      const std::string text(name.str());
      inner.known_.insert(text);
      into[text] = toml_scalar(node, where(node) + ": " + inner.name_of(text));
    }
  });
}

void toml_reader::leaves(const std::function<void(const std::string&, const toml::node&)>& visit) {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (!known_.insert(name).second) continue;  // already read
    if (const toml::table* below = node.as_table()) {
      toml_reader(*below, file_, "").leaves([&](const std::string& tail, const toml::node& leaf) {
        visit(name + "." + tail, leaf);
      });
    } else {
      visit(name, node);
    }
  }
}

void toml_reader::finish() const {
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (known_.contains(name)) continue;
    throw usage_error(place_in_file(key.source(), file_) + ": " +
                      unknown_name(path_.empty() ? "key" : "key of [" + path_ + "]", name, known));
  }
}

std::size_t toml_reader::choice(const std::string& what, const std::string& word,
                                const std::vector<std::string>& known) const {
  return find_known(what, word, known, where());
}

std::string place_in_file(const toml::source_region& at, const std::string& file) {
  const std::string name = at.path ? *at.path : file;
  return at.begin.line > 0 ? name + ":" + std::to_string(at.begin.line) : name;
}

parameter_value toml_scalar(const toml::node& node, const std::string& where) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* text = node.as_string()) return text->get();
  throw usage_error(where + " takes a boolean, a number or a string, not " + kind_of(node));
}

std::string toml_text(const std::filesystem::path& file, const std::string& what) {
  constexpr std::size_t largest = std::size_t{16} << 20;
  std::error_code none;
  if (!std::filesystem::exists(file, none)) {
    throw environment_error(file.string() + " does not exist");
  }
  try {
    return read_file(file, largest);
  } catch (const error& problem) {
    throw usage_error("cannot read the " + what + " " + problem.what());
  }
}

toml::table parsed_toml(const std::string& text, const std::filesystem::path& file) {
  try {
    return toml::parse(text, file.string());
  } catch (const toml::parse_error& problem) {
    throw usage_error(file.string() + ":" + std::to_string(problem.source().begin.line) + ": " +
                      std::string(problem.description()));
  }
}

}  // namespace unmask
