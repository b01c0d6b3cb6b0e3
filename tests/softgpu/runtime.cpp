// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA runtime on the GPU in software: what nvcc's host code and the project call. Work of a
// stream runs when somebody waits for it, as late as it may.
#include "tests/softgpu/runtime.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/softgpu/runtime_state.h"

namespace unmask::softgpu {

state& all() {
  static auto* one = new state;
  return *one;
}

cudaError_t result(cudaError_t e) {
  if (e != cudaSuccess) all().last = e;
  return e;
}

stream& stream_of(cudaStream_t s) {
  if (s == nullptr || s == cudaStreamLegacy) return all().standard;
  return *reinterpret_cast<stream*>(s);
}

bool known(cudaStream_t s) {
  return s == nullptr || s == cudaStreamLegacy ||
         all().streams.contains(reinterpret_cast<stream*>(s));
}

// What the work may find unfinished: launches before it, if it is one that may start early.
void prepare(stream& s, const work& next) {
  all().running = &s;
  launches_before& b = s.before;
  if (next.what != work::sort::early_launch) b = {};
  b.early = {b.at_start, b.at_end,
             !s.queue.empty() && s.queue.front().what == work::sort::early_launch};
}

bool advance(stream& s, cudaError_t* status) {
  while (!s.queue.empty()) {
    work next = std::move(s.queue.front());
    s.queue.pop_front();
    prepare(s, next);
    try {
      next.run();
    } catch (const not_yet&) {
      s.queue.push_front(std::move(next));
      return false;
    } catch (const fault& f) {
      *status = static_cast<cudaError_t>(f.status);
      s.queue.clear();
    } catch (const std::exception& f) {
      std::fprintf(stderr, "softgpu: %s\n", f.what());
      note_host("launch failed", f.what());
      *status = cudaErrorUnknown;
      s.queue.clear();
    }
  }
  s.before = {};  // who waited for the stream knows that all of it has ended
  return true;
}
cudaError_t drain(stream& s) {
  cudaError_t status = cudaSuccess;
  while (!advance(s, &status)) ::usleep(200);
  return status;
}
cudaError_t drain_all() {
  cudaError_t status = drain(all().standard);
  for (stream* s : all().streams) {
    const cudaError_t e = drain(*s);
    if (e != cudaSuccess) status = e;
  }
  return status;
}

cudaError_t enqueue(stream& s, work w) {
  if (s.capture != nullptr) {
    if (s.broken) return cudaErrorStreamCaptureInvalidated;
    s.capture->nodes.push_back(std::move(w));
    return cudaSuccess;
  }
  if (&s == &all().standard) {  // waits for streams that are not marked as independent
    for (stream* other : all().streams) {
      if (other->blocking) (void)drain(*other);
    }
  } else if (s.blocking) {
    (void)drain(all().standard);
  }
  s.queue.push_back(std::move(w));
  if (!options().lazy) return drain(s);
  return cudaSuccess;
}

bool refused(const char* call) {
  if (all().capturing == 0) return false;
  note_host("call while capturing", call);
  for (stream* s : all().streams) {
    if (s->capture != nullptr) s->broken = true;
  }
  all().last = cudaErrorStreamCaptureUnsupported;
  return true;
}

namespace {

// The stand-ins for cuBLASLt and NCCL serve this program, whatever library the machine has.
[[gnu::constructor]] void begin() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::fprintf(stderr, "NOT RUN: the GPU in software needs a CPU with AVX2 and FMA\n");
    std::_Exit(77);
  }
  ::setenv("UNMASK_CUBLASLT", UNMASK_SOFTGPU_CUBLASLT_FILE, 0);
  ::setenv("UNMASK_NCCL", UNMASK_SOFTGPU_NCCL_FILE, 0);
  ::setenv("UNMASK_CUDA_KERNELS", "new", 0);  // no time says here which are faster
}

void write_statistics(const std::vector<kernel*>& kernels) {
  std::uint64_t launches = 0, lanes = 0;
  for (const kernel* k : kernels) {
    launches += k->launches;
    lanes += k->lane_instructions;
  }
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::fprintf(
      stderr,
      "softgpu: sm_%d, %zu kernels, %llu launches, %.3g instructions of lanes, %llu "
      "findings; %llu captures, %llu graph launches of %llu nodes in all, %llu copies "
      "(%llu bytes to the device, %llu to the host), %llu waits for a stream; %llu launches "
      "that may start early, %llu of them behind one without launch_dependents, %llu that never "
      "wait\n",
      options().arch, kernels.size(), number(launches), static_cast<double>(lanes),
      number(findings()), number(all().captures), number(all().graph_launches),
      number(all().graph_nodes), number(all().copies), number(all().to_device_bytes),
      number(all().to_host_bytes), number(all().waits), number(counted_early().launches),
      number(counted_early().before_silent), number(counted_early().never_waited));
}

[[gnu::destructor]] void write_at_end() {
  std::vector<kernel*> kernels;
  std::vector<std::string> others;
  for (const auto& [host, f] : all().functions) {
    if (f->code != nullptr) {
      kernels.push_back(f->code.get());
    } else {
      others.push_back(f->name);
    }
  }
  write_coverage(kernels, others);
  if (options().statistics) write_statistics(kernels);
}

}  // namespace

void enqueue_host(void* in, std::function<void()> body, std::vector<library_access> accesses,
                  int* status) {
  const auto run = [body, accesses] {
    body();
    leave_to_next(accesses, &all().running->before);
  };
  *status = enqueue(stream_of(static_cast<cudaStream_t>(in)), {run, work::sort::launch});
}

void* host_address(const void* device, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(device);
  const allocation* a = memory::all().find(at);
  if (a == nullptr) return options().pageable ? const_cast<void*>(device) : nullptr;
  if (at + bytes > a->end) return nullptr;
  return reinterpret_cast<void*>(at + static_cast<std::uintptr_t>(a->to_host));
}

void library_note(const char* kind, const std::string& what) {
  note_host(kind, what);
}

}  // namespace unmask::softgpu

using namespace unmask::softgpu;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t e = all().last;
  all().last = cudaSuccess;
  return e;
}
cudaError_t cudaPeekAtLastError() {
  return all().last;
}
const char* cudaGetErrorName(cudaError_t e) {
  static thread_local char text[32];
  switch (e) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorMisalignedAddress:
      return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorLaunchTimeout:
      return "cudaErrorLaunchTimeout";
    case cudaErrorLaunchOutOfResources:
      return "cudaErrorLaunchOutOfResources";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    default:
      std::snprintf(text, sizeof text, "cudaError %d", static_cast<int>(e));
      return text;
  }
}
const char* cudaGetErrorString(cudaError_t e) {
  return cudaGetErrorName(e);
}

}  // extern "C"
