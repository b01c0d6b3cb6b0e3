// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/device.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/devices/build_info.h"
#include "harness/plan/settings.h"
#include "kernels/backend.h"

namespace unmask {

bool runs_code_of(const std::string& architectures, int major, int minor) {
  std::istringstream in(architectures);
  for (std::string one; in >> one;) {
    int number = 0;
    const auto [end, failed] = std::from_chars(one.data(), one.data() + one.size(), number);
    if (failed != std::errc{}) continue;
    const std::string_view rest(end, one.data() + one.size());
    const int built_major = number / 10, built_minor = number % 10;
    // "90a": for that capability alone. Others: later ones of the same major; PTX for all later ones.
    if (rest.starts_with("a")) {
      if (major == built_major && minor == built_minor) return true;
      continue;
    }
    if (major == built_major && minor >= built_minor) return true;
    if (rest != "-real" && major > built_major) return true;
  }
  return false;
}

std::string why_no_gpu(const cuda::report& machine, const std::string& architectures) {
  if (machine.devices.empty()) {
    return machine.note.empty() ? "no GPU: the driver shows no device" : machine.note;
  }
  const cuda::device_properties& d = machine.devices.front();
  if (runs_code_of(architectures, d.compute_major, d.compute_minor)) return "";
  return fmt::format("no usable GPU: {} has compute capability {}.{}, this program has code for {}",
                     d.name, d.compute_major, d.compute_minor, architectures);
}

chosen_device choose_device(const std::string& wanted, const cuda::report& machine,
                            const std::string& architectures) {
  if (wanted != "auto" && wanted != "cuda") return {wanted, ""};
  const std::string missing = why_no_gpu(machine, architectures);
  if (missing.empty()) return {"cuda", machine.devices.front().name};
  if (wanted == "auto") return {"cpu", missing};
  throw environment_error("device cuda: " + missing + "; use device auto or cpu");
}

chosen_device choose_device(const std::string& wanted) {
  if (wanted == "cuda-emulated") (void)cuda_emulated_backend();  // throws where it is not built
  if (wanted != "auto" && wanted != "cuda") return {wanted, ""};
  return choose_device(wanted, cuda::query(), this_build().cuda_architectures);
}

std::string why_no_gpu() {
  return why_no_gpu(cuda::query(), this_build().cuda_architectures);
}

std::string device_line(const std::vector<chosen_device>& devices) {
  std::string line = "device: ";
  for (const chosen_device& d : devices) {
    line += (&d == &devices.front() ? "" : ", ") + d.name;
    if (!d.why.empty()) line += " (" + d.why + ")";
  }
  return line;
}

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
