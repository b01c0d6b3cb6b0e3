// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the memory and the arithmetic of a GPU reach, measured in this process: what its kernels are
// held against.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/library_gemm.h"
#include "kernels/cuda/roofs.h"

namespace unmask::cuda {
namespace {

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

device_properties choose_device(int device) {
  const report machine = query();
  if (device < 0 || device >= static_cast<int>(machine.devices.size())) {
    throw environment_error("there is no GPU number " + std::to_string(device) +
                            (machine.note.empty() ? "" : ": " + machine.note));
  }
  UNMASK_CUDA_CALL(cudaSetDevice(device));
  return machine.devices[static_cast<std::size_t>(device)];
}

// Seconds of each repetition after three that do not count, ascending.
std::vector<double> sorted_seconds(int repetitions, const std::function<void()>& work) {
  constexpr int warm_up = 3;
  const event_handle start = make_event();
  const event_handle stop = make_event();
  std::vector<double> seconds;
  for (int i = 0; i < warm_up + repetitions; ++i) {
    UNMASK_CUDA_CALL(cudaEventRecord(start.get(), nullptr));
    work();
    UNMASK_CUDA_CALL(cudaEventRecord(stop.get(), nullptr));
    UNMASK_CUDA_CALL(cudaEventSynchronize(stop.get()));
    float milliseconds = 0;
    UNMASK_CUDA_CALL(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
    if (i >= warm_up) seconds.push_back(milliseconds * 1e-3);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

template <class T>
std::vector<T> read_back(const void* from, std::size_t first, std::size_t count) {
  std::vector<T> values(count);
  UNMASK_CUDA_CALL(cudaMemcpy(values.data(), static_cast<const T*>(from) + first, count * sizeof(T),
                              cudaMemcpyDeviceToHost));
  return values;
}

double from_bf16(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Whether y[row, column] of y = x W^T, n by n by n, is what float64 sums say: int8 exactly,
// bfloat16 as near as float_sum_error says.
bool is_right(const library_product& p, std::int64_t row, std::int64_t column) {
  const auto n = static_cast<std::size_t>(p.depth);
  const auto at = [&](std::int64_t r) { return static_cast<std::size_t>(r) * n; };
  double sum = 0, size = 0;
  const auto add = [&](double product) {
    sum += product;
    size += std::abs(product);
  };
  if (p.int8) {
    const auto x = read_back<std::int8_t>(p.x, at(row), n);
    const auto w = read_back<std::int8_t>(p.w, at(column), n);
    for (std::size_t i = 0; i < n; ++i) add(static_cast<double>(x[i]) * w[i]);
    const auto y = read_back<std::int32_t>(p.y, at(row) + static_cast<std::size_t>(column), 1);
    return y.front() == sum;
  }
  const auto x = read_back<std::uint16_t>(p.x, at(row), n);
  const auto w = read_back<std::uint16_t>(p.w, at(column), n);
  for (std::size_t i = 0; i < n; ++i) add(from_bf16(x[i]) * from_bf16(w[i]));
  const auto y = read_back<float>(p.y, at(row) + static_cast<std::size_t>(column), 1);
  return std::abs(y.front() - sum) <= float_sum_error(p.depth, size);
}

product_roof measure_multiply_adds(const device_properties& device) {
  product_roof roof;
  const device_buffer out = allocate(sizeof(float));
  const multiply_add_params params{static_cast<float*>(out.get()), 16384, device.multiprocessors};
  double operations = 0;
  roof.repetitions = 20;
  const std::vector<double> seconds = sorted_seconds(roof.repetitions, [&] {
    UNMASK_CUDA_CALL(launch_multiply_adds(params, &operations, nullptr));
  });
  roof.operations_per_second = operations / seconds.front();
  roof.what = "multiply-adds of CUDA cores";
  return roof;
}

product_roof measure_library(const device_properties& device, bool int8) {
  // Larger than any product of a forward, so that neither launch nor memory is what it takes.
  constexpr std::int64_t n = 8192;
  constexpr std::size_t elements = std::size_t{n} * n;
  const std::size_t element = int8 ? 1 : 2;
  const device_buffer x = allocate(elements * element), w = allocate(elements * element);
  const device_buffer y = allocate(elements * 4);
  const device_buffer workspace = allocate(library_gemm::workspace_bytes);
  const random_kind kind = int8 ? random_kind::int8 : random_kind::bf16;
  UNMASK_CUDA_CALL(launch_fill_random({x.get(), elements, 1, kind}, nullptr));
  UNMASK_CUDA_CALL(launch_fill_random({w.get(), elements, 2, kind}, nullptr));
  UNMASK_CUDA_CALL(cudaMemset(y.get(), 0x7F, elements * 4));  // no sum of these factors
  library_product p;
  p.rows = p.columns = p.depth = p.y_stride = n;
  p.x = x.get();
  p.w = w.get();
  p.y = y.get();
  p.int8 = int8;
  library_gemm library(workspace.get());
  const std::string name = int8 ? "int8" : "bfloat16";
  product_roof roof;
  roof.repetitions = 10;
  constexpr int launches = 5;
  const std::vector<double> seconds = sorted_seconds(roof.repetitions, [&] {
    for (int i = 0; i < launches; ++i) {
      if (!library.multiply(p, nullptr)) {
        throw environment_error("cuBLASLt has no " + name + " product on " + device.name);
      }
    }
  });
  for (const auto& [row, column] :
       {std::pair{std::int64_t{0}, n - 1}, {n / 2 + 3, n / 3}, {n - 1, n - 1}}) {
    if (!is_right(p, row, column)) {
      throw error(exit_code::run_failed, device.name + " multiplies " + name +
                                             " wrongly: no number measured on it can be trusted");
    }
  }
  roof.operations_per_second = 2.0 * n * n * n * launches / seconds.front();
  roof.what = name + " products of " + std::to_string(n);
  return roof;
}

}  // namespace

copy_roof measure_copy_roof(int device) {
  constexpr unsigned char pattern = 0x5A;
  const device_properties properties = choose_device(device);
  copy_roof result;
  result.repetitions = 20;
  // 16 times L2, so that what stays cached from the last repetition hardly counts.
  result.bytes = std::max<std::size_t>(std::size_t{1} << 30, properties.l2_bytes * 16);
  const device_buffer from = allocate(result.bytes);
  const device_buffer to = allocate(result.bytes);
  UNMASK_CUDA_CALL(cudaMemset(from.get(), pattern, result.bytes));
  UNMASK_CUDA_CALL(cudaMemset(to.get(), 0, result.bytes));
  const copy_params params{from.get(), to.get(), result.bytes, properties.multiprocessors};
  const std::vector<double> seconds =
      sorted_seconds(result.repetitions, [&] { UNMASK_CUDA_CALL(launch_copy(params, nullptr)); });
  const auto arrived = read_back<unsigned char>(to.get(), 0, result.bytes);
  if (!std::all_of(arrived.begin(), arrived.end(), [](auto byte) { return byte == pattern; })) {
    throw error(exit_code::run_failed,
                properties.name + " miscopies memory: no number measured on it can be trusted");
  }
  const double moved = 2.0 * static_cast<double>(result.bytes);
  result.bytes_per_second = moved / seconds.front();
  result.median_bytes_per_second = moved / seconds[seconds.size() / 2];
  return result;
}

product_roof measure_product_roof(int device, product_kind kind) {
  const device_properties properties = choose_device(device);
  if (kind == product_kind::f32) return measure_multiply_adds(properties);
  return measure_library(properties, kind == product_kind::int8);
}

}  // namespace unmask::cuda
