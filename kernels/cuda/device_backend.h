// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA backend. The same class is compiled by nvcc ("cuda", namespace native) and by the host
// compiler ("cuda-emulated", namespace emulated); its bodies are in ops/, one file per group of
// operations with the stem it has in reference/, and the kernels in <group>_kernels.h.
//
// Every operation returns when its kernels are queued. What it wrote to host-visible memory may be read
// by the host after synchronize(). Operations that make lists for the host from what the host has
// run on the host (on_host): they wait only where a kernel wrote what they read. One that makes lists
// from what kernels have posts them (posting.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/library_gemm.h"
#include "kernels/cuda/queue.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/operation.h"

namespace unmask::cuda::UNMASK_TARGET {

#if defined(__CUDACC__)
inline constexpr const char* backend_name = "cuda";
inline constexpr target this_target = target::cuda;
#else
inline constexpr const char* backend_name = "cuda-emulated";
inline constexpr target this_target = target::cuda_emulated;
#endif

// Weights in device memory, row-major [out, in], as float32, bfloat16 or int8 (int8_kernels.h).
class device_matrix : public packed_matrix {
 public:
  weight_format format = weight_format::f32;
  std::shared_ptr<void> memory;
};
const device_matrix& as_device(const packed_matrix& m);  // throws when another backend packed it

// Rows quantised in scratch memory (int8_kernels.h).
struct int8_rows {
  const std::int8_t* level = nullptr;  // [rows, int8_padded(width)]
  const float* scale = nullptr;        // [rows]
  std::int32_t* sum = nullptr;         // room for what the library computes from them
};

// What only a kernel can find wrong with its input.
enum class device_fault : std::uint8_t { find_rows, top_indices, rows_of_ranks, count };

// What all backends of a device share, whatever each chose: where kernels run, and what was made there.
struct shared_device {
  queue work;
  tensor faults;  // [device_fault::count] int32, host_visible
  struct rope_table {
    rope_params rope;
    std::shared_ptr<void> memory;  // [rotary_dim / 2] float
  };
  std::vector<rope_table> rope_tables;
  // The experts' matrices as the kernels want them: an array of pointers in device memory, made
  // once per layer and kept while its matrices live.
  struct expert_table {
    std::vector<std::weak_ptr<const packed_matrix>> matrices;  // gate_up of all, then down
    std::shared_ptr<void> memory;                              // [2 experts] const void*
  };
  std::vector<expert_table> expert_tables;
#if defined(__CUDACC__)
  std::unique_ptr<library_gemm> library;
#endif

  static shared_device& of_backends();
};

class device_backend : public backend {
 public:
  explicit device_backend(choices chosen) : backend(this_target), choices_(std::move(chosen)) {}
  std::string name() const override { return backend_name; }
  tensor allocate(dtype type, std::initializer_list<std::int64_t> shape,
                  memory_use use = memory_use::resident) const override;
  // bfloat16 where products take it: it would be rounded to it anyway, and rows cost half the
  // bytes.
  dtype activation_type(weight_format format) const override {
    return format == weight_format::bf16 && library_multiplies() ? dtype::bf16 : dtype::f32;
  }
  bool holds_kv(dtype type) const override { return type == dtype::f32 || type == dtype::bf16; }
  packed_handle pack(const tensor_view& weight, weight_format format) const override;
  tensor_view resident(const tensor_view& weight, std::shared_ptr<void>* keep) const override;
  void synchronize() const override {
    queue_.synchronize();
    check_faults();
  }
  void bring_home() const override {
    if (queue_.owes_results()) synchronize();
  }

  void write(void* to, const void* from, std::size_t bytes) const override {
    queue_.copy_to_device(to, from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes) const override;
  void clear(void* to, std::size_t bytes) const override { queue_.fill_zero(to, bytes); }

  // ops/recording.cu
  std::int32_t graph_bucket(std::int32_t rows) const override;
  std::unique_ptr<captured_graph> capture(const std::function<void()>& body) const override;
  void replay(const captured_graph& work) const override;

  queue& work() const { return queue_; }
  bool may_multiply(multiplied what, multiplier how) const {
    return choices_.may_multiply(what, how);
  }
  // Products of bfloat16 weights.
  bool library_multiplies() const {
    return may_multiply(multiplied::products, multiplier::library);
  }

  // Operands where kernels find them (staging.h); what they change goes through out().
  template <class T>
  const T* in(const T* p) const {
    return static_cast<const T*>(queue_.on_device(p, false));
  }
  template <class T>
  T* out(T* p) const {
    return static_cast<T*>(queue_.on_device(p, true));
  }
  tensor_view in(tensor_view v) const {
    v.data = queue_.on_device(v.data, false);
    return v;
  }
  tensor_view out(tensor_view v) const {
    v.data = queue_.on_device(v.data, true);
    return v;
  }
  row_set in(const row_set& r) const {
    return {r.sequences, r.rows, in(r.row_begin), in(r.sequence), in(r.position), in(r.slot)};
  }
  candidate_set in(const candidate_set& c) const {
    return {c.sequences, c.count, in(c.begin), in(c.position), in(c.row)};
  }
  paged_kv in(paged_kv c) const {
    c.keys = in(c.keys);
    c.values = in(c.values);
    c.page_table = in(c.page_table);
    return c;
  }
  paged_kv out(paged_kv c) const {
    c.keys = out(c.keys);
    c.values = out(c.values);
    c.page_table = in(c.page_table);
    return c;
  }
  noise_source in(const noise_source& n) const { return {in(n.seed), in(n.step)}; }

  // Whether the host reads and writes it too.
  bool shares(const void* p) const { return staging::of_backend().holds(p); }
  // Runs an operation on the host, once `operands` are there.
  template <class P, class... T>
  auto on_host(const P& args, const T*... operands) const {
    queue_.bring_home(operands...);
    return cpu_backend().run(args);
  }

  // What the bodies of the operations share.
  // y[i, n] = x[row(i)] . W[first + n] (+ bias[n]) (+ y[i, n]) for n < count.
  struct product {
    const void* x = nullptr;
    dtype x_type = dtype::f32;  // or bf16, where the library multiplies
    std::int64_t x_stride = 0;
    const std::int32_t* index = nullptr;  // [rows], row(i) = index[i]; null: i
    std::int64_t rows = 0;
    const device_matrix* weight = nullptr;
    std::int64_t first = 0, count = 0;  // output features
    const void* bias = nullptr;         // [count] of y_type, or null
    void* y = nullptr;                  // [rows, count]
    dtype y_type = dtype::f32;          // as x_type
    std::int64_t y_stride = 0;
    bool accumulate = false;
    int8_rows quantized = {};  // int8 weights: x, if it has been quantised already
  };
  // Rows as bfloat16 in scratch memory, end to end; those that are so already stay where they are.
  const std::uint16_t* as_bf16(const void* x, dtype type, std::int64_t stride,
                               const std::int32_t* index, std::int64_t rows,
                               std::int64_t width) const;  // ops/gemm.cu
  // Rows of bfloat16 as float32 in the same memory, end to end.
  const float* as_f32(const void* x, std::int64_t stride, std::int64_t rows,
                      std::int64_t width) const;  // ops/gemm.cu
  // Rows as int8, with room for the sums of products with `columns` output features; 0: for none.
  int8_rows as_int8(const void* x, dtype type, std::int64_t stride, const std::int32_t* index,
                    std::int64_t rows, std::int64_t width,
                    std::int64_t columns) const;  // ops/gemm.cu
  void multiply(const product& p) const;          // ops/gemm.cu
  void multiply_int8(const product& p) const;     // ops/gemm.cu
  // Whether one kernel took the product (few_parts_kernels.h).
  bool multiply_few_rows(const op::linear& args) const;   // ops/few_parts.cu
  bool library_multiply(const library_product& p) const;  // ops/gemm.cu

  // ops/rows.cu. A kernel cannot throw: it raises a word that the next wait reports as
  // std::logic_error; that rows of ranks differ is noted of their group.
  std::int32_t* fault_word(device_fault kind) const;
  void check_faults() const;

  const float* frequencies_of(const rope_params& rope) const;

  const void* const* expert_pointers(const moe_experts& experts) const;  // ops/moe.cu

 private:
  const choices choices_;
  shared_device& shared_ = shared_device::of_backends();
  queue& queue_ = shared_.work;
};

}  // namespace unmask::cuda::UNMASK_TARGET
