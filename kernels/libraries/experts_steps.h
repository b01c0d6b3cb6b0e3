// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The feed-forward of routed experts around a library's grouped product, which needs the rows of an expert one behind the
// other: rows are placed and gathered, multiplied, gated, multiplied again, and added up with their shares. All of it is
// a call, as it is of the own kernels. `Products` multiplies (cutlass_experts.cu).
#pragma once

#include <memory>
#include <vector>

#include "kernels/libraries/module.h"

namespace unmask::libraries {

// Of every expert e: d[e] [m, n] = a[e] [m, k] w[e]^T, [m, n, k] = shape[e]; bfloat16, rows end to end. Arrays of
// [experts] in device memory, which a call fills before it multiplies. n and k are those of every expert.
template <class Shape>
struct grouped_product {
  int experts = 0, n = 0, k = 0;
  Shape* shape = nullptr;
  const std::uint16_t** a = nullptr;
  const std::uint16_t** w = nullptr;
  std::uint16_t** d = nullptr;
};

template <class Shape>
struct experts_arrays {
  int rows, width, hidden, experts, per_row;
  std::int32_t* count;  // [experts] assignments
  std::int32_t* begin;  // [experts + 1] first row of an expert
  std::int32_t*
      among;  // [rows, per_row] place of an assignment among its expert's; then its row, or -1
  std::uint16_t* gathered;  // [rows per_row, width]
  std::uint16_t* pair;      // [rows per_row, 2 hidden]
  std::uint16_t* gated;     // [rows per_row, hidden]
  std::uint16_t* result;    // [rows per_row, width]
  grouped_product<Shape> up, down;
};

constexpr int step_threads = 128, scan_threads = 1024;

struct alignas(16) eight_bf16 {
  std::uint32_t word[4];
};
__device__ inline float low_of(std::uint32_t word) {
  return __uint_as_float(word << 16);
}
__device__ inline float high_of(std::uint32_t word) {
  return __uint_as_float(word & 0xFFFF0000U);
}
// Nearest even; no NaN comes here.
__device__ inline std::uint32_t rounded(float f) {
  const std::uint32_t u = __float_as_uint(f);
  return (u + 0x7FFFU + ((u >> 16) & 1U)) >> 16;
}
__device__ inline float gated_by(float gate, float up) {
  return gate / (1.0F + __expf(-gate)) * up;
}

template <class Shape>
__global__ void count_kernel(experts_arrays<Shape> s, const std::int32_t* expert) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= s.rows * s.per_row) return;
  const int e = expert[i];
  s.among[i] = e < 0 ? -1 : atomicAdd(&s.count[e], 1);
}

// One block: sums of the counts, and what the products read.
template <class Shape>
__global__ void begin_kernel(experts_arrays<Shape> s, experts_operands o) {
  __shared__ std::int32_t sum[scan_threads];
  const int t = static_cast<int>(threadIdx.x), each = (s.experts + scan_threads - 1) / scan_threads;
  const int first = t * each, last = min(first + each, s.experts);
  std::int32_t own = 0;
  for (int e = first; e < last; ++e) own += s.count[e];
  sum[t] = own;
  __syncthreads();
  for (int d = 1; d < scan_threads; d *= 2) {
    const std::int32_t before = t >= d ? sum[t - d] : 0;
    __syncthreads();
    sum[t] += before;
    __syncthreads();
  }
  std::int32_t at = sum[t] - own;
  const auto* gate_up = static_cast<const std::uint16_t*>(o.gate_up);
  const auto* down = static_cast<const std::uint16_t*>(o.down);
  const std::int64_t weights = std::int64_t{s.width} * s.hidden;
  for (int e = first; e < last; ++e) {
    const int m = s.count[e];
    s.begin[e] = at;
    s.up.shape[e] = Shape{m, 2 * s.hidden, s.width};
    s.up.a[e] = s.gathered + std::int64_t{at} * s.width;
    s.up.w[e] = gate_up + 2 * e * weights;
    s.up.d[e] = s.pair + std::int64_t{at} * 2 * s.hidden;
    s.down.shape[e] = Shape{m, s.width, s.hidden};
    s.down.a[e] = s.gated + std::int64_t{at} * s.hidden;
    s.down.w[e] = down + e * weights;
    s.down.d[e] = s.result + std::int64_t{at} * s.width;
    at += m;
  }
  if (t == scan_threads - 1) s.begin[s.experts] = sum[t];
}

// A block for each assignment.
template <class Shape>
__global__ void gather_kernel(experts_arrays<Shape> s, experts_operands o) {
  const auto i = static_cast<std::int64_t>(blockIdx.x);
  const int e = o.expert[i];
  if (e < 0) return;
  const std::int64_t row = s.begin[e] + s.among[i];
  __syncthreads();  // all have read
  if (threadIdx.x == 0) s.among[i] = static_cast<std::int32_t>(row);
  const auto* from = static_cast<const eight_bf16*>(o.x) + i / s.per_row * (s.width / 8);
  auto* to = reinterpret_cast<eight_bf16*>(s.gathered) + row * (s.width / 8);
  for (int c = static_cast<int>(threadIdx.x); c < s.width / 8; c += step_threads) to[c] = from[c];
}

// A block for each row of `pair`.
template <class Shape>
__global__ void gate_kernel(experts_arrays<Shape> s) {
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  if (row >= s.begin[s.experts]) return;
  const int pieces = s.hidden / 8;
  const auto* gate = reinterpret_cast<const eight_bf16*>(s.pair) + 2 * row * pieces;
  auto* to = reinterpret_cast<eight_bf16*>(s.gated) + row * pieces;
  for (int c = static_cast<int>(threadIdx.x); c < pieces; c += step_threads) {
    const eight_bf16 g = gate[c], u = gate[pieces + c];
    eight_bf16 y;
    for (int w = 0; w < 4; ++w) {
      y.word[w] = rounded(gated_by(low_of(g.word[w]), low_of(u.word[w]))) |
                  rounded(gated_by(high_of(g.word[w]), high_of(u.word[w]))) << 16;
    }
    to[c] = y;
  }
}

// A block for each row of y.
template <class Shape>
__global__ void combine_kernel(experts_arrays<Shape> s, experts_operands o) {
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  float* y = o.y + row * s.width;
  for (int c = static_cast<int>(threadIdx.x); c < s.width / 2; c += step_threads) {
    float low = y[2 * c], high = y[2 * c + 1];
    for (int i = 0; i < s.per_row; ++i) {
      const std::int32_t from = s.among[row * s.per_row + i];
      if (from < 0) continue;
      const float share = o.share[row * s.per_row + i];
      const std::uint32_t word =
          reinterpret_cast<const std::uint32_t*>(s.result)[from * std::int64_t{s.width / 2} + c];
      low += share * low_of(word);
      high += share * high_of(word);
    }
    y[2 * c] = low;
    y[2 * c + 1] = high;
  }
}

// Calls of one shape.
template <class Products>
class experts_plan {
 public:
  using shape = typename Products::shape;

  explicit experts_plan(const experts_shape& s) {
    if (s.width % 8 != 0 || s.hidden % 8 != 0) {
      throw std::runtime_error("widths of experts that are no multiples of 8");
    }
    arrays_.rows = static_cast<int>(s.rows);
    arrays_.width = static_cast<int>(s.width);
    arrays_.hidden = static_cast<int>(s.hidden);
    arrays_.experts = static_cast<int>(s.experts);
    arrays_.per_row = static_cast<int>(s.per_row);
    const std::int64_t all = s.rows * s.per_row;
    allocate(arrays_.count, s.experts);
    allocate(arrays_.begin, s.experts + 1);
    allocate(arrays_.among, all);
    allocate(arrays_.gathered, all * s.width);
    allocate(arrays_.pair, all * 2 * s.hidden);
    allocate(arrays_.gated, all * s.hidden);
    allocate(arrays_.result, all * s.width);
    make(arrays_.up, 2 * arrays_.hidden, arrays_.width);
    make(arrays_.down, arrays_.width, arrays_.hidden);
    up_ = std::make_unique<Products>(arrays_.up);
    down_ = std::make_unique<Products>(arrays_.down);
  }
  ~experts_plan() {
    for (void* p : memory_) (void)cudaFree(p);
  }
  experts_plan(const experts_plan&) = delete;
  experts_plan& operator=(const experts_plan&) = delete;

  void call(const experts_operands& o) {
    const cudaStream_t stream = module_stream();
    const auto all = static_cast<unsigned>(arrays_.rows * arrays_.per_row);
    check(cudaMemsetAsync(arrays_.count, 0,
                          static_cast<std::size_t>(arrays_.experts) * sizeof(std::int32_t), stream),
          "cudaMemsetAsync");
    count_kernel<<<(all + step_threads - 1) / step_threads, step_threads, 0, stream>>>(arrays_,
                                                                                       o.expert);
    begin_kernel<<<1, scan_threads, 0, stream>>>(arrays_, o);
    gather_kernel<<<all, step_threads, 0, stream>>>(arrays_, o);
    check(cudaGetLastError(), "gathering rows of experts");
    up_->multiply(stream);
    gate_kernel<<<all, step_threads, 0, stream>>>(arrays_);
    check(cudaGetLastError(), "gating rows of experts");
    down_->multiply(stream);
    combine_kernel<<<static_cast<unsigned>(arrays_.rows), step_threads, 0, stream>>>(arrays_, o);
    check(cudaGetLastError(), "adding rows of experts");
  }

 private:
  template <class T>
  void allocate(T*& to, std::int64_t count) {
    void* p = nullptr;
    check(cudaMalloc(&p, static_cast<std::size_t>(count) * sizeof(T)), "cudaMalloc");
    memory_.push_back(p);
    to = static_cast<T*>(p);
  }
  void make(grouped_product<shape>& g, int n, int k) {
    g.experts = arrays_.experts;
    g.n = n;
    g.k = k;
    allocate(g.shape, g.experts);
    allocate(g.a, g.experts);
    allocate(g.w, g.experts);
    allocate(g.d, g.experts);
  }

  experts_arrays<shape> arrays_{};
  std::vector<void*> memory_;
  std::unique_ptr<Products> up_, down_;
};

}  // namespace unmask::libraries
