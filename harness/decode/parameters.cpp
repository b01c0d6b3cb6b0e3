// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/parameters.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/base/error.h"

namespace unmask {
namespace {

const char* type_name(const parameter_value& value) {
  static constexpr const char* names[] = {"a boolean", "an integer", "a number", "a string"};
  return names[value.index()];
}

std::string range_text(const parameter_spec& spec, bool integral) {
  const auto bound = [&](double value) {
    return integral ? std::to_string(static_cast<std::int64_t>(value))
                    : to_string(parameter_value(value));
  };
  const bool low = spec.minimum > -1e300, high = spec.maximum < 1e300;
  if (low && high) return "from " + bound(spec.minimum) + " to " + bound(spec.maximum);
  return low ? "at least " + bound(spec.minimum) : "at most " + bound(spec.maximum);
}

// `given` in the type of the parameter, or a usage error.
parameter_value checked(const std::string& owner, const parameter_spec& spec,
                        const parameter_value& given) {
  const std::string who = owner + ": parameter '" + spec.name + "' ";
  parameter_value value = given;
  if (std::holds_alternative<double>(spec.default_value)) {
    if (const auto* whole = std::get_if<std::int64_t>(&given)) value = static_cast<double>(*whole);
  }
  if (value.index() != spec.default_value.index()) {
    throw usage_error(who + "takes " + type_name(spec.default_value) + ", not " + type_name(given) +
                      " (" + to_string(given) + ")");
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (!spec.choices.empty() && std::ranges::find(spec.choices, *text) == spec.choices.end()) {
      throw usage_error(who + "cannot be '" + *text + "'; choose one of " + joined(spec.choices));
    }
    return value;
  }
  if (std::holds_alternative<bool>(value)) return value;
  const auto* whole = std::get_if<std::int64_t>(&value);
  const double number = whole ? static_cast<double>(*whole) : std::get<double>(value);
  // Written so that NaN fails.
  if (!(number >= spec.minimum && number <= spec.maximum) || !std::isfinite(number)) {
    const bool bounded = spec.minimum > -1e300 || spec.maximum < 1e300;
    throw usage_error(who + "is " + to_string(value) + " but must be " +
                      (bounded ? range_text(spec, whole != nullptr) : "finite"));
  }
  return value;
}

}  // namespace

parameter_map take(const parameter_map& given, const std::vector<std::string>& names) {
  parameter_map taken;
  for (const std::string& name : names) {
    if (const auto at = given.find(name); at != given.end()) taken.insert(*at);
  }
  return taken;
}

bool says(const parameter_map& given, const std::string& name, const std::string& text) {
  const auto at = given.find(name);
  return at != given.end() && at->second == parameter_value(text);
}

parameter_map resolve_parameters(const std::string& owner, const std::vector<parameter_spec>& specs,
                                 const parameter_map& given) {
  parameter_map resolved;
  const std::vector<std::string> names = names_in(specs, &parameter_spec::name);
  for (const parameter_spec& spec : specs) resolved[spec.name] = spec.default_value;
  for (const auto& [name, value] : given) {
    resolved[name] = checked(owner, specs[find_known("parameter", name, names, owner)], value);
  }
  return resolved;
}

parameter_map identity_of(const std::vector<parameter_spec>& specs, parameter_map resolved) {
  for (const parameter_spec& spec : specs) {
    const auto at = resolved.find(spec.name);
    if (spec.later && at != resolved.end() && at->second == spec.default_value) resolved.erase(at);
  }
  return resolved;
}

bool varies(const std::vector<parameter_spec>& specs, const parameter_map& resolved) {
  return std::ranges::any_of(specs, [&](const parameter_spec& spec) {
    return spec.varies && spec.varies(resolved.at(spec.name));
  });
}

template <class T>
const T& parameters::get(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    throw std::logic_error("parameter '" + name + "' is not declared by this method");
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    throw std::logic_error("parameter '" + name + "' is declared as " + type_name(found->second) +
                           " and read as another type");
  }
  return *value;
}

template const bool& parameters::get(const std::string& name) const;
template const std::int64_t& parameters::get(const std::string& name) const;
template const double& parameters::get(const std::string& name) const;
template const std::string& parameters::get(const std::string& name) const;

}  // namespace unmask
