// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What CUDA devices there are and what their memory and arithmetic can do. Host-only and free of
// CUDA headers; device.cpp and measured_roofs.cpp answer in a CUDA build, absent.cpp in every
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace unmask {
class backend;
}

namespace unmask::cuda {

struct device_properties {
  int index = 0;
  std::string name;
  std::string pci_bus_id;  // "0000:17:00.0", the key under which NVML knows the device
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  int core_clock_khz = 0;    // highest; 0: the driver does not say
  int memory_clock_khz = 0;  // highest; 0: the driver does not say
  int memory_bus_bits = 0;
  bool ecc = false;
};

struct report {
  bool built = false;       // this program has a CUDA backend
  int runtime_version = 0;  // 1000 * major + 10 * minor of the linked runtime
  int driver_version = 0;   // same, highest the driver supports; 0: no driver
  std::vector<device_properties> devices;
  std::string note;  // one sentence when there is no device, else empty
};

// Never throws: "no driver", "driver too old" and "no device" are all a report without devices.
report query();

// Multiprocessors of the first GPU if `card`, else those of the emulator, which has four.
inline int multiprocessors_of(bool card) {
  const report machine = card ? query() : report{};
  return machine.devices.empty() ? 4 : machine.devices.front().multiprocessors;
}

// cuda_backend() where the GPU can read memory that the backend did not allocate (HMM or ATS), else
// null. For tests whose operands are ordinary vectors; resident memory is managed from then on, so
// that they can read results in place.
const backend* gpu_reading_host_memory();
bool host_reads_resident_memory();

struct copy_roof {
  double bytes_per_second = 0;  // read plus written, best repetition
  double median_bytes_per_second = 0;
  std::size_t bytes = 0;  // of one buffer
  int repetitions = 0;
};

// The device-memory roof: copies a buffer much larger than L2 and checks what arrived. Throws an
// environment error when the device is absent or has too little free memory, a failed run when it
// miscopies.
copy_roof measure_copy_roof(int device);

// What multiplies: float32 on CUDA cores, the others on tensor cores.
enum class product_kind : std::uint8_t { f32, bf16, int8 };

struct product_roof {
  double operations_per_second = 0;  // multiply-adds counted as 2, best repetition
  int repetitions = 0;
  std::string what;  // that was measured
};

// The arithmetic roof: float32 is chains of multiply-adds in registers, the others the library's
// fastest product of 8192 x 8192 x 8192 random numbers, sampled against float64 sums. Throws an
// environment error when the device or the library is absent or there is too little free memory, a
// failed run when it multiplies wrongly.
product_roof measure_product_roof(int device, product_kind kind);

}  // namespace unmask::cuda
