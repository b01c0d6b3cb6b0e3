// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Linear layers. float32 weights: the exact kernel. bfloat16 weights: the library, or the exact
// kernel with UNMASK_CUDA_GEMM=own (activations then stay float32 and a row's bits do not depend on
// the batch). int8 weights: rows are quantised, the library multiplies and a kernel scales the
// int32 sums; with UNMASK_CUDA_GEMM=own, and for shapes that the library refuses, the tile does
// both, with the same bits. The emulated backend has no library: a plain loop over the same
// operands stands in for it.
#include <algorithm>
#include <string>
#include <type_traits>

#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm_kernels.h"
#include "kernels/cuda/library_gemm.h"
#include "kernels/model_core.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

#if !defined(__CUDACC__)
template <class number>
number stand_in_sum(const library_product& p, std::int64_t m, std::int64_t n) {
  number sum = 0;
  for (std::int64_t k = 0; k < p.depth; ++k) {
    const std::int64_t x = m * p.depth + k, w = n * p.depth + k;
    if constexpr (std::is_same_v<number, float>) {
      sum += load_float(p.x, dtype::bf16, x) * load_float(p.w, dtype::bf16, w);
    } else {
      sum += static_cast<const std::int8_t*>(p.x)[x] * static_cast<const std::int8_t*>(p.w)[w];
    }
  }
  return sum;
}

void stand_in(const void* argument) {
  const auto& p = *static_cast<const library_product*>(argument);
  emulator::note_library_product(p.rows, p.columns, p.depth, p.int8 ? 1 : 2,
                                 p.int8 || !p.y_bf16 ? 4 : 2, p.accumulate);
  for (std::int64_t m = 0; m < p.rows; ++m) {
    for (std::int64_t n = 0; n < p.columns; ++n) {
      const std::int64_t at = m * p.y_stride + n;
      if (p.int8) {
        static_cast<std::int32_t*>(p.y)[at] = stand_in_sum<std::int32_t>(p, m, n);
        continue;
      }
      float sum = stand_in_sum<float>(p, m, n);
      const dtype type = p.y_bf16 ? dtype::bf16 : dtype::f32;
      if (p.bias != nullptr) sum += load_float(p.bias, type, n);
      store_float(p.y, type, at, p.accumulate ? load_float(p.y, type, at) + sum : sum);
    }
  }
}
#endif

// The library's int8 sums need memory: rows go in pieces, whole tiles of the library's, of about
// 64 MiB of sums, many of which are still in L2 when they are scaled.
std::int64_t int8_rows_at_once(std::int64_t columns) {
  constexpr std::int64_t most_sums = std::int64_t{16} << 20, tile = 128;
  return std::max<std::int64_t>(1, most_sums / columns / tile) * tile;
}

template <int per_thread, class weight_type>
void launch_exact(queue& q, const gemm_params& p) {
  q.launch("gemm",
           {blocks_for(p.columns, gemm_columns), gemm_threads, gemm_shared_bytes(per_thread),
            blocks_for(p.rows, 16 * per_thread)},
           gemm_kernel<per_thread, weight_type>, p);
}
template <class weight_type>
void launch_exact(queue& q, const gemm_params& p) {
  p.rows <= 16 ? launch_exact<1, weight_type>(q, p) : launch_exact<4, weight_type>(q, p);
}

}  // namespace

const std::uint16_t* device_backend::as_bf16(const void* x, dtype type, std::int64_t stride,
                                             const std::int32_t* index, std::int64_t rows,
                                             std::int64_t width) const {
  if (type == dtype::bf16 && index == nullptr && stride == width) {
    return static_cast<const std::uint16_t*>(x);
  }
  auto* half = queue_.scratch<std::uint16_t>(scratch_slot::low_precision, rows * width);
  queue_.launch("to_bf16", {blocks_for(rows, 1), gemm_threads}, to_bf16_kernel,
                {x, type, stride, index, half, static_cast<int>(width)});
  return half;
}

const float* device_backend::as_f32(const void* x, std::int64_t stride, std::int64_t rows,
                                    std::int64_t width) const {
  auto* wide = queue_.scratch<float>(scratch_slot::low_precision, rows * width);
  queue_.launch("to_f32", {blocks_for(rows, 1), gemm_threads}, to_f32_kernel,
                {static_cast<const std::uint16_t*>(x), stride, wide, static_cast<int>(width)});
  return wide;
}

int8_rows device_backend::as_int8(const void* x, dtype type, std::int64_t stride,
                                  const std::int32_t* index, std::int64_t rows, std::int64_t width,
                                  std::int64_t columns) const {
  const std::int64_t pitch = int8_padded(width), levels = rows * pitch,
                     scales = int8_padded(rows * std::int64_t{sizeof(float)});
  const std::int64_t sums =
      columns > 0 && may_multiply(multiplied::int8_products, multiplier::library)
          ? std::min(rows, int8_rows_at_once(int8_padded(columns))) * int8_padded(columns)
          : 0;
  auto* level = queue_.scratch<std::int8_t>(
      scratch_slot::low_precision, levels + scales + sums * std::int64_t{sizeof(std::int32_t)});
  auto* scale = reinterpret_cast<float*>(level + levels);
  queue_.launch("quantize_rows", block_each(rows), quantize_rows_kernel,
                {x, type, stride, index, static_cast<int>(width), static_cast<int>(pitch),
                 reinterpret_cast<std::int32_t*>(level), scale});
  return {level, scale, reinterpret_cast<std::int32_t*>(level + levels + scales)};
}

bool device_backend::library_multiply(const library_product& p) const {
#if defined(__CUDACC__)
  if (!shared_.library) {
    shared_.library = std::make_unique<library_gemm>(
        queue_.scratch(scratch_slot::library, library_gemm::workspace_bytes));
  }
  return shared_.library->multiply(p, queue_.stream());
#else
  queue_.host_work(stand_in, std::make_shared<library_product>(p));
  return true;
#endif
}

void device_backend::multiply_int8(const product& p) const {
  const device_matrix& w = *p.weight;
  const std::int64_t pitch = int8_padded(w.in_features), columns = int8_padded(p.count);
  const auto* levels = static_cast<const std::int8_t*>(w.memory.get()) + p.first * pitch;
  const float* w_scale = int8_weight_scales(w.memory.get(), w.out_features, pitch) + p.first;
  const int8_rows x = p.quantized.level != nullptr ? p.quantized
                                                   : as_int8(p.x, p.x_type, p.x_stride, p.index,
                                                             p.rows, w.in_features, p.count);
  const bool own = !may_multiply(multiplied::int8_products, multiplier::library);
  const std::int64_t step = own ? p.rows : int8_rows_at_once(columns);
  for (std::int64_t first = 0; first < p.rows; first += step) {
    const std::int64_t rows = std::min(step, p.rows - first);
    const std::int8_t* x_levels = x.level + first * pitch;
    const int8_scales scale{x.scale + first, w_scale};
    const gemm_result to{static_cast<const float*>(p.bias),
                         static_cast<float*>(p.y) + first * p.y_stride, p.y_stride, p.accumulate};
    library_product call;
    call.rows = rows;
    call.columns = columns;  // zero rows of the matrix, or features that are not wanted
    call.depth = pitch;
    call.x = x_levels;
    call.w = levels;
    call.y = x.sum;
    call.y_stride = columns;
    call.int8 = true;
    if (!own && library_multiply(call)) {
      queue_.launch("scale_sums",
                    {blocks_for(rows, 1), gemm_threads, 0, blocks_for(p.count, 4 * gemm_threads)},
                    scale_sums_kernel, {x.sum, columns, to, static_cast<int>(p.count), scale});
    } else {
      constexpr std::int64_t word = sizeof(int8_word);
      launch_exact<int8_word>(queue_,
                              {x_levels, pitch / word, nullptr, levels, to, static_cast<int>(rows),
                               static_cast<int>(p.count), static_cast<int>(pitch / word), scale});
    }
  }
}

void device_backend::multiply(const product& p) const {
  if (p.rows == 0 || p.count == 0) return;
  const device_matrix& w = *p.weight;
  const std::int64_t depth = w.in_features;
  const bool library = w.format == weight_format::bf16 && library_multiplies();
  const bool int8 = w.format == weight_format::int8;
  if (!library && ((!int8 && p.x_type != dtype::f32) || p.y_type != dtype::f32)) {
    throw std::logic_error("linear: these products take and give float32 activations only");
  }
  if (int8) return multiply_int8(p);
  const std::size_t element = w.format == weight_format::bf16 ? 2 : 4;
  const void* first = static_cast<const unsigned char*>(w.memory.get()) +
                      static_cast<std::size_t>(p.first * depth) * element;
  if (library) {
    const bool done = library_multiply(
        {p.rows, p.count, depth, as_bf16(p.x, p.x_type, p.x_stride, p.index, p.rows, depth), first,
         p.bias, p.y, p.y_type == dtype::bf16, p.y_stride, p.accumulate});
    if (!done) {
      throw environment_error("cuBLASLt has no algorithm for a " + std::to_string(p.rows) + " x " +
                              std::to_string(p.count) + " x " + std::to_string(depth) +
                              " product; set UNMASK_CUDA_GEMM=own");
    }
    return;
  }
  const gemm_params exact{
      p.x,
      p.x_stride,
      p.index,
      first,
      {static_cast<const float*>(p.bias), static_cast<float*>(p.y), p.y_stride, p.accumulate},
      static_cast<int>(p.rows),
      static_cast<int>(p.count),
      static_cast<int>(depth)};
  if (w.format == weight_format::bf16) {
    launch_exact<std::uint16_t>(queue_, exact);
  } else {
    launch_exact<float>(queue_, exact);
  }
}

namespace {

void linear(const device_backend& device, const op::linear& args) {
  const device_matrix& w = as_device(args.weight);
  if (args.x.columns() != w.in_features || args.y.columns() != w.out_features ||
      args.x.rows() != args.y.rows()) {
    throw std::logic_error("linear: shapes do not match");
  }
  if (args.bias.data != nullptr && args.bias.type != args.y.type) {
    throw std::logic_error("linear: the bias is not of the results' type");
  }
  if (device.multiply_few_rows(args)) return;
  device.multiply({device.in(args.x).data, args.x.type, args.x.row_stride, nullptr, args.x.rows(),
                   &w, 0, w.out_features, device.in(args.bias).data, device.out(args.y).data,
                   args.y.type, args.y.row_stride, args.accumulate});
}

}  // namespace

const register_operations<linear> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
