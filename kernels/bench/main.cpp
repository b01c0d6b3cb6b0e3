// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask_bench: Google Benchmark's own flags, for example
//   unmask_bench --benchmark_filter=gemm --benchmark_out=gemm.json --benchmark_out_format=json
#include <benchmark/benchmark.h>

#include <string>

#include "kernels/bench/device.h"
#include "kernels/bench/roofs.h"
#include "kernels/cpu/isa.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  unmask::bench::register_device_cases();
  const auto& r = unmask::bench::measured_roofs();
  // Six digits of the value are enough; the JSON context takes text only.
  benchmark::AddCustomContext("isa", unmask::cpu::name_of(unmask::cpu::active_isa()));
  benchmark::AddCustomContext("threads", std::to_string(r.threads));
  benchmark::AddCustomContext("roof_f32_gflops", std::to_string(r.f32_flops / 1e9));
  benchmark::AddCustomContext("roof_int8_gops", std::to_string(r.int8_ops / 1e9));
  benchmark::AddCustomContext("roof_triad_gb_s", std::to_string(r.triad_bytes / 1e9));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
