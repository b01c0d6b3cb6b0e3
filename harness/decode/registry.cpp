// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/registry.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/decode/interpreted.h"

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

namespace {

// Methods come before main() and, with rules that are not compiled, at any time after it. Whoever has
// found a method keeps the reference: it must not move.
constexpr std::size_t most_methods = 4096;
std::shared_mutex& access() {
  static std::shared_mutex lock;
  return lock;
}

}  // namespace

method_registry& method_registry::instance() {
  static method_registry registry = [] {
    method_registry empty;
    empty.methods_.reserve(most_methods);
    return empty;
  }();
  return registry;
}

void method_registry::add(method_info info) {
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
  const std::unique_lock hold(access());
  for (const method_info& m : methods_) {
    if (m.name != info.name || (is_interpreted(m) && is_interpreted(info))) continue;
    if (is_interpreted(info)) {
      throw usage_error("'" + info.name + "' is a compiled method; give the rule another name");
    }
    throw std::logic_error("method '" + info.name + "' registered twice");
  }
  if (methods_.size() == most_methods) {
    throw usage_error("this process has registered " + std::to_string(most_methods) +
                      " methods; start it anew");
  }
  methods_.push_back(std::move(info));
}

std::vector<std::string> method_registry::names() const {
  const std::shared_lock hold(access());
  std::vector<std::string> names = names_in(methods_, &method_info::name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// An interpreted rule that was registered again counts from then on.
const method_info& method_registry::find(const std::string& name) const {
  {
    const std::shared_lock hold(access());
    const auto last =
        std::ranges::find(methods_.rbegin(), methods_.rend(), name, &method_info::name);
    if (last != methods_.rend()) return *last;
  }
  std::string sentence = unknown_name("method", name, names());
  if (sentence.find("; did you mean ") == std::string::npos) {
    sentence += "; a rule of yours in Python needs --rule FILE.py";
  }
  throw usage_error(sentence);
}

const method_info* method_registry::replaying(const std::string& runs) const {
  const std::shared_lock hold(access());
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
