// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Short forms of the parameter declarations.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/parameters.h"

namespace unmask {

inline parameter_spec integer_spec(std::string name, std::int64_t value, double low, double high,
                                   std::string meaning, std::string source) {
  return {std::move(name), value, std::move(meaning), low, high, {}, std::move(source)};
}
inline parameter_spec real_spec(std::string name, double value, double low, double high,
                                std::string meaning, std::string source) {
  return {std::move(name), value, std::move(meaning), low, high, {}, std::move(source)};
}
inline parameter_spec flag_spec(std::string name, bool value, std::string meaning,
                                std::string source) {
  return {std::move(name), value, std::move(meaning), -1e300, 1e300, {}, std::move(source)};
}
// The first choice is the default.
inline parameter_spec choice_spec(std::string name, std::vector<std::string> choices,
                                  std::string meaning, std::string source) {
  std::string value = choices.front();
  return {std::move(name), std::move(value),   std::move(meaning), -1e300,
          1e300,           std::move(choices), std::move(source)};
}
inline parameter_spec text_spec(std::string name, std::string value, std::string meaning,
                                std::string source) {
  return {std::move(name),  std::move(value), std::move(meaning), -1e300, 1e300, {},
          std::move(source)};
}

// Appends `more` to `to`.
inline void append(std::vector<parameter_spec>& to, std::vector<parameter_spec> more) {
  for (parameter_spec& p : more) to.push_back(std::move(p));
}

}  // namespace unmask
