// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Gate and up with SwiGLU. bfloat16 rows, few of them: one kernel on Hopper; else the product and
// silu_mul, one after the other.
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/few_rows_kernels.h"
#include "kernels/model_core.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

template <int tile_rows>
void launch(queue& q, const few_rows_params& p) {
  q.launch("few_rows",
           {.x = blocks_for(p.columns, few_columns),
            .threads = few_shape<tile_rows>::threads,
            .shared_bytes = few_shared_bytes<few_shape<tile_rows>>,
            .early = true},
           few_rows_kernel<tile_rows>, p);
}

bool takes_few_rows(const device_backend& device, const op::gated_linear& args) {
  static const bool has_wgmma = queue::has_wgmma(few_rows_kernel<few_most_rows>);
  const device_matrix& w = as_device(args.weight);
  const std::int64_t rows = args.x.rows(), columns = args.out.columns();
  return has_wgmma && rows > 0 && rows <= few_most_rows && w.format == weight_format::bf16 &&
         w.in_features % 8 == 0 && args.out.type == dtype::bf16 &&
         in_groups(8, args.out, columns) &&
         (args.x.type != dtype::bf16 || in_groups(8, args.x, w.in_features)) &&
         few_rows_fill(columns, device.work().multiprocessors()) &&
         device.may_multiply(multiplied::gated, multiplier::newer);
}

void gated_linear(const device_backend& device, const op::gated_linear& args) {
  const device_matrix& w = as_device(args.weight);
  const std::int64_t rows = args.x.rows(), columns = args.out.columns();
  if (args.x.columns() != w.in_features || w.out_features != 2 * columns ||
      args.out.rows() != rows) {
    throw std::logic_error("gated_linear: shapes do not match");
  }
  if (!takes_few_rows(device, args)) {
    device.run(op::linear{args.x, args.weight, {}, args.pair, false});
    device.run(op::silu_mul{args.pair, args.out});
    return;
  }
  const few_rows_params p{device.as_bf16(device.in(args.x).data, args.x.type, args.x.row_stride,
                                         nullptr, rows, w.in_features),
                          static_cast<const std::uint16_t*>(w.memory.get()),
                          static_cast<std::uint16_t*>(device.out(args.out).data),
                          args.out.row_stride,
                          static_cast<int>(rows),
                          static_cast<int>(columns),
                          static_cast<int>(w.in_features)};
  few_tile_rows(rows) == 64 ? launch<64>(device.work(), p)
                            : launch<few_most_rows>(device.work(), p);
}

}  // namespace

const register_operations<gated_linear> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
