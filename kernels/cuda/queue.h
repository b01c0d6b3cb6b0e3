// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where kernels run and what they allocate: one CUDA stream in the nvcc build, the emulator in the
// other. Included by files that are compiled for both.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device/portable.h"
#include "kernels/cuda/emulation.h"
#include "kernels/cuda/staging.h"
#include "kernels/tensor.h"

#if defined(__CUDACC__)
#include "kernels/cuda/check.h"
#endif

namespace unmask::cuda::UNMASK_TARGET {

struct grid_shape {
  unsigned x = 1;          // blocks; 0: nothing is launched
  unsigned threads = 128;  // per block, a multiple of 32
  std::size_t shared_bytes = 0;
  unsigned y = 1;
  unsigned cluster = 1;  // blocks that share their memory (device/clusters.h); x is a multiple
  bool early = false;    // starts before the launches before it have ended (device/launches.h)
};

constexpr unsigned most_blocks_y = 65535;  // that any GPU launches; of x, 2^31 - 1

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

#if !defined(__CUDACC__)
// A launch of the emulator that has not run yet. Its arguments are `bytes` bytes at `arguments`.
struct waiting_launch {
  const char* name;
  grid_shape shape;
  std::shared_ptr<void> keep;
  void (*body)(const void*);
  const void* arguments;
  std::size_t bytes;
  bool on_host;
};
#endif

enum class memory_kind : std::uint8_t {
  device,  // kernels only
  pinned,  // the host's, which copies can reach while it works
  managed  // both, it moves to who touches it: for tests, whose operands the host makes
};

// Zero-filled memory, 256-byte aligned. Throws environment_error when there is none left.
std::shared_ptr<void> allocate_memory(std::size_t bytes, memory_kind kind);

// Launches that were recorded: a CUDA graph, or the emulator's list.
struct recorded_launches;

// Temporary buffers of the operations. Each keeps its largest size; an operation may not call
// another one that uses the same slot.
enum class scratch_slot : std::uint8_t {
  attention_plan,
  attention_partial,
  attention_lse,
  head_rows,
  head_logits,
  head_state,
  routed_plan,
  routed_hidden,
  routed_output,
  low_precision,
  library,      // cuBLASLt workspace
  selection_a,  // free for the selection and decision operations
  selection_b,
  selection_c,
  selection_d,
  count
};

class queue {
 public:
  queue();
  ~queue();
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;

  // allocate_memory(), not while recording.
  std::shared_ptr<void> allocate(std::size_t bytes, memory_kind kind) {
    refuse_while_recording("allocates memory");
    return allocate_memory(bytes, kind);
  }
  // At least `bytes`, contents undefined, valid until the next call for the same slot. Memory that
  // a recording uses stays.
  void* scratch(scratch_slot slot, std::size_t bytes);
  template <class T>
  T* scratch(scratch_slot slot, std::int64_t count) {
    return static_cast<T*>(scratch(slot, static_cast<std::size_t>(count) * sizeof(T)));
  }
  // In launch order with the kernels.
  void copy_to_device(void* to, const void* from, std::size_t bytes);  // host array may go at once
  void copy_to_host(void* to, const void* from, std::size_t bytes);    // there after the next wait
  void fill_zero(void* to, std::size_t bytes);
  // Returns at once when nothing was queued since the last time.
  void synchronize();
  // Kernels wrote memory of the host's since the last wait.
  bool owes_results() const { return staging_.owes_results(); }

  // Where kernels find what lies at a host address, which stays as it is where they see it already;
  // `written` when they change it (staging.h).
  void* on_device(const void* host, bool written) {
    return staging_.holds(host) ? staging_.on_device(*this, host, written)
                                : const_cast<void*>(host);
  }
  // For posting.h. The pinned copy of what lies at a host address; null: kernels see the address itself.
  void* pinned_copy(const void* host) {
    refuse_while_recording("is waited for");
    return staging_.holds(host) ? staging_.pinned_copy(host) : nullptr;
  }
  void wait_for_posted();
  // Before host code runs an operation: waits when kernels wrote one of these since the last wait.
  template <class... T>
  void bring_home(const T*... host) {
    refuse_while_recording("works on the host");
    if ((staging_.is_behind(host) || ...)) synchronize();
  }

  // From here to end_recording() launches are kept instead of run; what waits, allocates or copies
  // from the host throws std::logic_error, and the recording is over.
  void begin_recording();
  std::shared_ptr<const recorded_launches> end_recording();
  void drop_recording();  // after an exception
  void repeat(const recorded_launches& work);
  bool recording() const { return recording_; }

  // True when the plan that an operation derives from lists was made for this key already and no
  // list has changed since: layers of a step share it. False: it has to be made now.
  using plan_key = std::array<std::uint64_t, 10>;
  bool has_plan(const plan_key& key) {
    if (plan_of_ == lists_ && plan_ == key) return true;
    plan_ = key;
    plan_of_ = lists_;
    return false;
  }
  void lists_change() { ++lists_; }

  int multiprocessors() const { return multiprocessors_; }
  int shared_bytes() const {
    return shared_bytes_;
  }  // that a block may have, alone
     // on its multiprocessor

  // Whether what runs of a kernel is made of sm_90a's PTX, which alone has wgmma; the emulator does.
  // The compute capability does not say: cards above 9.0 run compute_80's, as does one of 9.0 where
  // the driver is told to compile PTX (CUDA_FORCE_PTX_JIT).
  template <class P>
  static bool has_wgmma([[maybe_unused]] void (*kernel)(P)) {
#if defined(UNMASK_HAS_SM90A)
    cudaFuncAttributes found{};
    check(cudaFuncGetAttributes(&found, reinterpret_cast<const void*>(kernel)),
          "cudaFuncGetAttributes", __FILE__, __LINE__);
    return found.binaryVersion == 90 && found.ptxVersion == 90;
#elif defined(__CUDACC__)
    return false;
#else
    return true;
#endif
  }

  template <class P>
  void launch(const char* name, const grid_shape& shape, void (*kernel)(P),
              const std::type_identity_t<P>& arguments) {
    static_assert(std::is_trivially_copyable_v<P>);
    if (shape.x == 0 || shape.y == 0) return;
#if defined(__CUDACC__)
    queued_ = true;
    if (shape.shared_bytes > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), shape);
    if (shape.cluster == 1 && !shape.early) {
      kernel<<<dim3(shape.x, shape.y), shape.threads, shape.shared_bytes, stream_>>>(arguments);
    } else {
      void* all[] = {const_cast<P*>(&arguments)};
      launch_with(reinterpret_cast<const void*>(kernel), shape, all);
    }
    check(cudaGetLastError(), name, __FILE__, __LINE__);
#else
    struct closure {
      void (*kernel)(P);
      P arguments;
    };
    auto* c = new closure{kernel, arguments};
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&c->arguments);
#endif
    enqueue(
        name, shape, std::shared_ptr<void>(c, [](void* p) { delete static_cast<closure*>(p); }),
        [](const void* p) {
          const auto* call = static_cast<const closure*>(p);
          call->kernel(call->arguments);
        },
        &c->arguments, sizeof(P));
#endif
  }
#if defined(__CUDACC__)
  // For a library: who asks queues something, which the next synchronize() has to wait for.
  cudaStream_t stream() {
    queued_ = true;
    return stream_;
  }
#else
  // Host code in launch order with the kernels: what the nvcc build leaves to a library.
  void host_work(void (*body)(const void*), std::shared_ptr<void> argument);
#endif

 private:
  void refuse_while_recording(const char* what) const;
  void note_uses();
  staging::uses noted_uses();
  void wait();

  staging& staging_ = staging::of_backend();
  bool queued_ = false;  // since the last wait
  staging::uses used_;   // by what is being recorded
  plan_key plan_{};
  std::uint64_t lists_ = 1, plan_of_ = 0;  // versions
  int multiprocessors_ = 4;
  int shared_bytes_ = 227 << 10;
  bool recording_ = false;
  bool recorded_ = false;                        // at least once: scratch may be in use for good
  std::vector<std::shared_ptr<void>> outgrown_;  // scratch that captured_graphs use
  struct buffer {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
  };
  std::array<buffer, static_cast<std::size_t>(scratch_slot::count)> scratch_;
#if defined(__CUDACC__)
  void allow_shared(const void* kernel, const grid_shape& shape);
  void launch_with(const void* kernel, const grid_shape& shape, void** arguments);
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<void> pinned_;  // pinned memory between the host's arrays and the device
  std::size_t staged_ = 0;        // bytes of it that copies under way may read
#else
  void enqueue(const char* name, const grid_shape& shape, std::shared_ptr<void> keep,
               void (*body)(const void*), const void* arguments, std::size_t bytes);
  void submit(waiting_launch launch);
  std::vector<waiting_launch> record_;
#endif
};

}  // namespace unmask::cuda::UNMASK_TARGET
