// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device.h"

#include <algorithm>
#include <array>
#include <memory>

#include "kernels/cuda/check.h"
#include "kernels/cuda/roofs.h"
#include "kernels/ops.h"

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

struct free_device_memory {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
using device_buffer = std::unique_ptr<void, free_device_memory>;

device_buffer allocate(std::size_t bytes) {
  void* memory = nullptr;
  UNMASK_CUDA_CALL(cudaMalloc(&memory, bytes));
  return device_buffer(memory);
}

struct destroy_event {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using event_handle = std::unique_ptr<CUevent_st, destroy_event>;

event_handle make_event() {
  cudaEvent_t event = nullptr;
  UNMASK_CUDA_CALL(cudaEventCreate(&event));
  return event_handle(event);
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

const ops* gpu_reading_host_memory() {
  if (query().devices.empty() || attribute(cudaDevAttrPageableMemoryAccess, 0) == 0) return nullptr;
  return &cuda_ops();
}

copy_roof measure_copy_roof(int device) {
  constexpr int warm_up = 3;
  constexpr int repetitions = 20;
  constexpr unsigned char pattern = 0x5A;
  const report machine = query();
  if (device < 0 || device >= static_cast<int>(machine.devices.size())) {
    throw environment_error("there is no GPU number " + std::to_string(device) +
                            (machine.note.empty() ? "" : ": " + machine.note));
  }
  UNMASK_CUDA_CALL(cudaSetDevice(device));
  const device_properties& properties = machine.devices[static_cast<std::size_t>(device)];
  copy_roof result;
  result.repetitions = repetitions;
  // 16 times L2, so that what stays cached from the last repetition hardly counts.
  result.bytes = std::max<std::size_t>(std::size_t{1} << 30, properties.l2_bytes * 16);
  const device_buffer from = allocate(result.bytes);
  const device_buffer to = allocate(result.bytes);
  UNMASK_CUDA_CALL(cudaMemset(from.get(), pattern, result.bytes));
  UNMASK_CUDA_CALL(cudaMemset(to.get(), 0, result.bytes));
  const copy_params params{from.get(), to.get(), result.bytes, properties.multiprocessors};
  const event_handle start = make_event();
  const event_handle stop = make_event();
  std::vector<double> seconds;
  for (int i = 0; i < warm_up + repetitions; ++i) {
    UNMASK_CUDA_CALL(cudaEventRecord(start.get(), nullptr));
    UNMASK_CUDA_CALL(launch_copy(params, nullptr));
    UNMASK_CUDA_CALL(cudaEventRecord(stop.get(), nullptr));
    UNMASK_CUDA_CALL(cudaEventSynchronize(stop.get()));
    float milliseconds = 0;
    UNMASK_CUDA_CALL(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
    if (i >= warm_up) seconds.push_back(milliseconds * 1e-3);
  }
  std::vector<unsigned char> arrived(result.bytes);
  UNMASK_CUDA_CALL(cudaMemcpy(arrived.data(), to.get(), result.bytes, cudaMemcpyDeviceToHost));
  if (!std::all_of(arrived.begin(), arrived.end(), [](auto byte) { return byte == pattern; })) {
    throw environment_error("GPU " + std::to_string(device) +
                            " miscopies memory: no number measured on it can be trusted");
  }
  std::sort(seconds.begin(), seconds.end());
  const double moved = 2.0 * static_cast<double>(result.bytes);
  result.bytes_per_second = moved / seconds.front();
  result.median_bytes_per_second = moved / seconds[seconds.size() / 2];
  return result;
}

}  // namespace unmask::cuda
