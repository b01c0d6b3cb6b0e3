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

#include "kernels/cuda/device/portable.h"
#include "kernels/cuda/emulation.h"
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
};

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

enum class memory_kind : std::uint8_t {
  shared,  // the host may read and write it while the queue is idle (managed memory)
  device   // kernels only
};

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

  // Zero-filled memory, 256-byte aligned. Throws environment_error when there is none left.
  std::shared_ptr<void> allocate(std::size_t bytes, memory_kind kind);
  // At least `bytes`, contents undefined, valid until the next call for the same slot.
  void* scratch(scratch_slot slot, std::size_t bytes);
  template <class T>
  T* scratch(scratch_slot slot, std::int64_t count) {
    return static_cast<T*>(scratch(slot, static_cast<std::size_t>(count) * sizeof(T)));
  }
  // In launch order with the kernels.
  void copy_to_device(void* to, const void* from, std::size_t bytes);  // host array may go at once
  void copy_to_host(void* to, const void* from, std::size_t bytes);    // waits
  // One value that a kernel wrote; waits.
  template <class T>
  T read(const T* from) {
    T value;
    copy_to_host(&value, from, sizeof(T));
    return value;
  }
  void fill_zero(void* to, std::size_t bytes);
  void synchronize();

  int multiprocessors() const { return multiprocessors_; }

  template <class P>
  void launch(const char* name, const grid_shape& shape, void (*kernel)(P),
              const std::type_identity_t<P>& arguments) {
    static_assert(std::is_trivially_copyable_v<P>);
    if (shape.x == 0 || shape.y == 0) return;
#if defined(__CUDACC__)
    if (shape.shared_bytes > 48 * 1024) allow_shared(reinterpret_cast<const void*>(kernel), shape);
    kernel<<<dim3(shape.x, shape.y), shape.threads, shape.shared_bytes, stream_>>>(arguments);
    check(cudaGetLastError(), name, __FILE__, __LINE__);
#else
    struct closure {
      void (*kernel)(P);
      P arguments;
    };
    auto* c = new closure{kernel, arguments};
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&c->arguments);  // or left-over bytes may look like a pointer
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
  cudaStream_t stream() const {
    return stream_;
  }
#else
  // Host code in launch order with the kernels: what the nvcc build leaves to a library.
  void host_work(void (*body)(const void*), std::shared_ptr<void> argument);
#endif

 private:
  int multiprocessors_ = 4;
  struct buffer {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
  };
  std::array<buffer, static_cast<std::size_t>(scratch_slot::count)> scratch_;
#if defined(__CUDACC__)
  void allow_shared(const void* kernel, const grid_shape& shape);
  cudaStream_t stream_ = nullptr;
#else
  void enqueue(const char* name, const grid_shape& shape, std::shared_ptr<void> keep,
               void (*body)(const void*), const void* arguments, std::size_t bytes);
#endif
};

}  // namespace unmask::cuda::UNMASK_TARGET
