// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/box_maps.h"

#include <stdexcept>
#include <string>

#if defined(__CUDACC__)
#include <cuda.h>
#include <cuda_runtime_api.h>
#endif

namespace unmask::cuda::UNMASK_TARGET {

#if defined(__CUDACC__) && CUDART_VERSION >= 12050

namespace {

// The driver's library is not linked: the runtime knows its functions by name.
auto find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                              12000, cudaEnableDefault, &found);
  if (status != cudaSuccess) (void)cudaGetLastError();
  const bool there = status == cudaSuccess && found == cudaDriverEntryPointSuccess;
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(there ? function : nullptr);
}
auto encoder() {
  static const auto found = find_encoder();
  return found;
}

}  // namespace

bool has_box_maps() {
  return encoder() != nullptr;
}

box_map box_map_of(const std::uint16_t* data, std::int64_t rows, std::int64_t columns,
                   int box_rows) {
  static_assert(sizeof(CUtensorMap) == sizeof(box_map) && alignof(CUtensorMap) <= alignof(box_map));
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)},
                   apart[1] = {static_cast<cuuint64_t>(columns) * sizeof(std::uint16_t)};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  box_map map{};
  const CUresult status =
      encoder()(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                const_cast<std::uint16_t*>(data), sizes, apart, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw std::logic_error("cuTensorMapEncodeTiled refuses boxes of " + std::to_string(box_rows) +
                           " rows of a matrix of " + std::to_string(rows) + " x " +
                           std::to_string(columns) + ": error " + std::to_string(status));
  }
  return map;
}

#elif defined(__CUDACC__)

bool has_box_maps() {
  return false;
}
box_map box_map_of(const std::uint16_t*, std::int64_t, std::int64_t, int) {
  throw std::logic_error("this CUDA runtime does not ask for tensor maps");
}

#else

bool has_box_maps() {
  return true;
}
box_map box_map_of(const std::uint16_t* data, std::int64_t rows, std::int64_t columns,
                   int box_rows) {
  return {data, rows, columns, columns, box_rows};
}

#endif

}  // namespace unmask::cuda::UNMASK_TARGET
