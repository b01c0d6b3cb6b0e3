// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which device a run takes: the only place that looks whether there is a GPU to run on.
#pragma once

#include <string>
#include <vector>

#include "harness/base/run_keys.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"

namespace unmask {

struct chosen_device {
  std::string name;  // "auto" resolved
  std::string why;   // the GPU's name, or why there is none; empty where nobody asked
};

// Whether code for these architectures ("80-real 90a-real", as CMake names them) runs on a device
// of this compute capability (CUDA C++ Programming Guide, "Application Compatibility").
bool runs_code_of(const std::string& architectures, int major, int minor);

// Why the program cannot run on the first GPU of this machine; empty: it can.
std::string why_no_gpu(const cuda::report& machine, const std::string& architectures);

// "auto" is the GPU where one is usable, else the CPU. Environment error for "cuda" where there is
// none. Every other name is what it says.
chosen_device choose_device(const std::string& wanted, const cuda::report& machine,
                            const std::string& architectures);
// On this machine.
chosen_device choose_device(const std::string& wanted);
std::string why_no_gpu();

// "device: cpu (no GPU: there is no NVIDIA driver on this machine)", for people to read.
std::string device_line(const std::vector<chosen_device>& devices);

// The kernels of a device by name; usage error for an unknown one, environment error without CUDA.
const backend& backend_of(const std::string& device);
// What a run packs weights in; "auto" is f32.
weight_format weight_format_of(const run_keys& run);
// What it keeps keys and values in; usage error for a type that its device cannot hold.
dtype kv_type_of(const run_keys& run);
// The keys with "auto" resolved for both, as rows say what was used.
run_keys keys_as_used(run_keys run);

}  // namespace unmask
