// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/value.h"

#include <charconv>

namespace unmask {

std::string to_string(const parameter_value& value) {
  struct printer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t whole) const { return std::to_string(whole); }
    std::string operator()(double real) const {
      char buffer[64];
      const auto [end, status] = std::to_chars(buffer, buffer + sizeof buffer, real);
      return status == std::errc() ? std::string(buffer, end) : std::to_string(real);
    }
    std::string operator()(const std::string& text) const { return text; }
  };
  return std::visit(printer{}, value);
}

}  // namespace unmask
