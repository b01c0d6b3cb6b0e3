// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Linear layers. float32 weights: the exact kernel. bfloat16 weights: the library, or the exact
// kernel with UNMASK_CUDA_GEMM=own (activations then stay float32 and a row's bits do not depend on
// the batch). The emulated backend has no library: a plain loop over the same rounded operands
// stands in for it.
#include "kernels/cuda/choice.h"
#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/gemm_kernels.h"
#include "kernels/cuda/library_gemm.h"

namespace unmask::cuda::UNMASK_TARGET {

bool own_products_only() {
  static const bool own = chosen_by_environment("UNMASK_CUDA_GEMM", "own", "library", false);
  return own;
}

namespace {

#if !defined(__CUDACC__)
void stand_in(const void* argument) {
  const auto& p = *static_cast<const library_product*>(argument);
  for (std::int64_t m = 0; m < p.rows; ++m) {
    for (std::int64_t n = 0; n < p.columns; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < p.depth; ++k) {
        sum += bf16_to_float(p.x[m * p.depth + k]) * bf16_to_float(p.w[n * p.depth + k]);
      }
      if (p.bias != nullptr) sum += p.bias[n];
      const dtype type = p.y_bf16 ? dtype::bf16 : dtype::f32;
      const std::int64_t at = m * p.y_stride + n;
      store_float(p.y, type, at, p.accumulate ? load_float(p.y, type, at) + sum : sum);
    }
  }
}
#endif

template <int per_thread, class weight_type>
void launch_exact(queue& q, const gemm_params& p) {
  q.launch("gemm",
           {blocks_for(p.columns, gemm_columns), gemm_threads, gemm_shared_bytes(per_thread),
            blocks_for(p.rows, 16 * per_thread)},
           gemm_kernel<per_thread, weight_type>, p);
}

}  // namespace

const std::uint16_t* device_ops::as_bf16(const void* x, dtype type, std::int64_t stride,
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

void device_ops::multiply(const product& p) const {
  if (p.rows == 0 || p.count == 0) return;
  const device_matrix& w = *p.weight;
  const std::int64_t depth = w.in_features;
  const std::size_t element = w.format == weight_format::bf16 ? 2 : 4;
  const void* first = static_cast<const unsigned char*>(w.memory.get()) +
                      static_cast<std::size_t>(p.first * depth) * element;
  if (w.format == weight_format::bf16 && !own_products_only()) {
    const library_product call{p.rows,
                               p.count,
                               depth,
                               as_bf16(p.x, p.x_type, p.x_stride, p.index, p.rows, depth),
                               static_cast<const std::uint16_t*>(first),
                               p.bias,
                               p.y,
                               p.y_type == dtype::bf16,
                               p.y_stride,
                               p.accumulate};
#if defined(__CUDACC__)
    if (!library_) {
      library_ = std::make_unique<library_gemm>(
          queue_.stream(), queue_.scratch(scratch_slot::library, library_gemm::workspace_bytes));
    }
    library_->multiply(call);
#else
    queue_.host_work(stand_in, std::make_shared<library_product>(call));
#endif
    return;
  }
  if (p.x_type != dtype::f32 || p.y_type != dtype::f32) {
    throw std::logic_error("linear: the exact products take float32 activations only");
  }
  const gemm_params exact{static_cast<const float*>(p.x),
                          p.x_stride,
                          p.index,
                          first,
                          p.bias,
                          static_cast<float*>(p.y),
                          p.y_stride,
                          static_cast<int>(p.rows),
                          static_cast<int>(p.count),
                          static_cast<int>(depth),
                          p.accumulate};
  const bool few = p.rows <= 16;
  if (w.format == weight_format::bf16) {
    few ? launch_exact<1, std::uint16_t>(queue_, exact)
        : launch_exact<4, std::uint16_t>(queue_, exact);
  } else {
    few ? launch_exact<1, float>(queue_, exact) : launch_exact<4, float>(queue_, exact);
  }
}

void device_ops::linear(const tensor_view& x, const packed_matrix& weight, const tensor_view& bias,
                        const tensor_view& y, bool accumulate) const {
  const device_matrix& w = as_device(weight);
  if (x.columns() != w.in_features || y.columns() != w.out_features || x.rows() != y.rows()) {
    throw std::logic_error("linear: shapes do not match");
  }
  if (y.type == dtype::bf16 && bias.data != nullptr) {
    throw std::logic_error("linear: a bias needs float32 results");
  }
  multiply({x.data, x.type, x.row_stride, nullptr, x.rows(), &w, 0, w.out_features,
            bias.data != nullptr ? bias.as<float>() : nullptr, y.data, y.type, y.row_stride,
            accumulate});
}

}  // namespace unmask::cuda::UNMASK_TARGET
