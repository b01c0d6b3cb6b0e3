// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/registry.h"

#include <algorithm>
#include <stdexcept>

namespace unmask::inline decode {

method_registry& method_registry::instance() {
  static method_registry registry;
  return registry;
}

void method_registry::add(method_info info) {
  for (const method_info& m : methods_) {
    if (m.name == info.name) throw std::logic_error("method '" + info.name + "' registered twice");
  }
  methods_.push_back(std::move(info));
}

std::vector<std::string> method_registry::names() const {
  std::vector<std::string> names;
  for (const method_info& m : methods_) names.push_back(m.name);
  std::sort(names.begin(), names.end());
  return names;
}

const method_info& method_registry::find(const std::string& name) const {
  for (const method_info& m : methods_) {
    if (m.name == name) return m;
  }
  throw usage_error(unknown_name("method", name, names()));
}

recipe method_registry::make(const std::string& method, const model_config& model,
                             const std::string& preset, const parameter_map& given,
                             parameter_map* resolved) const {
  const method_info& info = find(method);
  parameter_map merged;
  if (!preset.empty()) {
    const auto p = info.presets.find(preset);
    if (p == info.presets.end()) {
      std::vector<std::string> known;
      for (const auto& [name, values] : info.presets) known.push_back(name);
      throw usage_error(unknown_name("preset of " + method, preset, known));
    }
    merged = p->second;
  }
  for (const auto& [name, value] : given) merged[name] = value;
  const parameters settings(resolve_parameters(method, info.parameters, merged));
  if (resolved) *resolved = settings.values();
  info.check(model, settings);
  recipe r = info.make(model, settings);
  r.method = method;
  return r;
}

}  // namespace unmask::decode
