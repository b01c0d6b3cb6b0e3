// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The answers of a build without tests, which has no emulator of the CUDA kernels.
#include "harness/base/error.h"
#include "kernels/backend.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/device/traffic.h"

namespace unmask {

const backend& cuda_emulated_backend(const cuda::choices&) {
  return cuda_emulated_backend();
}
const backend& cuda_emulated_backend() {
  throw environment_error(
      "no emulated GPU: this program was built without tests (UNMASK_BUILD_TESTS=OFF), and the "
      "emulator of the CUDA kernels belongs to them; ./dev build makes a program that has it");
}

namespace cuda::emulator {

bool is_built() {
  return false;
}
bool sees_accesses() {
  return false;
}
void begin_counting(bool) {}
device_traffic end_counting() {
  return {};
}

}  // namespace cuda::emulator
}  // namespace unmask
