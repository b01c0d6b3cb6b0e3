// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Products of few bfloat16 rows into the residual stream, on Hopper: one kernel whose blocks share k.
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/few_parts_kernels.h"
#include "kernels/model_core.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

template <int tile_rows, int parts>
void launch(queue& q, const few_parts_params& p) {
  using shape = parts_shape<tile_rows, parts>;
  q.launch("few_parts",
           {.x = static_cast<unsigned>(few_parts_blocks(p.columns, parts)),
            .threads = shape::threads,
            .shared_bytes = few_shared_bytes<shape>,
            .cluster = parts,
            .early = true},
           few_parts_kernel<tile_rows, parts>, p);
}
template <int tile_rows>
void launch(queue& q, const few_parts_params& p) {
  few_parts(p.columns, p.depth) == 8 ? launch<tile_rows, 8>(q, p) : launch<tile_rows, 4>(q, p);
}

bool takes_few_parts(const device_backend& device, const op::linear& args) {
  static const bool has_clusters = queue::has_wgmma(few_parts_kernel<few_most_rows, 8>);
  const device_matrix& w = as_device(args.weight);
  const std::int64_t rows = args.x.rows(), columns = w.out_features, depth = w.in_features;
  return has_clusters && rows > 0 && rows <= few_most_rows && w.format == weight_format::bf16 &&
         columns % 8 == 0 && depth % 8 == 0 && args.bias.data == nullptr &&
         args.y.type == dtype::f32 && in_groups(4, args.y, columns) &&
         (args.x.type != dtype::bf16 || in_groups(8, args.x, depth)) &&
         few_parts_fill(columns, depth, device.work().multiprocessors()) &&
         device.may_multiply(multiplied::few_rows, multiplier::newer);
}

}  // namespace

bool device_backend::multiply_few_rows(const op::linear& args) const {
  if (!takes_few_parts(*this, args)) return false;
  const device_matrix& w = as_device(args.weight);
  const std::int64_t rows = args.x.rows();
  const few_parts_params p{
      as_bf16(in(args.x).data, args.x.type, args.x.row_stride, nullptr, rows, w.in_features),
      static_cast<const std::uint16_t*>(w.memory.get()),
      static_cast<float*>(out(args.y).data),
      args.y.row_stride,
      static_cast<int>(rows),
      static_cast<int>(w.out_features),
      static_cast<int>(w.in_features),
      args.accumulate};
  few_tile_rows(rows) == 64 ? launch<64>(queue_, p) : launch<few_most_rows>(queue_, p);
  return true;
}

}  // namespace unmask::cuda::UNMASK_TARGET
