// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What this room hands out, as JSON. For the .cpp files that write it: includes nlohmann.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/analysis/text_table.h"

namespace unmask {

nlohmann::ordered_json json_of(const std::optional<interval>& range);  // [low, high] or null
// {value, interval, n, n_unit, how}; value null when it is not finite.
nlohmann::ordered_json json_of(const estimate& e);
nlohmann::ordered_json json_of(const text_table& table);  // as render() says

// One value a line where it is an array. Bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace unmask
