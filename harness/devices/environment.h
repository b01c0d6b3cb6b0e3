// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The machine and the build that a row was measured on: part of every row, printed by
// `unmask doctor`. Nothing here identifies the user or the host by name.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/devices/build_info.h"
#include "harness/devices/nvml.h"
#include "kernels/cuda/device.h"

namespace unmask {

// Empty strings and zeros mean "this machine does not say"; they become null in JSON.
struct environment {
  build_info build{};

  std::string os;            // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;        // "Linux 6.1.0"
  std::string architecture;  // "x86_64"

  std::string cpu_model;
  int cpus_online = 0;
  int cpus_usable = 0;      // of this process (affinity)
  double cpu_quota = 0;     // processors' worth of time that control groups allow; 0: no limit
  std::string cpu_backend;  // which kernels were chosen: "cpu-avx512", ...
  std::string governor;     // "performance", "powersave", ...
  std::array<double, 3> load_average{};  // 1, 5 and 15 minutes
  int omp_threads = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t memory_limit_bytes = 0;  // of control groups; 0: no limit
  double other_work = 0;  // share of the usable processors that others had; look_at_load() measures

  cuda::report cuda;
  std::string gpu_driver;                // "580.95.05"
  std::vector<gpu_telemetry> telemetry;  // parallel to cuda.devices
  // Counters are for administrators only, as the driver ships; then CUPTI and ncu cannot count.
  bool gpu_counters_restricted = false;

  std::string nsys;  // path of the program, when it is on PATH
  std::string ncu;

  // Environment variables that change which kernels run, where they are set: name and value.
  std::vector<std::pair<std::string, std::string>> choices;

  std::vector<std::string> unfit;  // why times measured now would mislead, a few words each
  std::vector<std::string> notes;  // one sentence for each thing that was asked for and is missing
};

// Looks at everything above; takes a few milliseconds, a second where a GPU must wake. cpu_backend
// is backend::name() of the kernels in use. Never throws for something the machine lacks.
environment capture_environment(const std::string& cpu_backend);

// Watches the machine for a tenth of a second, in which this process sleeps: fills in other_work and
// what it adds to unfit.
void look_at_load(environment& machine);

// Threads of OpenMP: no more than a CPU quota lets run at a time, unless OMP_NUM_THREADS says how many.
void match_threads_to_quota();
// Threads that an operation takes at most.
int operation_threads();
// So many while it lives.
class fewer_threads {
 public:
  explicit fewer_threads(int count);
  ~fewer_threads();
  fewer_threads(const fewer_threads&) = delete;
  fewer_threads& operator=(const fewer_threads&) = delete;

 private:
  int before_;
};

// What multiplies bfloat16 on tensor cores in the own kernels, on a device of this compute capability:
// "wgmma" where machine code for sm_90a runs, on 9.0 alone, else "mma.sync". architectures as in
// build_info. UNMASK_CUDA_WGMMA=off, and CUDA_FORCE_PTX_JIT=1, by which the driver leaves machine
// code aside, choose mma.sync (kernels/cuda/queue.h asks the loaded kernel itself).
std::string tensor_products(const std::string& architectures, int major, int minor);

// One JSON object on one line, keys in a fixed order, units in the names.
std::string environment_json(const environment& machine);

}  // namespace unmask
