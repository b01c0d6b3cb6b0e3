// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/registry.h"

#include <algorithm>
#include <stdexcept>

namespace unmask {

parameter_map method_info::resolve(const std::string& preset, const parameter_map& given) const {
  parameter_map values = given;
  if (!preset.empty()) {
    find_known("preset of " + name, preset, keys_of(presets));
    const parameter_map& published = presets.at(preset);
    values.insert(published.begin(), published.end());
  }
  return resolve_parameters(name, parameters, values);
}

method_registry& method_registry::instance() {
  static method_registry registry;
  return registry;
}

void method_registry::add(method_info info) {
  for (const method_info& m : methods_) {
    if (m.name == info.name) throw std::logic_error("method '" + info.name + "' registered twice");
  }
  if (!info.make) throw std::logic_error("method '" + info.name + "' has no make");
  if (!info.check) throw std::logic_error("method '" + info.name + "' has no check");
  for (const auto& [runs, settings] : info.official) {
    if (replaying(runs)) throw std::logic_error("official runs '" + runs + "' registered twice");
  }
  info.make = [name = info.name, make = std::move(info.make)](const model_config& model,
                                                              const parameters& settings) {
    recipe r = make(model, settings);
    r.method = name;
    return r;
  };
  methods_.push_back(std::move(info));
}

std::vector<std::string> method_registry::names() const {
  std::vector<std::string> names = names_in(methods_, &method_info::name);
  std::sort(names.begin(), names.end());
  return names;
}

const method_info& method_registry::find(const std::string& name) const {
  const auto at = std::ranges::find(methods_, name, &method_info::name);
  if (at == methods_.end()) throw usage_error(unknown_name("method", name, names()));
  return *at;
}

const method_info* method_registry::replaying(const std::string& runs) const {
  const auto replays = [&](const method_info& m) { return m.official.contains(runs); };
  const auto at = std::ranges::find_if(methods_, replays);
  return at == methods_.end() ? nullptr : &*at;
}

recipe method_registry::make(const std::string& method, const model_config& model,
                             const parameters& settings) const {
  const method_info& info = find(method);
  info.check(model, settings);
  return info.make(model, settings);
}

}  // namespace unmask
