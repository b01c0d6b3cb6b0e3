// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/row_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "harness/rows/row_schema.h"

namespace unmask {
namespace {

using nlohmann::json;
using schema = nlohmann::ordered_json;

constexpr double largest_number = 1e100;  // nothing that is counted or timed comes near
constexpr double largest_whole = 9007199254740992.0;

std::string in_words(const std::string& type) {
  constexpr std::pair<std::string_view, const char*> words[] = {
      {"string", "a text"},   {"boolean", "true or false"}, {"integer", "a whole number"},
      {"number", "a number"}, {"object", "an object"},      {"array", "a list"}};
  for (const auto& [name, said] : words) {
    if (name == type) return said;
  }
  return type;
}

bool is_of(const json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "null") return value.is_null();
  if (value.is_number_integer()) return true;
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return number == std::floor(number) && std::abs(number) <= largest_whole;
}

std::string wrong(const std::string& path, const std::string& wanted, const json& value) {
  return "`" + path + "` should be " + wanted + " and is " + value.type_name();
}

std::string misfit_of_type(const json& value, const schema& types, const std::string& path) {
  const schema several = types.is_array() ? types : schema::array({types});
  std::string wanted;
  bool counts = false;
  for (const schema& type : several) {
    const auto& name = type.get_ref<const std::string&>();
    if (is_of(value, name)) {
      wanted.clear();
      counts = name == "integer";
      break;
    }
    wanted += (wanted.empty() ? "" : " or ") + in_words(name);
  }
  if (!wanted.empty()) return wrong(path, wanted, value);
  if (!value.is_number()) return "";
  constexpr std::uint64_t last = std::numeric_limits<std::int64_t>::max();
  if (counts && value.is_number_unsigned() && value.get<std::uint64_t>() > last) {
    return "`" + path + "` is beyond every count";
  }
  return std::abs(value.get<double>()) <= largest_number
             ? ""
             : "`" + path + "` is larger than anything that is measured";
}

std::string misfit(const json& value, const schema& of, const std::string& path);

std::string misfit_of_members(const json& value, const schema& of, const std::string& path) {
  const auto place = [&](const std::string& name) {
    return path.empty() ? name : path + "." + name;
  };
  const schema needed = of.value("required", schema::array());
  for (const schema& name : needed) {
    const auto& text = name.get_ref<const std::string&>();
    if (!value.contains(text)) return "`" + place(text) + "` is missing";
  }
  const auto properties = of.find("properties"), others = of.find("additionalProperties");
  for (const auto& [name, member] : value.items()) {
    if (member.is_null() && std::ranges::find(needed, schema(name)) == needed.end() &&
        others == of.end()) {
      continue;  // absent
    }
    const schema* inside = others == of.end() ? nullptr : &*others;
    if (properties != of.end()) {
      const auto found = properties->find(name);
      if (found != properties->end()) inside = &*found;
    }
    if (inside == nullptr) continue;
    std::string problem = misfit(member, *inside, place(name));
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string misfit(const json& value, const schema& of, const std::string& path) {
  if (const auto words = of.find("enum"); words != of.end()) {
    if (!value.is_string()) return wrong(path, "a text", value);
    const auto& text = value.get_ref<const std::string&>();
    const bool known = std::ranges::any_of(
        *words, [&](const schema& word) { return word.get_ref<const std::string&>() == text; });
    return known ? "" : "`" + path + "` is '" + text + "', which is no known value";
  }
  if (const auto types = of.find("type"); types != of.end()) {
    std::string problem = misfit_of_type(value, *types, path);
    if (!problem.empty()) return problem;
  }
  if (value.is_object()) return misfit_of_members(value, of, path);
  if (!value.is_array()) return "";
  if (const auto least = of.find("minItems"); least != of.end()) {
    if (value.size() != least->get<std::size_t>()) {
      return "`" + path + "` should hold " + least->dump() + " values";
    }
  }
  const auto inside = of.find("items");
  if (inside == of.end()) return "";
  for (const json& item : value) {
    std::string problem = misfit(item, *inside, path + "[]");
    if (!problem.empty()) return problem;
  }
  return "";
}

// What the schema cannot say: what one member says of another.
std::string problem_of_metrics(const json& row) {
  for (const auto& [name, value] : row["metrics"].items()) {
    if (!row["provenance"].contains(name)) return "`provenance` does not name `" + name + "`";
  }
  const auto samples = row.find("metric_samples");
  if (samples == row.end() || samples->is_null()) return "";
  for (const auto& [name, values] : samples->items()) {
    if (!row["metrics"].contains(name)) return "`metric_samples." + name + "` is of no metric";
  }
  return "";
}

std::string problem_of_items(const json& row) {
  const auto items = row.find("items");
  if (items == row.end() || items->is_null()) return "";
  for (const auto& [name, list] : items->items()) {
    if (list.is_array() && list.size() != (*items)["id"].size()) {
      return "`items` holds lists of different lengths";
    }
  }
  return "";
}

}  // namespace

std::string problem_of_row(const json& row) {
  static const schema of = schema::parse(row_schema_text());
  std::string problem = misfit(row, of, "");
  if (problem.empty()) problem = problem_of_metrics(row);
  return problem.empty() ? problem_of_items(row) : problem;
}

}  // namespace unmask
