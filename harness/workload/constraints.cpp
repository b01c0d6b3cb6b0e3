// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/constraints.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/text.h"

namespace unmask {
namespace {

using pieces = std::vector<std::string_view>;

std::string needed_text(const json_reader& rule, std::string_view key) {
  std::string text = rule.text(key);
  if (text.empty()) rule.fail(key, "must not be empty");
  return text;
}

bool has_count(const json_reader& rule, std::size_t count) {
  return static_cast<std::int64_t>(count) ==
         rule.integer("count", 0, std::numeric_limits<std::int64_t>::max());
}

bool has_between(std::string_view text, char low, char high) {
  return std::any_of(text.begin(), text.end(), [&](char c) { return c >= low && c <= high; });
}

using text_rule = bool (*)(const json_reader&, std::string_view);
using item_rule = bool (*)(const json_reader&, const pieces&);

// Views of the rule's own strings.
std::set<std::string_view> strings_of(const json_reader& rule, std::string_view key) {
  const json_value::array* values = rule.at(key).items();
  if (values == nullptr) rule.fail(key, "must be an array of strings");
  std::set<std::string_view> set;
  for (const json_value& value : *values) {
    if (value.text() == nullptr) rule.fail(key, "must be an array of strings");
    set.insert(*value.text());
  }
  return set;
}

bool all_in_set(const json_reader& rule, const pieces& items) {
  const std::set<std::string_view> set = strings_of(rule, "set");
  return std::all_of(items.begin(), items.end(), [&](auto item) { return set.contains(item); });
}

bool all_start_with(const json_reader& rule, const pieces& items) {
  const std::string prefix = rule.text("prefix");
  return std::all_of(items.begin(), items.end(),
                     [&](auto item) { return item.starts_with(prefix); });
}

// std::string_view compares bytes as unsigned char, and UTF-8 keeps the order of code points.
bool is_sorted(const json_reader&, const pieces& items) {
  return std::is_sorted(items.begin(), items.end());
}

// A row or column that has as many different symbols of the set as the set is large has each once.
bool is_latin_square(const json_reader& rule, const pieces& rows) {
  const std::set<std::string_view> symbols = strings_of(rule, "set");
  std::vector<std::set<std::string_view>> columns(symbols.size());
  for (std::string_view row : rows) {
    const pieces cells = split(row, " ");
    if (cells.size() != symbols.size()) return false;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!symbols.contains(cells[i])) return false;
      columns[i].insert(cells[i]);
    }
    if (std::set(cells.begin(), cells.end()).size() != symbols.size()) return false;
  }
  return rows.size() == symbols.size() &&
         std::all_of(columns.begin(), columns.end(),
                     [&](const auto& column) { return column.size() == symbols.size(); });
}

struct named_rule {
  const char* name;
  text_rule text = nullptr;
  item_rule items = nullptr;
};

const named_rule rules[] = {
    {"equals", [](const json_reader& r, std::string_view t) { return t == r.text("text"); }},
    {"starts_with",
     [](const json_reader& r, std::string_view t) { return t.starts_with(r.text("text")); }},
    {"ends_with",
     [](const json_reader& r, std::string_view t) { return t.ends_with(r.text("text")); }},
    {"contains",
     [](const json_reader& r, std::string_view t) {
       return t.find(r.text("text")) != std::string_view::npos;
     }},
    {"not_contains",
     [](const json_reader& r, std::string_view t) {
       return t.find(r.text("text")) == std::string_view::npos;
     }},
    {"repeat",
     [](const json_reader& r, std::string_view t) {
       return has_count(r, split(t, needed_text(r, "text")).size() - 1);
     }},
    {"word_count",
     [](const json_reader& r, std::string_view t) { return has_count(r, words_of(t).size()); }},
    {"all_upper",
     [](const json_reader&, std::string_view t) {
       return has_between(t, 'A', 'Z') && !has_between(t, 'a', 'z');
     }},
    {"one_of",
     [](const json_reader& r, std::string_view t) { return strings_of(r, "texts").contains(t); }},
    {"item_count", nullptr,
     [](const json_reader& r, const pieces& items) { return has_count(r, items.size()); }},
    {"items_in", nullptr, all_in_set},
    {"items_unique", nullptr,
     [](const json_reader&, const pieces& items) {
       return std::set(items.begin(), items.end()).size() == items.size();
     }},
    {"sorted", nullptr, is_sorted},
    {"items_start_with", nullptr, all_start_with},
    {"latin_square", nullptr, is_latin_square},
};

const named_rule& find_rule(const json_reader& rule, const std::string& type) {
  std::vector<std::string> names;
  for (const named_rule& known : rules) {
    if (type == known.name) return known;
    names.emplace_back(known.name);
  }
  rule.fail("type", in_ticks(type) + " is no constraint; did you mean " +
                        nearest_list(type, names, 1) + "?");
}

bool holds(const json_reader& rule, const named_rule& known, std::string_view text) {
  if (known.text != nullptr) return known.text(rule, text);
  const std::string end = rule.text_or("strip", "");
  if (text.ends_with(end)) text.remove_suffix(end.size());
  const std::string separator = needed_text(rule, "sep");
  return known.items(rule, split(text, separator));
}

}  // namespace

std::string broken_constraint(const json_reader& check, std::string_view output) {
  const json_value::array* list = check.at("constraints").items();
  if (list == nullptr) check.fail("constraints", "must be an array of objects");
  const std::string_view text = strip(output);
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json_reader rule((*list)[i], check.file(), "constraints[" + std::to_string(i) + "]");
    const std::string type = rule.text("type");
    if (!holds(rule, find_rule(rule, type), text)) return "breaks the constraint " + in_ticks(type);
  }
  return "";
}

}  // namespace unmask
