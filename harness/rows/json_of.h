// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What this room hands out, as JSON. For the .cpp files that write it: includes nlohmann.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include "harness/base/json.h"
#include "harness/rows/row.h"
#include "harness/rows/text_table.h"

namespace unmask {

// What a text holds, which may be anybody's; discarded where it is no JSON or is_hostile_json().
template <class Json = nlohmann::ordered_json>
Json tree_of(std::string_view text) {
  return is_hostile_json(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}

// Parameters as one JSON object; Json: nlohmann::json or nlohmann::ordered_json.
template <class Json>
Json json_of(const parameter_map& params) {
  Json out = Json::object();
  for (const auto& [name, value] : params) {
    std::visit([&, &key = name](const auto& v) { out[key] = v; }, value);
  }
  return out;
}

// A parameter from JSON: a whole number stays one, unless no count is as large.
template <class Json>
parameter_value parameter_of(const Json& value) {
  if (value.is_boolean()) return value.template get<bool>();
  const bool signed_too = !value.is_number_unsigned() ||
                          value.template get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  if (value.is_number_integer() && signed_too) return value.template get<std::int64_t>();
  if (value.is_number()) return value.template get<double>();
  return value.template get<std::string>();
}

// What a point runs with, a member per key of [run]; of kind serve also "serve".
template <class Json>
void put_run(Json& out, const run_settings& run) {
  for (const run_key& key : run_key_list()) {
    std::visit([&](const auto member) { out[key.name] = run.*member; }, key.field);
  }
  if (run.kind == "serve") out["serve"] = json_of<Json>(run.serve);
}

nlohmann::ordered_json json_of(const interval& range);    // [low, high]
nlohmann::ordered_json json_of(const text_table& table);  // as render() says

template <class T>
nlohmann::ordered_json json_of(const std::optional<T>& value) {  // null where there is none
  if (!value) return nullptr;
  if constexpr (requires { json_of(*value); }) {
    return json_of(*value);
  } else {
    return *value;
  }
}

// One value a line where it is an array. Bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace unmask
