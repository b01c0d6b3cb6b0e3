// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

#include <algorithm>
#include <stdexcept>

namespace unmask {
namespace {

std::vector<method_settings>& table() {
  static std::vector<method_settings> all;
  return all;
}

}  // namespace

const std::vector<method_settings>& all_method_settings() {
  return table();
}

std::vector<setting> all_settings() {
  std::vector<setting> all;
  for (const method_settings& m : table()) {
    all.insert(all.end(), m.settings.begin(), m.settings.end());
  }
  return all;
}

register_settings::register_settings(method_settings of) {
  std::vector<method_settings>& all = table();
  const auto place = std::ranges::lower_bound(all, of.method, {}, &method_settings::method);
  if (place != all.end() && place->method == of.method) {
    throw std::logic_error("settings of method " + of.method + " registered twice");
  }
  for (setting& s : of.settings) s.method = of.method;
  all.insert(place, std::move(of));
}

}  // namespace unmask
