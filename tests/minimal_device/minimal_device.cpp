// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A device in one entry. A real one has kernels of its own (kernels/operation.h) and says more of
// itself; this one borrows the reference's and heeds no word of [run] that is marked for another.
#include "harness/devices/device.h"

namespace unmask {
namespace {

const bool registered = [] {
  device mine{.name = "minimal", .heeds = "minimal"};
  mine.kernels = [](const run_keys&) -> const backend& { return reference_backend(); };
  register_device(mine);
  return true;
}();

}  // namespace
}  // namespace unmask
