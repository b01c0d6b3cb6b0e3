// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/vision_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

void layer_norm(const device_backend& device, const op::layer_norm& args) {
  const layer_norm_params p{device.in(args.x).as<float>(),
                            device.in(args.weight).as<float>(),
                            device.in(args.bias).as<float>(),
                            device.out(args.out).as<float>(),
                            args.x.row_stride,
                            args.out.row_stride,
                            static_cast<int>(args.x.columns()),
                            args.eps};
  device.work().launch(
      "layer_norm",
      {blocks_for(args.x.rows(), 1), row_threads, row_threads / warp_size * sizeof(float)},
      layer_norm_kernel, p);
}

void gelu(const device_backend& device, const op::gelu& args) {
  const gelu_params p{device.in(args.x).as<float>(),
                      device.out(args.out).as<float>(),
                      args.x.row_stride,
                      args.out.row_stride,
                      static_cast<int>(args.x.columns()),
                      args.form == gelu_form::erf};
  device.work().launch("gelu", {blocks_for(args.x.rows(), 1), row_threads}, gelu_kernel, p);
}

void patches(const device_backend& device, const op::patches& args) {
  const patches_params p{device.in(args.pixels).as<std::uint8_t>(),
                         args.pixels.row_stride,
                         args.width,
                         device.in(args.first),
                         device.in(args.value).as<float>(),
                         args.value.row_stride,
                         device.out(args.out).as<float>(),
                         args.out.row_stride,
                         static_cast<int>(args.patch)};
  device.work().launch("patches", {blocks_for(args.out.rows(), 1), row_threads}, patches_kernel, p);
}

void blend_rows(const device_backend& device, const op::blend_rows& args) {
  const blend_rows_params p{device.in(args.x).as<float>(),
                            device.in(args.from),
                            device.in(args.across),
                            device.in(args.down),
                            device.out(args.out).as<float>(),
                            args.x.row_stride,
                            args.out.row_stride,
                            static_cast<int>(args.out.columns())};
  device.work().launch("blend_rows", {blocks_for(args.out.rows(), 1), row_threads},
                       blend_rows_kernel, p);
}

void place_pictures(const device_backend& device, const op::place_pictures& args) {
  const place_pictures_params p{device.in(args.token),
                                device.in(args.pictures).as<float>(),
                                args.pictures.row_stride,
                                args.pictures.rows(),
                                device.out(args.out).as<float>(),
                                args.out.row_stride,
                                static_cast<int>(args.out.columns())};
  device.work().launch("place_pictures", {blocks_for(args.out.rows(), 1), row_threads},
                       place_pictures_kernel, p);
}

const register_operations<layer_norm, gelu, patches, blend_rows, place_pictures> registered(
    this_target);

}  // namespace
}  // namespace unmask::cuda::UNMASK_TARGET
