// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A setting's value as files, command lines and result rows hold it, and settings by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace unmask {

using parameter_value = std::variant<bool, std::int64_t, double, std::string>;
using parameter_map = std::map<std::string, parameter_value>;

// The shortest text that reads back as the same value, so that equal settings are equal text.
std::string to_string(const parameter_value& value);

}  // namespace unmask
