// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/official_runs.h"

#include <stdexcept>

namespace unmask::inline decode {
namespace {

std::map<std::string, official_runs>& all() {
  static std::map<std::string, official_runs> runs;
  return runs;
}

}  // namespace

register_official_runs::register_official_runs(official_runs runs) {
  const std::string name = runs.name;
  if (!all().emplace(name, std::move(runs)).second) {
    throw std::logic_error("official runs '" + name + "' registered twice");
  }
}

const official_runs* find_official_runs(const std::string& name) {
  const auto at = all().find(name);
  return at == all().end() ? nullptr : &at->second;
}

parameter_map take(const parameter_map& recorded, const std::vector<std::string>& names) {
  parameter_map taken;
  for (const std::string& name : names) {
    if (const auto at = recorded.find(name); at != recorded.end()) taken.insert(*at);
  }
  return taken;
}

bool says(const parameter_map& recorded, const std::string& name, const std::string& text) {
  const auto at = recorded.find(name);
  return at != recorded.end() && at->second == parameter_value(text);
}

}  // namespace unmask::decode
