// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/command.h"

#include <iostream>

#include "harness/base/error.h"
#include "kernels/cuda/device.h"

namespace unmask {
const ops& device_named(const std::string& name) {
  if (name == "cpu") return cpu_ops();
  if (name == "reference") return reference_ops();
  if (name == "cuda-emulated") return cuda_emulated_ops();
  if (name == "cuda") {
    const cuda::report machine = cuda::query();
    if (!machine.devices.empty()) return cuda_ops();
    std::cerr << machine.note << "; using the CPU instead\n";
    return cpu_ops();
  }
  throw usage_error("unknown device '" + name + "'; known: cpu, reference, cuda, cuda-emulated");
}

}  // namespace unmask
