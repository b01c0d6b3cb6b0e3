// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the parts of the CUDA runtime's stand-in share: functions, streams and the last error.
#pragma once

#include <cuda_runtime_api.h>

#include <concepts>
#include <functional>

#include "tests/softgpu/images.h"
#include "tests/softgpu/machine.h"

namespace unmask::softgpu {

// Something that a stream does. What is no launch, the next one waits for.
struct work {
  enum class sort : std::uint8_t { other, launch, early_launch } what = sort::other;
  std::function<void()> run;
  template <class F>
  requires std::invocable<F> work(F f, sort s = sort::other)
      : what(s), run(std::move(f)) {}  // NOLINT: as a function is
};

struct graph {
  std::vector<work> nodes;
};
struct stream {
  bool blocking = true;
  std::deque<work> queue;
  graph* capture = nullptr;
  bool broken = false;  // the capture
  int capture_mode = 0;
  launches_before before;  // the launch that is next to run
};

struct function {
  std::string name;
  std::unique_ptr<kernel> code;
  int shared_limit = 48 * 1024;  // of dynamic memory, as cudaFuncSetAttribute left it
  bool broken = false;
  bool large_clusters = false;  // of more than 8 blocks
};

struct state {
  struct configuration {
    dim3 grid, threads;
    std::size_t shared;
    void* in;
  };
  std::map<const void*, std::unique_ptr<function>> functions;
  std::vector<configuration> calls;
  stream standard;
  std::set<stream*> streams;
  stream* running = nullptr;  // whose work this is
  cudaError_t last = cudaSuccess;
  int capturing = 0;
  std::uint64_t captures = 0, graph_launches = 0, graph_nodes = 0, copies = 0, waits = 0,
                to_device_bytes = 0, to_host_bytes = 0;
};
state& all();

// Remembers an error for cudaGetLastError.
cudaError_t result(cudaError_t e);
stream& stream_of(cudaStream_t s);
bool known(cudaStream_t s);
// Runs what waits in a stream as far as it goes; false: it waits for another process.
bool advance(stream& s, cudaError_t* status);
// Runs what waits in a stream, or in all.
cudaError_t drain(stream& s);
cudaError_t drain_all();
cudaError_t enqueue(stream& s, work w);
// What waits or allocates is not allowed while this thread captures: true, and the capture is broken.
bool refused(const char* call);
// Decodes the kernel where that has not been done.
cudaError_t ready(function& f);

}  // namespace unmask::softgpu
