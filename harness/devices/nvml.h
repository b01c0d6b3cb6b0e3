// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The driver's telemetry library, opened at run time: no toolkit ships it, every driver does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace unmask {

// What the driver says about one device now. Empty: it does not say.
struct gpu_telemetry {
  std::optional<unsigned> sm_clock_mhz, memory_clock_mhz;
  std::optional<unsigned> max_sm_clock_mhz, max_memory_clock_mhz;
  std::optional<unsigned> temperature_c;
  std::optional<double> power_limit_watts;
  std::optional<std::uint64_t> throttle_reasons;  // NVML's bit mask; 1: only idle
  std::optional<bool> mig;                        // multi-instance mode: the device is a slice
};

struct nvml_report {
  std::string driver;                  // "580.95.05"; empty: unknown
  std::vector<gpu_telemetry> devices;  // one per bus id asked for
  std::string note;                    // one sentence when the library does not answer
};

// Asks `library` about the devices with these PCI bus ids. Never throws.
nvml_report query_nvml(const std::vector<std::string>& pci_bus_ids,
                       const char* library = "libnvidia-ml.so.1");

// Energy and power of one device, as its driver counts them. Absent where it does not: an old GPU, a
// slice of one, no driver.
class energy_meter {
 public:
  // The device with this PCI bus id; empty: none, and nothing can be read.
  explicit energy_meter(const std::string& pci_bus_id, const char* library = "libnvidia-ml.so.1");
  // Since the driver was loaded; it moves every few ten milliseconds.
  std::optional<double> joules() const;
  std::optional<double> watts() const;
  std::optional<double> sm_clock_mhz() const;
  // Whether the clock is held down by the power cap, by heat, or by the board: not by a setting.
  std::optional<bool> throttled() const;

 private:
  void *library_ = nullptr, *device_ = nullptr;  // never closed
};

// Reads the power of a device every few milliseconds on a thread of its own, until it is destroyed.
class power_sampler {
 public:
  // Keeps at most `most` samples. `period`: seconds between two.
  explicit power_sampler(const energy_meter& meter, double period = 0.005,
                         std::size_t most = 200'000);
  power_sampler& operator=(power_sampler&&) = delete;
  // Stops; nanoseconds of the steady clock and watts. Empty where power cannot be read.
  std::vector<std::pair<std::int64_t, double>> finish();

 private:
  std::vector<std::pair<std::int64_t, double>> values_;
  std::jthread thread_;  // writes them
};

// What a device did in a span of time, in means over samples; empty where its driver does not say.
struct device_load {
  std::optional<double> watts, sm_clock_mhz;
  std::optional<double> throttled_share;  // of the samples
};

// Samples power, clock and throttling every `period` seconds on a thread of its own, until it is finished.
// The first sample is taken at once, so that a short span has one.
class load_sampler {
 public:
  explicit load_sampler(const energy_meter& meter, double period = 0.05);
  load_sampler& operator=(load_sampler&&) = delete;
  device_load finish();  // stops

 private:
  struct sum {
    double total = 0;
    std::int64_t samples = 0;
    void add(std::optional<double> value);
    std::optional<double> mean() const;
  };
  sum watts_, clock_, throttled_;
  std::jthread thread_;  // writes them
};

// The same with the energy of the span.
struct device_use {
  std::optional<double> joules;
  device_load load;
};

// From its beginning until it is finished.
class use_meter {
 public:
  explicit use_meter(const energy_meter& meter)
      : meter_(meter), before_(meter.joules()), load_(meter) {}
  device_use finish();

 private:
  energy_meter meter_;
  std::optional<double> before_;
  load_sampler load_;
};

// Of devices that work together: the sums of energy and power, the mean clock, and the share of the one that was
// throttled longest. A field is empty if one device lacks it.
device_use use_of_all(const std::vector<device_use>& devices);

}  // namespace unmask
