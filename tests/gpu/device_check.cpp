// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check (kernels/check) as a program of its own: at sizes of real models too, with any seed.
//
//   unmask_device_check BACKEND [small|large] [SEED] [--cases REGEX]     BACKEND: cuda, cuda-emulated, cpu
//
// REGEX: only operations in whose name it is found; a usage error if there is none.
//
// One JSON object a line: operation, case, error in units of the tolerance (at most 1 is right),
// and the seed, which repeats the run. Exit codes: 0, 1 an operation is wrong, 2 usage, 3 no GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <regex>
#include <string>
#include <vector>

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

// Takes "--cases REGEX" out of the words, wherever it is; false: there is no word behind it, or it is none.
bool take_cases(std::vector<std::string>& words, std::regex& cases) {
  const auto at = std::ranges::find(words, "--cases");
  if (at == words.end()) return true;
  if (at + 1 == words.end()) return false;
  try {
    cases = std::regex(*(at + 1));
  } catch (const std::regex_error&) {
    return false;
  }
  words.erase(at, at + 2);
  return true;
}

int run(const std::vector<std::string>& given) {
  std::vector<std::string> words = given;
  std::regex cases("");
  const bool understood = take_cases(words, cases) && words.size() <= 3;
  const std::string backend = words.empty() ? "" : words[0];
  const std::string size = words.size() > 1 ? words[1] : "small";
  const std::uint64_t seed =
      words.size() > 2 ? std::strtoull(words[2].c_str(), nullptr, 10) : std::random_device{}();
  const bool known = backend == "cuda" || backend == "cuda-emulated" || backend == "cpu";
  if (!understood || !known || (size != "small" && size != "large")) {
    std::fprintf(stderr,
                 "usage: unmask_device_check cuda|cuda-emulated|cpu [small|large] [SEED] "
                 "[--cases REGEX]\n");
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
  bool any = false;
  for (const device_check& c : registered_device_checks()) {
    if (!std::regex_search(c.operations, cases)) continue;
    any = true;
    check.run(c.operations, c.cases);
  }
  if (!any) {
    std::fprintf(stderr, "unmask_device_check: no operation's name has what --cases looks for\n");
    return 2;
  }
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace unmask::device_checks

int unmask_device_check_main(int argc, char** argv) {
  try {
    return unmask::device_checks::run({argv + 1, argv + std::max(argc, 1)});
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "unmask_device_check: %s\n", failure.what());
    return 3;
  }
}

// Weak: the GPU check's one program (multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_device_check_main(argc, argv);
}
