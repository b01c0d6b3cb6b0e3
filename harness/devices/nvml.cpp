// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/nvml.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "kernels/cuda/device.h"

namespace unmask {
namespace {

// NVML's stable C interface, by hand: pip-style toolkits carry no nvml.h. 0 is success everywhere.
using device_handle = void*;
using result_code = int;
constexpr int clock_sm = 1;
constexpr int clock_memory = 2;
constexpr int sensor_gpu = 0;

// Calls `name` from the library; false when it is absent or fails.
template <class... Arguments>
bool call(void* library, const char* name, Arguments... arguments) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) return false;
  return reinterpret_cast<result_code (*)(Arguments...)>(symbol)(arguments...) == 0;
}

template <class Value, class... Arguments>
std::optional<Value> ask(void* library, const char* name, Arguments... arguments) {
  Value value{};
  if (!call(library, name, arguments..., &value)) return std::nullopt;
  return value;
}

// Bits of NVML's mask: power cap, slow-down by hardware, by heat (software, hardware), by the power brake.
// Idle, clocks that were set, and groups of devices in step are no such reasons.
constexpr std::uint64_t held_down = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

std::optional<std::uint64_t> throttle_reasons_of(void* library, device_handle device) {
  using mask = unsigned long long;
  auto reasons = ask<mask>(library, "nvmlDeviceGetCurrentClocksEventReasons", device);
  if (!reasons) {  // the name before driver 535
    reasons = ask<mask>(library, "nvmlDeviceGetCurrentClocksThrottleReasons", device);
  }
  return reasons;
}

gpu_telemetry describe(void* library, device_handle device) {
  gpu_telemetry result;
  result.sm_clock_mhz = ask<unsigned>(library, "nvmlDeviceGetClockInfo", device, clock_sm);
  result.memory_clock_mhz = ask<unsigned>(library, "nvmlDeviceGetClockInfo", device, clock_memory);
  result.max_sm_clock_mhz = ask<unsigned>(library, "nvmlDeviceGetMaxClockInfo", device, clock_sm);
  result.max_memory_clock_mhz =
      ask<unsigned>(library, "nvmlDeviceGetMaxClockInfo", device, clock_memory);
  result.temperature_c = ask<unsigned>(library, "nvmlDeviceGetTemperature", device, sensor_gpu);
  if (const auto limit = ask<unsigned>(library, "nvmlDeviceGetEnforcedPowerLimit", device)) {
    result.power_limit_watts = *limit * 1e-3;  // NVML counts milliwatts
  }
  result.throttle_reasons = throttle_reasons_of(library, device);
  unsigned mig_now = 0;
  unsigned mig_pending = 0;
  if (call(library, "nvmlDeviceGetMigMode", device, &mig_now, &mig_pending)) {
    result.mig = mig_now != 0;
  }
  return result;
}

}  // namespace

nvml_report query_nvml(const std::vector<std::string>& pci_bus_ids, const char* library_name) {
  nvml_report result;
  result.devices.resize(pci_bus_ids.size());
  // Never closed: other parts of the process may hold it, and some versions crash on unloading.
  void* library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !call(library, "nvmlInit_v2")) {
    result.note = "no GPU telemetry: " + std::string(library_name) +
                  (library == nullptr ? " is not on this machine" : " does not start");
    return result;
  }
  std::array<char, 96> driver{};
  if (call(library, "nvmlSystemGetDriverVersion", driver.data(),
           static_cast<unsigned>(driver.size()))) {
    result.driver = driver.data();
  }
  for (std::size_t i = 0; i < pci_bus_ids.size(); ++i) {
    device_handle device = nullptr;
    if (call(library, "nvmlDeviceGetHandleByPciBusId_v2", pci_bus_ids[i].c_str(), &device)) {
      result.devices[i] = describe(library, device);
    } else {
      result.note = "no GPU telemetry for device " + pci_bus_ids[i];
    }
  }
  (void)call(library, "nvmlShutdown");
  return result;
}

energy_meter::energy_meter(const std::string& pci_bus_id, const char* library) {
  if (pci_bus_id.empty()) return;
  library_ = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr || !call(library_, "nvmlInit_v2")) return;
  if (!call(library_, "nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &device_)) {
    device_ = nullptr;
  }
}

std::optional<double> energy_meter::joules() const {
  if (device_ == nullptr) return std::nullopt;
  const auto counted =
      ask<unsigned long long>(library_, "nvmlDeviceGetTotalEnergyConsumption", device_);
  if (!counted) return std::nullopt;
  return static_cast<double>(*counted) * 1e-3;  // NVML counts millijoules
}

std::optional<double> energy_meter::watts() const {
  if (device_ == nullptr) return std::nullopt;
  const auto now = ask<unsigned>(library_, "nvmlDeviceGetPowerUsage", device_);
  if (!now) return std::nullopt;
  return *now * 1e-3;  // NVML counts milliwatts
}

std::optional<double> energy_meter::sm_clock_mhz() const {
  if (device_ == nullptr) return std::nullopt;
  return ask<unsigned>(library_, "nvmlDeviceGetClockInfo", device_, clock_sm);
}

std::optional<bool> energy_meter::throttled() const {
  if (device_ == nullptr) return std::nullopt;
  const auto reasons = throttle_reasons_of(library_, device_);
  if (!reasons) return std::nullopt;
  return (*reasons & held_down) != 0;
}

power_sampler::power_sampler(const energy_meter& meter, double period, std::size_t most) {
  if (!meter.watts()) return;
  thread_ = std::jthread([this, meter, period, most](const std::stop_token& stop) {
    while (!stop.stop_requested() && values_.size() < most) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      if (const auto watts = meter.watts()) {
        values_.emplace_back(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                             *watts);
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(period));
    }
  });
}

std::vector<std::pair<std::int64_t, double>> power_sampler::finish() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  return std::move(values_);
}

void load_sampler::sum::add(std::optional<double> value) {
  if (!value) return;
  total += *value;
  ++samples;
}

std::optional<double> load_sampler::sum::mean() const {
  if (samples == 0) return std::nullopt;
  return total / static_cast<double>(samples);
}

load_sampler::load_sampler(const energy_meter& meter, double period) {
  if (!meter.watts() && !meter.sm_clock_mhz() && !meter.throttled()) return;
  thread_ = std::jthread([this, meter, period](const std::stop_token& stop) {
    std::mutex asleep;
    std::condition_variable_any wake;
    std::unique_lock hold(asleep);
    do {
      watts_.add(meter.watts());
      clock_.add(meter.sm_clock_mhz());
      throttled_.add(meter.throttled());
    } while (!wake.wait_for(hold, stop, std::chrono::duration<double>(period),
                            [&] { return stop.stop_requested(); }));
  });
}

device_load load_sampler::finish() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  return {watts_.mean(), clock_.mean(), throttled_.mean()};
}

device_use use_meter::finish() {
  device_use use{{}, load_.finish()};
  if (const std::optional<double> after = meter_.joules(); before_ && after) {
    use.joules = *after - *before_;
  }
  return use;
}

device_use use_of_all(const std::vector<device_use>& devices) {
  if (devices.empty()) return {};
  const auto combined = [&](const auto& field, const auto& combine) -> std::optional<double> {
    std::optional<double> all;
    for (const device_use& d : devices) {
      const std::optional<double>& one = field(d);
      if (!one) return std::nullopt;
      all = all ? combine(*all, *one) : *one;
    }
    return all;
  };
  const auto sum = [](double a, double b) { return a + b; };
  const auto larger = [](double a, double b) { return std::max(a, b); };
  device_use all;
  all.joules = combined(
      [](const device_use& d) -> auto& { return d.joules; }, sum);
  all.load.watts = combined(
      [](const device_use& d) -> auto& { return d.load.watts; }, sum);
  all.load.throttled_share = combined(
      [](const device_use& d) -> auto& { return d.load.throttled_share; }, larger);
  all.load.sm_clock_mhz = combined(
      [](const device_use& d) -> auto& { return d.load.sm_clock_mhz; }, sum);
  if (all.load.sm_clock_mhz) *all.load.sm_clock_mhz /= static_cast<double>(devices.size());
  return all;
}

}  // namespace unmask
