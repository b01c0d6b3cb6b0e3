// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What there is to compute on, as objects that are asked. Lists, checks, help and rows ask a device;
// nobody compares its name. A new one is its kernels and one entry of the list.
#pragma once

#include <string>
#include <vector>

#include "harness/base/run_keys.h"
#include "harness/devices/nvml.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"

namespace unmask {

// What a device can do at most, measured in this process. 0: not known.
struct device_roofs {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  std::string source;  // "fma and triad, 2 threads"
};

struct device {
  std::string name;
  std::string heeds;     // words of run_keys.h that are marked @THIS are for it
  std::string need;      // what of a machine it needs, as a list of needs says it; empty: nothing
  bool is_card = false;  // a driver, profilers and energy counters know it
  bool times_mean_something = true;
  bool has_graphs = false;  // can record layers and repeat them
  bool counts_traffic =
      false;  // tells what its kernels did to memory (kernels/cuda/device/traffic.h)
  // Keeps K/V and activations in bfloat16 beside bfloat16 weights, unless [run] says otherwise.
  bool halves_beside_halves = false;
  // Why it cannot be used here and now; empty: it can.
  std::string (*unusable)() = [] { return std::string(); };
  // Those that a run asks for by isa, gemm and graphs, less what the device check found wrong. The check
  // runs now if it has not run yet. Environment error for what this machine or program lacks.
  const backend& (*kernels)(const run_keys& run) = nullptr;
  // What the device check found of them, as rows say it (first_use.h); empty: the tests check these
  // kernels. `again`: checks anew.
  std::string (*checked)(const run_keys& run, bool again) = [](const run_keys&, bool) {
    return std::string();
  };
  // Reads nothing where nobody counts.
  energy_meter (*energy)() = [] { return energy_meter(""); };
  // The version of NCCL, which moves bytes between the devices of ranks; empty: their group moves them.
  std::string (*rank_library)() = [] { return std::string(); };
  // They are those of the format and the instructions of a run.
  device_roofs (*roofs)(const run_keys& run) = [](const run_keys&) { return device_roofs(); };
};

// In the order in which messages name them.
const std::vector<device>& device_list();
// Usage error with the known names for an unknown one.
const device& find_device(const std::string& name);
// The same; null of "auto", where none is chosen: a stand-in for a point computes on no device.
const device* device_if_chosen(const std::string& name);
// One more, from then on. For tests, and for devices that are linked into a program.
void register_device(device added);

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

// Usage error for a word of [run] that the device cannot heed; when all keys are known, whatever their
// order. "auto" is looked at again when the device is known.
void check_run_device(const run_keys& run);
// The kernels that a run asks for (device::kernels).
const backend& backend_of(const run_keys& run);
// What a run packs weights in; "auto" is f32.
weight_format weight_format_of(const run_keys& run);
// What it keeps keys and values in; usage error for a type that its device cannot hold.
dtype kv_type_of(const run_keys& run);
// The keys with "auto" resolved for both, as rows say what was used.
run_keys keys_as_used(run_keys run);

}  // namespace unmask
