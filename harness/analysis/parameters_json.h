// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <variant>

#include "harness/analysis/row.h"

namespace unmask {

// Parameters as one JSON object; Json: nlohmann::json or nlohmann::ordered_json.
template <class Json>
Json json_of(const parameter_map& params) {
  Json out = Json::object();
  for (const auto& [name, value] : params) {
    std::visit([&, &key = name](const auto& v) { out[key] = v; }, value);
  }
  return out;
}

// What a point runs with, a member per key of [run]; of kind serve also "serve".
template <class Json>
void put_run(Json& out, const run_settings& run) {
  for (const run_key& key : run_key_list()) {
    std::visit([&](const auto member) { out[key.name] = run.*member; }, key.field);
  }
  if (run.kind == "serve") out["serve"] = json_of<Json>(run.serve);
}

}  // namespace unmask
