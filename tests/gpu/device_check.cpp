// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check (kernels/check) as a program of its own: at sizes of real models too, with any seed.
//
//   unmask_device_check BACKEND [small|large] [SEED]     BACKEND: cuda, cuda-emulated, cpu
//
// One JSON object a line: operation, case, error in units of the tolerance (at most 1 is right),
// and the seed, which repeats the run. Exit codes: 0, 1 an operation is wrong, 2 usage, 3 no GPU.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "harness/base/error.h"
#include "kernels/check/checker.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/emulation.h"

namespace unmask::device_checks {
namespace {

std::string plain(std::string text) {
  for (char& c : text) c = c == '"' || c == '\\' || c == '\n' ? ' ' : c;
  return text;
}

void print_result(const case_result& r, std::uint64_t seed) {
  std::printf("{\"operation\":\"%s\",\"case\":\"%s\",\"error\":%.3g,\"right\":%s,\"seed\":%llu",
              r.operation.c_str(), r.what.c_str(), std::isfinite(r.error) ? r.error : -1.0,
              r.right() ? "true" : "false", static_cast<unsigned long long>(seed));
  if (!r.problem.empty()) std::printf(",\"problem\":\"%s\"", plain(r.problem).c_str());
  std::printf("}\n");
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "";
  const std::string size = argc > 2 ? argv[2] : "small";
  const std::uint64_t seed =
      argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}();
  const bool known = backend == "cuda" || backend == "cuda-emulated" || backend == "cpu";
  if (!known || (size != "small" && size != "large")) {
    std::fprintf(stderr,
                 "usage: unmask_device_check cuda|cuda-emulated|cpu [small|large] [SEED]\n");
    return 2;
  }
  if (backend == "cuda") {
    const cuda::report machine = cuda::query();
    if (machine.devices.empty()) throw environment_error(machine.note);
  }
  ::setenv("UNMASK_CUDA_GRAPHS", "on", 0);  // the emulator records only where it is asked to
  // As on a GPU: launches wait for the host, which cannot touch device memory, nor kernels its own.
  cuda::set_emulation({.deferred = true, .own_memory_only = true, .hides_memory = true});
  bool wrong = false;
  checker check(backend == "cuda"            ? cuda_backend()
                : backend == "cuda-emulated" ? cuda_emulated_backend()
                                             : cpu_backend(),
                size == "large", seed, [&](const case_result& r) {
                  wrong = wrong || !r.right();
                  print_result(r, seed);
                });
  for (const device_check& c : registered_device_checks()) check.run(c.operations, c.cases);
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace unmask::device_checks

int unmask_device_check_main(int argc, char** argv) {
  try {
    return unmask::device_checks::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "unmask_device_check: %s\n", failure.what());
    return 3;
  }
}

// Weak: the GPU check's one program (multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_device_check_main(argc, argv);
}
