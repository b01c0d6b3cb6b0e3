// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/environment.h"

#include <omp.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/base/process.h"

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

// cgroup v2: "max 100000" or "200000 100000" (microseconds of time per period).
double cgroup_quota() {
  std::istringstream text(first_line("/sys/fs/cgroup/cpu.max"));
  double quota = 0;
  double period = 0;
  return text >> quota >> period && period > 0 ? quota / period : 0;
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
  machine.cpu_quota = cgroup_quota();
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

}  // namespace

environment capture_environment(const std::string& cpu_backend) {
  environment machine;
  machine.build = this_build();
  machine.cpu_backend = cpu_backend;
  look_at_host(machine);
  look_at_gpus(machine);
  for (const char* name :
       {"UNMASK_CPU_ISA", "UNMASK_GEMM", "UNMASK_CUDA_GEMM", "UNMASK_CUDA_GRAPHS"}) {
    if (const char* value = std::getenv(name)) machine.choices.emplace_back(name, value);
  }
  machine.nsys = on_path("nsys");
  machine.ncu = on_path("ncu");
  return machine;
}

}  // namespace unmask
