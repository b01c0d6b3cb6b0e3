// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/queue.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "kernels/cuda/choice.h"
#include "kernels/shared_vector.h"

#if !defined(__CUDACC__)
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <vector>

#include "kernels/cuda/device/traffic.h"
#include "kernels/host_memory.h"
#include "kernels/sanitized.h"
#endif

namespace unmask::cuda {

#if !defined(__CUDACC__)
namespace {
emulation chosen;
std::uint64_t launches = 0;
}  // namespace

void set_emulation(const emulation& choice) {
  chosen = choice;
  emulator::set_schedule(choice.order);
}
const emulation& current_emulation() {
  return chosen;
}
std::uint64_t emulated_launches() {
  return launches;
}
#endif

namespace UNMASK_TARGET {

void* queue::scratch(scratch_slot slot, std::size_t bytes) {
  buffer& b = scratch_[static_cast<std::size_t>(slot)];
  if (b.bytes < bytes) {
    refuse_while_recording("needs more scratch memory");
    synchronize();  // kernels in flight may still use the old one
    if (recorded_ && b.memory != nullptr) outgrown_.push_back(b.memory);
    b.memory.reset();
    b.memory = allocate(bytes + bytes / 4, memory_kind::device);
    b.bytes = bytes + bytes / 4;
  }
  return b.memory.get();
}

void queue::refuse_while_recording(const char* what) const {
  if (recording_) {
    throw std::logic_error(std::string("an operation ") + what + " while it is recorded");
  }
}

memory_kind host_visible_memory() {
  static const bool pinned = chosen_by_environment("UNMASK_CUDA_LISTS", "pinned", "managed", true);
  return pinned ? memory_kind::pinned : memory_kind::managed;
}

#if defined(__CUDACC__)

struct recorded_launches {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  recorded_launches() = default;
  recorded_launches(const recorded_launches&) = delete;
  recorded_launches& operator=(const recorded_launches&) = delete;
  ~recorded_launches() {  // at exit the driver may be gone already
    if (runnable != nullptr) (void)cudaGraphExecDestroy(runnable);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
};

namespace {

// Memory that the host can use too; null: there is none left.
void* host_and_device_memory(std::size_t bytes, memory_kind kind) {
  void* memory = nullptr;
  const cudaError_t status =
      kind == memory_kind::pinned
          ? cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable)
          : cudaMallocManaged(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  UNMASK_CUDA_CALL(status);
  return memory;
}

// Kernels in flight may still use it: cudaFree waits for them, cudaFreeHost does not promise to.
void release(void* memory, memory_kind kind) {
  if (kind == memory_kind::pinned) {
    (void)cudaDeviceSynchronize();
    (void)cudaFreeHost(memory);
  } else {
    (void)cudaFree(memory);
  }
}

// Managed memory may be promised beyond what the device has, and then it pages for ever.
void refuse_more_than_there_is(std::size_t bytes) {
  constexpr std::size_t large = std::size_t{64} << 20;
  if (bytes < large) return;
  std::size_t free = 0, total = 0;
  UNMASK_CUDA_CALL(cudaMemGetInfo(&free, &total));
  if (bytes <= free) return;
  throw environment_error("out of GPU memory: " + std::to_string(bytes >> 20) +
                          " MiB are asked for and " + std::to_string(free >> 20) +
                          " MiB are free; use a smaller model, batch or cache");
}

}  // namespace

queue::queue() {
  set_shared_memory_source(
      {[](std::size_t bytes) { return host_and_device_memory(bytes, host_visible_memory()); },
       [](void* memory) { release(memory, host_visible_memory()); }});
  UNMASK_CUDA_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  int device = 0;
  UNMASK_CUDA_CALL(cudaGetDevice(&device));
  UNMASK_CUDA_CALL(
      cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
}

queue::~queue() {
  (void)cudaStreamDestroy(stream_);  // at exit the driver may be gone already
}

std::shared_ptr<void> queue::allocate(std::size_t bytes, memory_kind kind) {
  refuse_while_recording("allocates memory");
  void* memory = nullptr;
  bytes = bytes > 0 ? bytes : 1;
  if (kind == memory_kind::device) {
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
    } else {
      UNMASK_CUDA_CALL(status);
    }
  } else {
    if (kind == memory_kind::managed) refuse_more_than_there_is(bytes);
    memory = host_and_device_memory(bytes, kind);
  }
  if (memory == nullptr) {
    throw environment_error("out of GPU memory: cannot allocate " + std::to_string(bytes >> 20) +
                            " MiB; use a smaller model, batch or cache");
  }
  std::shared_ptr<void> owner(memory, [kind](void* p) { release(p, kind); });
  if (kind == memory_kind::pinned) {
    std::memset(memory, 0, bytes);
  } else {
    UNMASK_CUDA_CALL(cudaMemsetAsync(memory, 0, bytes, stream_));
    synchronize();
  }
  return owner;
}

void queue::copy_to_device(void* to, const void* from, std::size_t bytes) {
  refuse_while_recording("copies from the host");
  // From pageable memory the call returns after the source has been read.
  UNMASK_CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
}

void queue::fill_zero(void* to, std::size_t bytes) {
  UNMASK_CUDA_CALL(cudaMemsetAsync(to, 0, bytes, stream_));
}

void queue::synchronize() {
  refuse_while_recording("waits");
  UNMASK_CUDA_CALL(cudaStreamSynchronize(stream_));
}

void queue::begin_recording() {
  refuse_while_recording("records");
  UNMASK_CUDA_CALL(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  recording_ = recorded_ = true;
}

std::shared_ptr<const recorded_launches> queue::end_recording() {
  recording_ = false;
  const auto work = std::make_shared<recorded_launches>();
  UNMASK_CUDA_CALL(cudaStreamEndCapture(stream_, &work->graph));
  UNMASK_CUDA_CALL(cudaGraphInstantiate(&work->runnable, work->graph, 0));
  UNMASK_CUDA_CALL(cudaGraphUpload(work->runnable, stream_));
  return work;
}

void queue::drop_recording() {
  recording_ = false;
  cudaGraph_t graph = nullptr;
  const bool ended = cudaStreamEndCapture(stream_, &graph) == cudaSuccess;
  (void)cudaGetLastError();  // an invalidated capture is what is being cleared away
  if (ended && graph != nullptr) (void)cudaGraphDestroy(graph);
}

void queue::repeat(const recorded_launches& work) {
  UNMASK_CUDA_CALL(cudaGraphLaunch(work.runnable, stream_));
}

void queue::allow_shared(const void* kernel, const grid_shape& shape) {
  UNMASK_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shape.shared_bytes)));
}

#else

struct recorded_launches {
  std::vector<waiting_launch> launches;
};

namespace {

// Shared by all queues: memory outlives the queue that allocated it.
std::deque<waiting_launch>& waiting() {
  static auto* all = new std::deque<waiting_launch>;  // still there when static tensors go
  return *all;
}
std::map<std::uintptr_t, std::size_t>& owned() {
  static auto* all = new std::map<std::uintptr_t, std::size_t>;
  return *all;
}

bool is_owned(std::uintptr_t address) {
  auto after = owned().upper_bound(address);
  if (after == owned().begin()) return false;
  --after;
  return address < after->first + after->second;
}

// The shadow memory of the sanitizers is mapped where pairs of small integers would point; programs
// and their memory lie above it.
constexpr std::uintptr_t shadow_end = sanitized ? std::uintptr_t{1} << 46 : 0;

bool is_mapped(std::uintptr_t address) {
  if (address < shadow_end) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

// Words of the arguments that are addresses of mapped memory are pointers.
void check_arguments(const waiting_launch& l) {
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= l.bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const unsigned char*>(l.arguments) + at, sizeof word);
    if (word < 4096 || is_owned(word) || !is_mapped(word)) continue;
    throw emulator::emulation_error(std::string(l.name) + ": the argument at byte " +
                                    std::to_string(at) +
                                    " points to host memory, which a GPU cannot read");
  }
}

void count_launch(const waiting_launch& l) {
  if (l.on_host) return;
  ++launches;
  if (checks_arguments && chosen.own_memory_only) check_arguments(l);
}

void run_now(const waiting_launch& l) {
  if (l.on_host) {
    l.body(l.keep.get());
    return;
  }
  try {
    const auto* closure = static_cast<const unsigned char*>(l.keep.get());
    const auto before = static_cast<const unsigned char*>(l.arguments) - closure;
    emulator::begin_launch(l.name, std::size_t{l.shape.x} * l.shape.y, closure,
                           static_cast<std::size_t>(before) + l.bytes);
    emulator::run({l.shape.x, l.shape.y, l.shape.threads, l.shape.shared_bytes}, l.body,
                  l.keep.get());
    emulator::end_launch();
  } catch (const emulator::emulation_error& failure) {
    throw emulator::emulation_error(std::string(l.name) + ": " + failure.what());
  }
}

void drain() {
  while (!waiting().empty()) {
    const waiting_launch next = std::move(waiting().front());
    waiting().pop_front();
    run_now(next);
  }
}

}  // namespace

queue::queue() {
  set_shared_memory_source({[](std::size_t bytes) {
                              void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
                              owned()[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
                              emulator::note_memory(memory, bytes, emulator::memory_home::host);
                              return memory;
                            },
                            [](void* memory) {
                              drain();
                              owned().erase(reinterpret_cast<std::uintptr_t>(memory));
                              emulator::forget_memory(memory);
                              std::free(memory);
                            }});
}
queue::~queue() = default;

std::shared_ptr<void> queue::allocate(std::size_t bytes, memory_kind kind) {
  refuse_while_recording("allocates memory");
  const auto memory = std::make_shared<tensor>(
      allocate_host(dtype::u8, {static_cast<std::int64_t>(bytes > 0 ? bytes : 1)}));
  void* start = memory->view().data;
  owned()[reinterpret_cast<std::uintptr_t>(start)] = bytes > 0 ? bytes : 1;
  emulator::note_memory(
      start, bytes,
      kind == memory_kind::device ? emulator::memory_home::device : emulator::memory_home::host);
  return {start, [memory](void* p) {
            drain();
            owned().erase(reinterpret_cast<std::uintptr_t>(p));
            emulator::forget_memory(p);
          }};
}

void queue::copy_to_device(void* to, const void* from, std::size_t bytes) {
  refuse_while_recording("copies from the host");
  emulator::note_copy(bytes);
  struct copy {
    void* to;
    std::vector<unsigned char> bytes;
  };
  const auto* first = static_cast<const unsigned char*>(from);
  host_work(
      [](const void* p) {
        const auto* c = static_cast<const copy*>(p);
        if (!c->bytes.empty()) std::memcpy(c->to, c->bytes.data(), c->bytes.size());
      },
      std::make_shared<copy>(copy{to, {first, first + bytes}}));
}

void queue::fill_zero(void* to, std::size_t bytes) {
  struct fill {
    void* to;
    std::size_t bytes;
  };
  host_work(
      [](const void* p) {
        const auto* f = static_cast<const fill*>(p);
        emulator::note_fill(f->bytes);
        std::memset(f->to, 0, f->bytes);
      },
      std::make_shared<fill>(fill{to, bytes}));
}

void queue::synchronize() {
  refuse_while_recording("waits");
  emulator::note_wait();
  drain();
}

void queue::begin_recording() {
  refuse_while_recording("records");
  recording_ = recorded_ = true;
}

std::shared_ptr<const recorded_launches> queue::end_recording() {
  recording_ = false;
  auto work = std::make_shared<recorded_launches>();
  work->launches = std::exchange(record_, {});
  return work;
}

void queue::drop_recording() {
  recording_ = false;
  record_.clear();
}

void queue::repeat(const recorded_launches& work) {
  for (const waiting_launch& l : work.launches) submit(l);
}

void queue::submit(waiting_launch l) {
  if (recording_) {
    record_.push_back(std::move(l));
    return;
  }
  count_launch(l);
  if (current_emulation().deferred) {
    waiting().push_back(std::move(l));
  } else {
    drain();
    run_now(l);
  }
}

void queue::host_work(void (*body)(const void*), std::shared_ptr<void> argument) {
  submit({"host work", {}, std::move(argument), body, nullptr, 0, true});
}

void queue::enqueue(const char* name, const grid_shape& shape, std::shared_ptr<void> keep,
                    void (*body)(const void*), const void* arguments, std::size_t bytes) {
  submit({name, shape, std::move(keep), body, arguments, bytes, false});
}

#endif

}  // namespace UNMASK_TARGET
}  // namespace unmask::cuda
