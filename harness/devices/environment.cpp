// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/environment.h"

#include <omp.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/process.h"
#include "harness/devices/cgroup.h"
#include "harness/devices/machine_use.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Value of the first line "key<spaces><separator> value" of a text file; "" when there is none.
std::string value_of(const char* path, const std::string& key, char separator) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(separator);
    if (at == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    if (line.find_first_not_of(" \t", key.size()) != at) continue;
    const auto begin = line.find_first_not_of(" \t\"", at + 1);
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return "";
}

std::uint64_t meminfo_bytes(const std::string& key) {
  return std::strtoull(value_of("/proc/meminfo", key, ':').c_str(), nullptr, 10) * 1024;
}

std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder) / program;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  return "";
}

void look_at_host(environment& machine) {
  machine.os = value_of("/etc/os-release", "PRETTY_NAME", '=');
  utsname system{};
  if (uname(&system) == 0) {
    machine.kernel = std::string(system.sysname) + " " + system.release;
    machine.architecture = system.machine;
  }
  machine.cpu_model = value_of("/proc/cpuinfo", "model name", ':');
  machine.cpus_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) machine.cpus_usable = CPU_COUNT(&usable);
  const cgroup_limits limits = read_cgroup_limits();
  machine.cpu_quota = limits.cpus;
  machine.memory_limit_bytes = limits.memory_bytes;
  machine.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (getloadavg(machine.load_average.data(), 3) != 3) machine.load_average = {};
  if (std::getenv(shares_machine) != nullptr) machine.notes.emplace_back(shared_machine_note);
  machine.omp_threads = omp_get_max_threads();
  machine.memory_bytes = meminfo_bytes("MemTotal");
  machine.memory_available_bytes = meminfo_bytes("MemAvailable");
}

void look_at_gpus(environment& machine) {
  machine.cuda = cuda::query();
  machine.gpu_counters_restricted =
      value_of("/proc/driver/nvidia/params", "RmProfilingAdminOnly", ':') == "1";
  if (machine.cuda.devices.empty()) {
    machine.notes.push_back(machine.cuda.note);
    return;
  }
  std::vector<std::string> bus_ids;
  for (const auto& device : machine.cuda.devices) bus_ids.push_back(device.pci_bus_id);
  const nvml_report telemetry = query_nvml(bus_ids);
  machine.gpu_driver = telemetry.driver;
  machine.telemetry = telemetry.devices;
  if (!telemetry.note.empty()) machine.notes.push_back(telemetry.note);
  if (machine.gpu_counters_restricted) {
    machine.notes.push_back(
        "GPU counters are for administrators only: run as root, give the container SYS_ADMIN, or "
        "load the driver with NVreg_RestrictProfilingToAdminUsers=0");
  }
}

// Variables that change which kernels run or how a device runs them.
constexpr const char* telling_variables[] = {"UNMASK_CPU_ISA",
                                             "UNMASK_GEMM",
                                             "UNMASK_CUDA_GEMM",
                                             "UNMASK_CUDA_GRAPHS",
                                             "UNMASK_CUDA_KERNELS",
                                             "UNMASK_CUDA_TOWERS",
                                             "UNMASK_CUDA_WGMMA",
                                             "CUDA_LAUNCH_BLOCKING",
                                             "CUDA_FORCE_PTX_JIT",
                                             "CUDA_VISIBLE_DEVICES",
                                             "CUDA_DEVICE_MAX_CONNECTIONS",
                                             "NVIDIA_TF32_OVERRIDE",
                                             "CUBLAS_WORKSPACE_CONFIG",
                                             "OMP_WAIT_POLICY",
                                             "GOMP_CPU_AFFINITY",
                                             "OMP_PROC_BIND"};
// Of these, those that make a GPU slower, or its products less exact, than without.
constexpr const char* slowing_variables[] = {"CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT",
                                             "NVIDIA_TF32_OVERRIDE"};

// What is known without a look at the load.
void find_unfit(environment& machine) {
  const double processors = machine.cpus_usable;
  if (machine.cpu_quota > 0 && machine.cpu_quota < processors) {
    machine.unfit.push_back(fmt::format("a CPU quota allows {:.4g} of {} processors",
                                        machine.cpu_quota, machine.cpus_usable));
  }
  if (machine.cpus_usable > 0 && machine.omp_threads > machine.cpus_usable) {
    machine.unfit.push_back(
        fmt::format("{} threads share {} processors", machine.omp_threads, machine.cpus_usable));
  }
  if (!machine.governor.empty() && machine.governor != "performance") {
    machine.unfit.push_back("the frequency governor is " + machine.governor);
  }
  if (machine.cuda.devices.empty()) return;
  for (const auto& [name, value] : machine.choices) {
    const bool slows = std::ranges::find(slowing_variables, name) != std::end(slowing_variables);
    if (slows && value != "0" && !value.empty()) {
      machine.unfit.push_back(name + "=" + value + " is set");
    }
  }
}

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
          {"tensor_products", tensor_products(this_build().cuda_architectures, device.compute_major,
                                              device.compute_minor)},
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

std::string tensor_products(const std::string& architectures, int major, int minor) {
  const auto is = [](const char* variable, const std::string& value) {
    const char* text = std::getenv(variable);
    return text != nullptr && text == value;
  };
  const bool hopper = major == 9 && minor == 0 && architectures.find("90a") != std::string::npos;
  return hopper && !is("UNMASK_CUDA_WGMMA", "off") && !is("CUDA_FORCE_PTX_JIT", "1") ? "wgmma"
                                                                                     : "mma.sync";
}

environment capture_environment(const std::string& cpu_backend) {
  environment machine;
  machine.build = this_build();
  machine.cpu_backend = cpu_backend;
  look_at_host(machine);
  look_at_gpus(machine);
  for (const char* name : telling_variables) {
    if (const char* value = std::getenv(name)) machine.choices.emplace_back(name, value);
  }
  machine.nsys = on_path("nsys");
  machine.ncu = on_path("ncu");
  find_unfit(machine);
  return machine;
}

void look_at_load(environment& machine) {
  const machine_watch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double share = watch.stop().other_share();
  if (std::isfinite(share)) machine.other_work = share;
  const double load = machine.load_average[0];
  if (machine.other_work > most_other_share) {
    machine.unfit.push_back(fmt::format("other work has {} % of the processors (load {:.1f})",
                                        std::lround(100 * machine.other_work), load));
  } else if (machine.cpus_usable > 0 && load > machine.cpus_usable + 0.5) {
    machine.unfit.push_back(
        fmt::format("the load is {:.1f} on {} processors", load, machine.cpus_usable));
  }
}

void match_threads_to_quota() {
  const double quota = read_cgroup_limits().cpus;
  if (quota <= 0 || std::getenv("OMP_NUM_THREADS") != nullptr) return;
  const int most = std::max(1, static_cast<int>(std::ceil(quota)));
  if (most < omp_get_max_threads()) omp_set_num_threads(most);
}

int operation_threads() {
  return omp_get_max_threads();
}
fewer_threads::fewer_threads(int count) : before_(omp_get_max_threads()) {
  omp_set_num_threads(count);
}
fewer_threads::~fewer_threads() {
  omp_set_num_threads(before_);
}

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
      {"memory_limit_bytes", known(machine.memory_limit_bytes)},
      {"other_work", machine.other_work},
      {"cuda_runtime", cuda_version(machine.cuda.runtime_version)},
      {"cuda_driver", cuda_version(machine.cuda.driver_version)},
      {"gpu_driver", known(machine.gpu_driver)},
      {"gpu_counters_restricted", machine.gpu_counters_restricted},
      {"gpus", std::move(gpus)},
      {"nsys", known(machine.nsys)},
      {"ncu", known(machine.ncu)},
      {"choices", std::move(choices)},
      {"unfit", machine.unfit},
      {"notes", machine.notes},
  };
  // Replacement, not an exception: a strange byte in a device name must not lose a measured row.
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace unmask
