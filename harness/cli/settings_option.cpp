// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/settings_option.h"

#include <charconv>

#include "harness/base/error.h"

namespace unmask {
namespace {

template <class T>
bool whole(const std::string& text, T& out) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failure == std::errc{} && end == text.data() + text.size();
}

parameter_value typed(const parameter_spec& spec, const std::string& text) {
  const std::string name = "parameter '" + spec.name + "'";
  if (std::holds_alternative<bool>(spec.default_value)) {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    throw usage_error(name + " is true or false, not '" + text + "'");
  }
  if (std::holds_alternative<std::int64_t>(spec.default_value)) {
    std::int64_t value = 0;
    if (whole(text, value)) return value;
    throw usage_error(name + " is a whole number, not '" + text + "'");
  }
  if (std::holds_alternative<double>(spec.default_value)) {
    double value = 0;
    if (whole(text, value)) return value;
    throw usage_error(name + " is a number, not '" + text + "'");
  }
  return text;
}

}  // namespace

parameter_map parse_settings(const method_info& method, const std::vector<std::string>& texts) {
  parameter_map settings;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw usage_error("--set takes name=value, not '" + text + "'");
    }
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    settings[name] = value;
    for (const parameter_spec& spec : method.parameters) {
      if (spec.name == name) settings[name] = typed(spec, value);
    }
  }
  return settings;
}

}  // namespace unmask
