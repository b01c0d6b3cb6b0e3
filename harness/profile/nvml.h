// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The driver's telemetry library, opened at run time: no toolkit ships it, every driver does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

}  // namespace unmask
