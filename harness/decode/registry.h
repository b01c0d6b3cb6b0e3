// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every method by name. A method registers itself at the bottom of its file; a duplicate name
// throws, an unknown one is answered with the nearest matches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/decode/policies.h"

namespace unmask {

struct method_info {
  std::string name;
  std::string summary;  // one line
  std::string paper;    // citation
  std::string source;   // folder of the implementation
  // Slot contents in words, for `unmask show`.
  std::string pace, rows, keys, cache, unmask;
  std::vector<parameter_spec> parameters;
  // Named settings of published codes; values override the defaults.
  std::map<std::string, parameter_map> presets;
  // Throws a usage error when the method cannot decode this model (by name and reason).
  std::function<void(const model_config&, const class parameters&)> check;
  std::function<recipe(const model_config&, const class parameters&)> make;
};

class method_registry {
 public:
  static method_registry& instance();
  void add(method_info info);  // throws std::logic_error on a duplicate name
  const method_info& find(const std::string& name) const;
  std::vector<std::string> names() const;  // sorted

  // Resolve parameters (preset first, then given values), check against the model, build.
  // `preset` empty: defaults only. The resolved values are returned through `resolved`.
  recipe make(const std::string& method, const model_config& model, const std::string& preset,
              const parameter_map& given, parameter_map* resolved = nullptr) const;

 private:
  std::vector<method_info> methods_;
};

struct register_method {
  explicit register_method(method_info info) { method_registry::instance().add(std::move(info)); }
};

}  // namespace unmask
