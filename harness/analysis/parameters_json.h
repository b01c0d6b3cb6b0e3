// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <variant>

#include "harness/base/value.h"

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

}  // namespace unmask
