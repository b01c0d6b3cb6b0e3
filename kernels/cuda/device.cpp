// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device.h"

#include <array>

#include "kernels/backend.h"
#include "kernels/cuda/check.h"

namespace unmask::cuda {
namespace {

// Attributes, because the clock fields of cudaDeviceProp are gone from CUDA 13. 0: unknown.
int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return value;
}

device_properties describe(int index) {
  device_properties result;
  result.index = index;
  cudaDeviceProp all{};
  UNMASK_CUDA_CALL(cudaGetDeviceProperties(&all, index));
  result.name = all.name;
  result.memory_bytes = all.totalGlobalMem;
  result.compute_major = all.major;
  result.compute_minor = all.minor;
  result.multiprocessors = all.multiProcessorCount;
  result.l2_bytes = static_cast<std::size_t>(all.l2CacheSize);
  std::array<char, 32> bus{};
  UNMASK_CUDA_CALL(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index));
  result.pci_bus_id = bus.data();
  result.core_clock_khz = attribute(cudaDevAttrClockRate, index);
  result.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, index);
  result.memory_bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, index);
  result.ecc = attribute(cudaDevAttrEccEnabled, index) != 0;
  return result;
}

}  // namespace

report query() {
  report result;
  result.built = true;
  (void)cudaRuntimeGetVersion(&result.runtime_version);
  (void)cudaDriverGetVersion(&result.driver_version);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    // Without any driver the runtime reports "driver version is insufficient", which would send
    // the reader looking for a driver to update.
    result.note = result.driver_version == 0 ? "no GPU: there is no NVIDIA driver on this machine"
                                             : std::string("no GPU: ") + cudaGetErrorString(status);
    return result;
  }
  try {
    for (int i = 0; i < count; ++i) result.devices.push_back(describe(i));
  } catch (const error& failure) {
    result.devices.clear();
    result.note = std::string("no GPU: ") + failure.what();
    return result;
  }
  if (count == 0) result.note = "no GPU: the driver shows no device";
  return result;
}

namespace {
bool resident_is_managed = false;
}  // namespace

const backend* gpu_reading_host_memory() {
  if (query().devices.empty() || attribute(cudaDevAttrPageableMemoryAccess, 0) == 0) return nullptr;
  resident_is_managed = true;
  return &cuda_backend();
}
bool host_reads_resident_memory() {
  return resident_is_managed;
}

}  // namespace unmask::cuda
