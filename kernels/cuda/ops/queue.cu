// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/queue.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "kernels/cuda/rank_moves.h"
#include "kernels/shared_vector.h"

#if defined(__CUDACC__)
#include "kernels/cuda/nccl.h"
#else
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
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
    wait();  // kernels in flight may still use the old one; nothing is fetched, because an operation
             // that has named its results already may be asking
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

namespace {

void share_memory() {
  set_shared_memory_source({[](std::size_t bytes) { return staging::of_backend().allocate(bytes); },
                            [](void* memory) { staging::of_backend().release(memory); }});
}

}  // namespace

void queue::note_uses() {
  recording_ = recorded_ = true;
  lists_change();  // what is recorded makes its own plans
  used_.clear();
  staging_.note_into(&used_);
}

staging::uses queue::noted_uses() {
  recording_ = false;
  lists_change();
  staging_.note_into(nullptr);
  std::sort(used_.begin(), used_.end());
  used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
  return std::exchange(used_, {});
}

void queue::synchronize() {
  refuse_while_recording("waits");
  if (!queued_) return;
  staging_.start_fetching(*this);
  wait();
  queued_ = false;
  staging_.finish_fetching();
}

void queue::wait_for_posted() {
  refuse_while_recording("waits");
  lists_change();
  wait();
  queued_ = owes_results();  // which the next synchronize() brings home
}

#if defined(__CUDACC__)

struct recorded_launches {
  staging::uses used;
  recorded_moves moves;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  recorded_launches() = default;
  recorded_launches& operator=(recorded_launches&&) = delete;
  ~recorded_launches() {  // at exit the driver may be gone already
    if (runnable != nullptr) (void)cudaGraphExecDestroy(runnable);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
};

namespace {

// Kernels in flight may still use it: cudaFree waits for them, cudaFreeHost does not promise to.
void release(void* memory, memory_kind kind) {
  if (kind == memory_kind::pinned) {
    (void)cudaDeviceSynchronize();
    (void)cudaFreeHost(memory);
  } else {
    (void)cudaFree(memory);
  }
}

constexpr std::size_t pinned_bytes = std::size_t{16} << 20;
bool is_in_use = false;  // the GPU

}  // namespace

bool owns_memory(const void* address) {
  if (!is_in_use) return false;  // who asks may compute on a CPU
  if (staging::of_backend().holds(address)) return true;
  cudaPointerAttributes found{};
  UNMASK_CUDA_CALL(cudaPointerGetAttributes(&found, address));
  return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged;
}

queue::queue() {
  share_memory();
  is_in_use = true;
  UNMASK_CUDA_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  int device = 0;
  UNMASK_CUDA_CALL(cudaGetDevice(&device));
  UNMASK_CUDA_CALL(
      cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
  UNMASK_CUDA_CALL(
      cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
}

queue::~queue() {
  (void)cudaStreamDestroy(stream_);  // at exit the driver may be gone already
}

std::shared_ptr<void> allocate_memory(std::size_t bytes, memory_kind kind) {
  void* memory = nullptr;
  bytes = bytes > 0 ? bytes : 1;
  const cudaError_t status = kind == memory_kind::pinned
                                 ? cudaHostAlloc(&memory, bytes, cudaHostAllocPortable)
                             : kind == memory_kind::managed ? cudaMallocManaged(&memory, bytes)
                                                            : cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw environment_error("out of GPU memory: cannot allocate " + std::to_string(bytes >> 20) +
                            " MiB; use a smaller model, batch or cache");
  }
  UNMASK_CUDA_CALL(status);
  std::shared_ptr<void> owner(memory, [kind](void* p) { release(p, kind); });
  if (kind == memory_kind::pinned) {
    std::memset(memory, 0, bytes);
  } else {
    UNMASK_CUDA_CALL(cudaMemset(memory, 0, bytes));
    UNMASK_CUDA_CALL(cudaStreamSynchronize(nullptr));
  }
  return owner;
}

// Through pinned memory, from where the copy runs while the host goes on.
void queue::copy_to_device(void* to, const void* from, std::size_t bytes) {
  refuse_while_recording("copies from the host");
  if (pinned_ == nullptr) pinned_ = allocate(pinned_bytes, memory_kind::pinned);
  const auto* source = static_cast<const unsigned char*>(from);
  for (std::size_t at = 0; at < bytes;) {
    if (staged_ == pinned_bytes) {
      wait_for_stream(stream_);
      staged_ = 0;
    }
    const std::size_t piece = std::min(bytes - at, pinned_bytes - staged_);
    unsigned char* staged = static_cast<unsigned char*>(pinned_.get()) + staged_;
    std::memcpy(staged, source + at, piece);
    UNMASK_CUDA_CALL(cudaMemcpyAsync(static_cast<unsigned char*>(to) + at, staged, piece,
                                     cudaMemcpyHostToDevice, stream_));
    at += piece;
    staged_ = std::min(pinned_bytes, staged_ + (piece + 63) / 64 * 64);
  }
  queued_ = true;
}

void queue::copy_to_host(void* to, const void* from, std::size_t bytes) {
  refuse_while_recording("copies to the host");
  UNMASK_CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
  queued_ = true;
}

void queue::fill_zero(void* to, std::size_t bytes) {
  UNMASK_CUDA_CALL(cudaMemsetAsync(to, 0, bytes, stream_));
  queued_ = true;
}

void queue::wait() {
  wait_for_stream(stream_);
  staged_ = 0;
}

void queue::begin_recording() {
  refuse_while_recording("records");
  UNMASK_CUDA_CALL(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  (void)take_recorded_moves();
  note_uses();
}

std::shared_ptr<const recorded_launches> queue::end_recording() {
  const auto work = std::make_shared<recorded_launches>();
  work->used = noted_uses();
  work->moves = take_recorded_moves();
  UNMASK_CUDA_CALL(cudaStreamEndCapture(stream_, &work->graph));
  UNMASK_CUDA_CALL(cudaGraphInstantiate(&work->runnable, work->graph, 0));
  UNMASK_CUDA_CALL(cudaGraphUpload(work->runnable, stream_));
  return work;
}

void queue::drop_recording() {
  (void)noted_uses();
  cudaGraph_t graph = nullptr;
  const bool ended = cudaStreamEndCapture(stream_, &graph) == cudaSuccess;
  (void)cudaGetLastError();  // an invalidated capture is what is being cleared away
  if (ended && graph != nullptr) (void)cudaGraphDestroy(graph);
}

void queue::repeat(const recorded_launches& work) {
  lists_change();
  for (const auto& [host, written] : work.used) (void)staging_.on_device(*this, host, written);
  queued_ = true;
  UNMASK_CUDA_CALL(cudaGraphLaunch(work.runnable, stream_));
  count_recorded(work.moves);
}

void queue::allow_shared(const void* kernel, const grid_shape& shape) {
  UNMASK_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shape.shared_bytes)));
}

void queue::launch_with(const void* kernel, const grid_shape& shape, void** arguments) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t how{};
  how.attrs = attributes;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[how.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = shape.cluster;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  if (shape.early) {
    cudaLaunchAttribute& early = attributes[how.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  how.gridDim = dim3(shape.x, shape.y);
  how.blockDim = dim3(shape.threads);
  how.dynamicSmemBytes = shape.shared_bytes;
  how.stream = stream_;
  UNMASK_CUDA_CALL(cudaLaunchKernelExC(&how, kernel, arguments));
}

#else

struct recorded_launches {
  staging::uses used;
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
    emulator::run({l.shape.x, l.shape.y, l.shape.threads, l.shape.shared_bytes, l.shape.cluster},
                  l.body, l.keep.get());
    emulator::end_launch();
  } catch (const emulator::emulation_error& failure) {
    throw emulator::emulation_error(std::string(l.name) + ": " + failure.what());
  }
}

// Device memory that host code cannot touch: its pages are closed while no launch runs, so that an
// access ends the program at its own line.
class hidden_pages {
 public:
  std::shared_ptr<void> take(std::size_t bytes) {
    const std::size_t room = std::bit_ceil(std::max<std::size_t>(bytes, 256));
    std::vector<std::uintptr_t>& kept = free_[room];
    const open_pages open(*this);
    std::uintptr_t at = used_;
    if (!kept.empty()) {
      at = kept.back();
      kept.pop_back();
    } else {
      used_ += room;
      protect(PROT_READ | PROT_WRITE);
    }
    std::memset(reinterpret_cast<void*>(at), 0, bytes);
    return {reinterpret_cast<void*>(at),
            [this, room](void* p) { free_[room].push_back(reinterpret_cast<std::uintptr_t>(p)); }};
  }
  class open_pages {
   public:
    explicit open_pages(hidden_pages& pages) : pages_(pages) {
      if (pages_.open_++ == 0) pages_.protect(PROT_READ | PROT_WRITE);
    }
    ~open_pages() {
      if (--pages_.open_ == 0) pages_.protect(PROT_NONE);
    }
    open_pages& operator=(open_pages&&) = delete;

   private:
    hidden_pages& pages_;
  };

 private:
  void protect(int how) {
    if (used_ == first_) return;
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = (used_ - first_ + page - 1) / page * page;
    if (mprotect(reinterpret_cast<void*>(first_), bytes, how) != 0) {
      throw environment_error("out of memory for hidden pages");
    }
  }
  static std::uintptr_t reserve() {
    void* range = mmap(nullptr, std::size_t{1} << 36, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw environment_error("out of memory: no addresses are left");
    return reinterpret_cast<std::uintptr_t>(range);
  }
  std::uintptr_t first_ = reserve(), used_ = first_;
  int open_ = 0;
  std::map<std::size_t, std::vector<std::uintptr_t> > free_;
};
hidden_pages& hidden_memory() {
  static auto* pages = new hidden_pages;
  return *pages;
}

void drain() {
  if (waiting().empty()) return;
  const hidden_pages::open_pages open(hidden_memory());
  while (!waiting().empty()) {
    const waiting_launch next = std::move(waiting().front());
    waiting().pop_front();
    try {
      run_now(next);
    } catch (const rank_failure&) {
      waiting().clear();  // what comes behind a move that failed has nothing to work on
      throw;
    }
  }
}

}  // namespace

bool owns_memory(const void* address) {
  return is_owned(reinterpret_cast<std::uintptr_t>(address)) ||
         staging::of_backend().holds(address);
}

queue::queue() {
  share_memory();
}
queue::~queue() = default;

std::shared_ptr<void> allocate_memory(std::size_t bytes, memory_kind kind) {
  bytes = bytes > 0 ? bytes : 1;
  const bool hidden = kind == memory_kind::device && current_emulation().hides_memory;
  std::shared_ptr<void> memory;
  if (hidden) {
    memory = hidden_memory().take(bytes);
  } else {
    const auto whole =
        std::make_shared<tensor>(allocate_host(dtype::u8, {static_cast<std::int64_t>(bytes)}));
    memory = {whole, whole->view().data};
  }
  owned()[reinterpret_cast<std::uintptr_t>(memory.get())] = bytes;
  emulator::note_memory(
      memory.get(), bytes,
      kind == memory_kind::device ? emulator::memory_home::device : emulator::memory_home::host);
  return {memory.get(), [memory](void* p) {
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

void queue::copy_to_host(void* to, const void* from, std::size_t bytes) {
  refuse_while_recording("copies to the host");
  emulator::note_fetch(bytes);
  struct copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  host_work(
      [](const void* p) {
        const auto* c = static_cast<const copy*>(p);
        std::memcpy(c->to, c->from, c->bytes);
      },
      std::make_shared<copy>(copy{to, from, bytes}));
}

void queue::wait() {
  emulator::note_wait();
  emulator::note_call();
  drain();
}

void queue::begin_recording() {
  refuse_while_recording("records");
  note_uses();
}

std::shared_ptr<const recorded_launches> queue::end_recording() {
  auto work = std::make_shared<recorded_launches>();
  work->used = noted_uses();
  work->launches = std::exchange(record_, {});
  return work;
}

void queue::drop_recording() {
  (void)noted_uses();
  record_.clear();
}

void queue::repeat(const recorded_launches& work) {
  lists_change();
  for (const auto& [host, written] : work.used) (void)staging_.on_device(*this, host, written);
  emulator::note_call();
  for (const waiting_launch& l : work.launches) submit(l);
}

void queue::submit(waiting_launch l) {
  if (recording_) {
    record_.push_back(std::move(l));
    return;
  }
  count_launch(l);
  queued_ = true;
  if (current_emulation().deferred) {
    waiting().push_back(std::move(l));
  } else {
    drain();
    const hidden_pages::open_pages open(hidden_memory());
    run_now(l);
  }
}

void queue::host_work(void (*body)(const void*), std::shared_ptr<void> argument) {
  if (!recording_) emulator::note_call();
  submit({"host work", {}, std::move(argument), body, nullptr, 0, true});
}

void queue::enqueue(const char* name, const grid_shape& shape, std::shared_ptr<void> keep,
                    void (*body)(const void*), const void* arguments, std::size_t bytes) {
  if (!recording_) emulator::note_call();
  submit({name, shape, std::move(keep), body, arguments, bytes, false});
}

#endif

}  // namespace UNMASK_TARGET
}  // namespace unmask::cuda
