// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The operations of a backend against reference/ on fresh random inputs, in the backend's own
// memory and with poisoned outputs. Unlike the unit tests it runs on any GPU, at sizes of real
// models too.
//
//   unmask_device_check BACKEND [small|large] [SEED]     BACKEND: cuda, cuda-emulated, cpu
//
// One JSON object a line: operation, case, error in units of the tolerance (at most 1 is right),
// and the seed, which repeats the run. Exit codes: 0, 1 an operation is wrong, 2 usage, 3 no GPU.
#include "tests/gpu/device_check.h"

#include <cstdlib>

#include "harness/base/error.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/emulation.h"
#include "kernels/shared_vector.h"

namespace unmask::gpu_check {

ragged::ragged(checker& c, std::vector<std::int32_t> keys, std::int64_t gap)
    : length(std::move(keys)), sequences(static_cast<std::int32_t>(length.size())), begins{0} {
  const std::int32_t longest = *std::ranges::max_element(length);
  stride = (longest + kv_page_size - 1) / kv_page_size;
  std::vector<std::int32_t> table(static_cast<std::size_t>(all_pages()));
  std::iota(table.begin(), table.end(), 0);
  std::ranges::shuffle(table, c.random());
  for (std::int32_t s = 0; s < sequences; ++s) {
    for (std::int32_t p = 0; p < length[static_cast<std::size_t>(s)]; p += 1 + c.below(gap)) {
      owners.push_back(s);
      places.push_back(p);
    }
    begins.push_back(static_cast<std::int32_t>(places.size()));
  }
  rows = static_cast<std::int32_t>(places.size());
  begin = c.ints(begins);
  owner = c.ints(owners);
  place = c.ints(places);
  lengths = c.ints(length);
  pages = c.ints(table);
}

namespace {

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
  checker check(backend == "cuda"            ? cuda_backend()
                : backend == "cuda-emulated" ? cuda_emulated_backend()
                                             : cpu_backend(),
                size == "large", seed);
  // What was never compared on a GPU before comes first: a run out of time keeps its rows.
  check_attention(check);
  check_selection(check);
  check_model_operations(check);
  return check.wrong() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace unmask::gpu_check

int unmask_device_check_main(int argc, char** argv) {
  try {
    return unmask::gpu_check::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "unmask_device_check: %s\n", failure.what());
    return 3;
  }
}

// Weak: the GPU check's one program (multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_device_check_main(argc, argv);
}
