// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What gemm.cpp and gemm_onednn.cpp share: the packed matrix of the CPU backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/cpu/crowd.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_kernel.h"

namespace unmask::cpu {

// The library's side of a matrix: its packed copy and its primitives, made on first use.
class library_matrix {
 public:
  virtual ~library_matrix() = default;
};

class packed_cpu : public packed_matrix {
 public:
  weight_format format = weight_format::f32;
  isa set = isa::portable;
  const gemm_kernels* kernels = nullptr;
  std::int64_t panels = 0;
  std::int64_t panel_bytes = 0;
  std::int64_t words = 0;  // 4-byte groups of one quantised row of activations
  std::shared_ptr<std::byte[]> weights;
  std::shared_ptr<float[]> scale;         // int8: [panels * width]
  std::shared_ptr<std::int32_t[]> start;  // int8: [panels * width]

  // One stored f32 weight, for copying into another layout.
  float weight_f32(std::int64_t n, std::int64_t k) const {
    const std::int64_t width = kernels->panel_width;
    const auto* panel = reinterpret_cast<const float*>(weights.get() + n / width * panel_bytes);
    return panel[k * width + n % width];
  }

  mutable std::mutex library_lock;
  mutable std::unique_ptr<library_matrix> library;
};

const packed_cpu& as_packed_cpu(const packed_matrix& w);

// The kernels here; bias [N] or null.
void own_linear(const tensor_view& x, const packed_cpu& w, const float* bias, const tensor_view& y,
                bool accumulate);
// The library, or with gemm_path::automatic whoever is faster; false when it does not apply (other
// formats than f32, fewer than library_rows rows, a layout the library refuses). Null in a program
// that is linked without oneDNN (kernels/CMakeLists.txt).
[[gnu::weak]] bool library_linear(const tensor_view& x, const packed_cpu& w,
                                  const tensor_view& bias, const tensor_view& y, bool accumulate,
                                  gemm_path path);
inline constexpr std::int64_t library_rows = 128;

// Whether a call of this size is worth waking the other threads for: `flops` of work on `bytes`
// of operands against the cost of one fork and join; never while others hold the cores.
inline bool worth_threads(double flops, double bytes) {
  constexpr double flops_per_second = 100e9;  // of one thread, order of magnitude
  constexpr double bytes_per_second = 20e9;
  constexpr double fork_join_seconds = 10e-6;
  return flops / flops_per_second + bytes / bytes_per_second > 2 * fork_join_seconds &&
         team_allowed();
}

}  // namespace unmask::cpu
