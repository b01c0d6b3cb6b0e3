// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "methods/optimus/kernels/chunk.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

// The state is the host's between steps, and what a forward computes has to be counted there.
std::int32_t select_chunk(const device_backend& device, const op::select_chunk& args) {
  return device.on_host(args, args.state.data, args.params.first, args.params.last,
                        args.params.size, args.begin, args.sequence, args.position, args.slot,
                        args.settles);
}

}  // namespace

const register_operations<select_chunk> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
