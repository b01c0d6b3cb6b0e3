// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <nlohmann/json.hpp>

#include "harness/profile/environment.h"

namespace unmask {
namespace {

using json = nlohmann::ordered_json;

// "Not known" is null, so that no reader mistakes a zero for a measurement.
json known(const std::string& text) {
  return text.empty() ? json() : json(text);
}
template <class Number>
json known(Number value) {
  return value == Number{} ? json() : json(value);
}
template <class Value>
json known(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

// CUDA's 13000 as "13.0".
json cuda_version(int value) {
  if (value == 0) return {};
  return std::to_string(value / 1000) + "." + std::to_string(value % 1000 / 10);
}

json build_json(const build_info& build) {
  return {{"version", build.version},
          {"git_commit", build.git_commit},
          {"git_dirty", build.git_dirty},
          {"compiler", build.compiler},
          {"flags", build.flags},
          {"build_type", build.build_type},
          {"cuda_toolkit", known(std::string(build.cuda_toolkit))},
          {"cuda_architectures", known(std::string(build.cuda_architectures))}};
}

json gpu_json(const cuda::device_properties& device, const gpu_telemetry& now) {
  return {{"name", device.name},
          {"pci_bus_id", device.pci_bus_id},
          {"compute_capability",
           std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor)},
          {"multiprocessors", device.multiprocessors},
          {"memory_bytes", device.memory_bytes},
          {"l2_bytes", device.l2_bytes},
          {"memory_bus_bits", known(device.memory_bus_bits)},
          {"core_clock_limit_khz", known(device.core_clock_khz)},
          {"memory_clock_limit_khz", known(device.memory_clock_khz)},
          {"ecc", device.ecc},
          {"sm_clock_mhz", known(now.sm_clock_mhz)},
          {"memory_clock_mhz", known(now.memory_clock_mhz)},
          {"max_sm_clock_mhz", known(now.max_sm_clock_mhz)},
          {"max_memory_clock_mhz", known(now.max_memory_clock_mhz)},
          {"temperature_c", known(now.temperature_c)},
          {"power_limit_watts", known(now.power_limit_watts)},
          {"throttle_reasons", known(now.throttle_reasons)},
          {"mig", known(now.mig)}};
}

}  // namespace

std::string environment_json(const environment& machine) {
  json gpus = json::array();
  for (std::size_t i = 0; i < machine.cuda.devices.size(); ++i) {
    const bool told = i < machine.telemetry.size();
    gpus.push_back(
        gpu_json(machine.cuda.devices[i], told ? machine.telemetry[i] : gpu_telemetry{}));
  }
  json choices = json::object();
  for (const auto& [name, value] : machine.choices) choices[name] = value;
  const json all = {
      {"build", build_json(machine.build)},
      {"os", known(machine.os)},
      {"kernel", known(machine.kernel)},
      {"architecture", known(machine.architecture)},
      {"cpu_model", known(machine.cpu_model)},
      {"cpus_online", known(machine.cpus_online)},
      {"cpus_usable", known(machine.cpus_usable)},
      {"cpu_quota", known(machine.cpu_quota)},
      {"cpu_backend", known(machine.cpu_backend)},
      {"governor", known(machine.governor)},
      {"load_average", machine.load_average},
      {"omp_threads", known(machine.omp_threads)},
      {"memory_bytes", known(machine.memory_bytes)},
      {"memory_available_bytes", known(machine.memory_available_bytes)},
      {"cuda_runtime", cuda_version(machine.cuda.runtime_version)},
      {"cuda_driver", cuda_version(machine.cuda.driver_version)},
      {"gpu_driver", known(machine.gpu_driver)},
      {"gpu_counters_restricted", machine.gpu_counters_restricted},
      {"gpus", std::move(gpus)},
      {"nsys", known(machine.nsys)},
      {"ncu", known(machine.ncu)},
      {"choices", std::move(choices)},
      {"notes", machine.notes},
  };
  // Replacement, not an exception: a strange byte in a device name must not lose a measured row.
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace unmask
