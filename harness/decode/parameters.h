// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Parameters of a method: declared once with type, default, range and meaning; everything else
// (validation, --help, `unmask show`, resolved settings in result rows) is derived.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/base/nearest.h"
#include "harness/base/value.h"

namespace unmask {

// What a parameter says of the pace, for forecasts (harness/plan/forecast.h): steps of the answer, of
// each block if the model has blocks; tokens that a step decides; tokens of a block or of a chunk.
enum class pace_fact : std::uint8_t { none, steps, tokens_per_step, block_length, chunk };

struct parameter_spec {
  std::string name;
  parameter_value default_value;             // its alternative is the parameter's type
  std::string meaning;                       // one line, with unit
  double minimum = -1e300, maximum = 1e300;  // of numbers, inclusive
  std::vector<std::string> choices;          // of strings; empty: any
  std::string source;                        // paper equation or official file
  // Whether another run may decide otherwise at this value: tokens, rows or keys are drawn by the
  // seed, or the clock is read. Empty: at none.
  std::function<bool(const parameter_value&)> varies = {};
  pace_fact fact = pace_fact::none;  // one parameter of a method at most says each
  // Declared when rows had been measured: at its default it is no part of a point's id, so that they
  // keep theirs.
  bool later = false;
};

// Values with every default filled in. Unknown names, wrong types and values out of range are
// usage errors that name `owner` and the nearest known name. Integers are accepted for reals.
parameter_map resolve_parameters(const std::string& owner, const std::vector<parameter_spec>& specs,
                                 const parameter_map& given);

// The resolved parameters that a point's id is made of.
parameter_map identity_of(const std::vector<parameter_spec>& specs, parameter_map resolved);

// Whether another run with these resolved parameters may decide otherwise (parameter_spec::varies).
bool varies(const std::vector<parameter_spec>& specs, const parameter_map& resolved);

// The given parameters of these names, unchanged; names that are not there are left out.
parameter_map take(const parameter_map& given, const std::vector<std::string>& names);

// Whether the given parameter is this text.
bool says(const parameter_map& given, const std::string& name, const std::string& text);

// Typed access to a resolved map; asking for a name that is not there is a programming error.
class parameters {
 public:
  explicit parameters(parameter_map values) : values_(std::move(values)) {}
  bool flag(const std::string& name) const { return get<bool>(name); }
  std::int64_t integer(const std::string& name) const { return get<std::int64_t>(name); }
  double real(const std::string& name) const { return get<double>(name); }
  const std::string& text(const std::string& name) const { return get<std::string>(name); }
  const parameter_map& values() const { return values_; }

 private:
  template <class T>
  const T& get(const std::string& name) const;
  parameter_map values_;
};

}  // namespace unmask
