// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Matrix products by cuBLASLt on tensor cores: bfloat16 operands, float32 sums, results float32 or
// bfloat16; or int8 operands, int32 sums and results, which are exact.
//
// Per (type, N, K, bucket of M as in row_buckets.h) the library's heuristics are asked for 16
// algorithms, each is timed, and the fastest is kept; the choices are written to
// <cache>/tune-<gpu>-<driver>-<cublas>.json, where <cache> is $UNMASK_CACHE or ~/.cache/unmask, so
// that a second run uses the same ones. What is guaranteed: the same inputs with the same M give
// the same bits on the same machine with the same tuning file. What is not: with bfloat16 a row's
// last bits may differ between buckets of M. Runs that must not depend on the batch use
// UNMASK_CUDA_GEMM=own or other weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace unmask::cuda {

struct library_product {
  std::int64_t rows = 0, columns = 0, depth = 0;  // M, N, K; int8: N and K multiples of 4
  const void* x = nullptr;                        // [M, K] bfloat16 or int8
  const void* w = nullptr;                        // [N, K] same
  const void* bias = nullptr;                     // [N] of y's type, or null
  void* y = nullptr;                              // [M, N]
  bool y_bf16 = false;                            // else float32
  std::int64_t y_stride = 0;
  bool accumulate = false;  // y += instead of y =
  bool int8 = false;        // y is int32; neither bias nor accumulate
};

// How far a sum of `depth` products of bfloat16 operands in float32 may be from the exact one, where
// `size` is the sum of the products' magnitudes. Tensor cores add 16 products at a time and do not
// round, they cut off: each step may lose a unit of the sum's last bit, 2^-23 of it, and one of the 16
// products' sum, and what terms of one sign lose does not cancel.
constexpr double float_sum_error(std::int64_t depth, double size) {
  return static_cast<double>(depth) / 16 * 0x1p-22 * size;
}

class library_gemm {
 public:
  // workspace: device memory of workspace_bytes for as long as this lives.
  explicit library_gemm(void* workspace);
  ~library_gemm();
  library_gemm(const library_gemm&) = delete;
  library_gemm& operator=(const library_gemm&) = delete;
  static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

  // stream: a cudaStream_t, another one while the body of a branch is recorded. False: the library
  // has no algorithm for this product, nothing was computed.
  bool multiply(const library_product& p, void* stream);

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace unmask::cuda
