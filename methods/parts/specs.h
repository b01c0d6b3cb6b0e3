// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Short forms of the parameter declarations.
#pragma once

#include <algorithm>
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

// At these choices another run may decide otherwise (parameter_spec::varies).
inline parameter_spec varying_at(std::vector<std::string> choices, parameter_spec spec) {
  spec.varies = [choices = std::move(choices)](const parameter_value& value) {
    return std::ranges::find(choices, std::get<std::string>(value)) != choices.end();
  };
  return spec;
}
// Above zero another run may: a temperature that samples.
inline parameter_spec varying_above_zero(parameter_spec spec) {
  spec.varies = [](const parameter_value& value) { return std::get<double>(value) > 0; };
  return spec;
}

// A parameter that came when rows had been measured (parameter_spec::later).
inline parameter_spec later(parameter_spec spec) {
  spec.later = true;
  return spec;
}

// Parameters that forecasts read (parameter_spec::fact), under the names that methods share.
inline parameter_spec saying(pace_fact fact, parameter_spec spec) {
  spec.fact = fact;
  return spec;
}
inline parameter_spec steps_spec(std::int64_t value, double low, double high, std::string meaning,
                                 std::string source) {
  return saying(pace_fact::steps,
                integer_spec("steps", value, low, high, std::move(meaning), std::move(source)));
}
inline parameter_spec tokens_per_step_spec(std::int64_t value, double low, double high,
                                           std::string meaning, std::string source) {
  return saying(pace_fact::tokens_per_step, integer_spec("tokens_per_step", value, low, high,
                                                         std::move(meaning), std::move(source)));
}
inline parameter_spec block_length_spec(std::int64_t value, double low, double high,
                                        std::string meaning, std::string source) {
  return saying(pace_fact::block_length, integer_spec("block_length", value, low, high,
                                                      std::move(meaning), std::move(source)));
}
inline parameter_spec chunk_spec(std::int64_t value, double low, double high, std::string meaning,
                                 std::string source) {
  return saying(pace_fact::chunk,
                integer_spec("chunk", value, low, high, std::move(meaning), std::move(source)));
}

// Appends `more` to `to`.
inline void append(std::vector<parameter_spec>& to, std::vector<parameter_spec> more) {
  for (parameter_spec& p : more) to.push_back(std::move(p));
}

}  // namespace unmask
