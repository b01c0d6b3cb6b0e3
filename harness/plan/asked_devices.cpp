// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/asked_devices.h"

#include <algorithm>

#include "harness/plan/settings.h"

namespace unmask {

std::vector<std::string> devices_of(const experiment_spec& spec) {
  std::vector<std::string> devices = {spec.run.device};
  for (const sweep_axis& axis : spec.axes) {
    if (short_key(axis.key) != "device") continue;
    if (spec.mode != sweep_mode::leave_one_out) devices.clear();
    for (const parameter_value& v : axis.values) devices.push_back(to_string(v));
  }
  for (const dotted_setting& s : spec.overrides) {
    if (s.key == "device" || s.key == "run.device") devices = {to_string(s.value)};
  }
  std::vector<std::string> once;
  for (const std::string& d : devices) {
    if (std::ranges::find(once, d) == once.end()) once.push_back(d);
  }
  return once;
}

std::vector<chosen_device> choose_devices(const experiment_spec& spec) {
  std::vector<chosen_device> chosen;
  for (const std::string& wanted : devices_of(spec)) {
    const chosen_device one = choose_device(wanted);
    const auto same = [&](const chosen_device& d) { return d.name == one.name; };
    if (std::ranges::none_of(chosen, same)) chosen.push_back(one);
  }
  return chosen;
}

}  // namespace unmask
