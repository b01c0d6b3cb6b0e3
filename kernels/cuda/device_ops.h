// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA backend. The same class is compiled by nvcc ("cuda", namespace native) and by the host
// compiler ("cuda-emulated", namespace emulated); its bodies are in ops/, one file per group of
// operations with the stem it has in reference/, and the kernels in <group>_kernels.h.
//
// Every operation returns when its kernels are queued. What it wrote may be read by the host after
// synchronize(), except the counts that compact, find_candidates, drop_rows and select_chunk
// return: they wait themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/library_gemm.h"
#include "kernels/cuda/queue.h"
#include "kernels/ops.h"

namespace unmask::cuda::UNMASK_TARGET {

#if defined(__CUDACC__)
inline constexpr const char* backend_name = "cuda";
#else
inline constexpr const char* backend_name = "cuda-emulated";
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
enum class device_fault : std::uint8_t { find_rows, top_indices, count };

// "backend cuda has no kernel for accept_top yet; use the cpu backend".
[[noreturn]] void no_kernel(const char* operation);

// UNMASK_CUDA_GEMM=own: bfloat16 and int8 weights take the own products too (ops/gemm.cu).
bool own_products_only();

class device_ops : public ops {
 public:
  std::string name() const override { return backend_name; }
  tensor allocate(dtype type, std::initializer_list<std::int64_t> shape,
                  memory_use use = memory_use::resident) const override;
  // bfloat16 where products take it: it would be rounded to it anyway, and rows cost half the
  // bytes.
  dtype activation_type(weight_format format) const override {
    return format == weight_format::bf16 && !own_products_only() ? dtype::bf16 : dtype::f32;
  }
  bool holds_kv(dtype type) const override { return type == dtype::f32 || type == dtype::bf16; }
  packed_handle pack(const tensor_view& weight, weight_format format) const override;
  tensor_view resident(const tensor_view& weight, std::shared_ptr<void>* keep) const override;
  void synchronize() const override {
    queue_.synchronize();
    check_faults();
  }

  bool exchanged_is_slow() const override { return true; }

  // ops/recording.cu
  std::int32_t recorded_rows(std::int32_t rows) const override;
  std::unique_ptr<recorded_work> record(const std::function<void()>& body) const override;
  void repeat(const recorded_work& work) const override;
  void stage_rows(const row_set& rows, const std::int32_t* token, const std::int32_t* index,
                  std::int32_t padded, const staged_rows& to) const override;

  // ops/model_core.cu, attention.cu, moe.cu, head.cu
  void embed(const std::int32_t* token, const tensor_view& table,
             const tensor_view& out) const override;
  void rms_norm(const tensor_view& x, const tensor_view& weight, float eps,
                const tensor_view& out) const override;
  void linear(const tensor_view& x, const packed_matrix& weight, const tensor_view& bias,
              const tensor_view& y, bool accumulate) const override;
  void head_norm_rope(const tensor_view& x, const tensor_view& norm_weight, float eps,
                      const rope_params& rope, const std::int32_t* position) const override;
  void kv_write(const row_set& rows, const tensor_view& k, const tensor_view& v,
                const paged_kv& cache) const override;
  void rotate_and_store(const row_set& rows, const tensor_view& q, const tensor_view& k,
                        const tensor_view& v, const tensor_view& q_norm, const tensor_view& k_norm,
                        float eps, const rope_params& rope, const paged_kv& cache) const override;
  bool rotates_and_stores_at_once() const override { return true; }
  void kv_read(const row_set& rows, const paged_kv& cache, const tensor_view& k,
               const tensor_view& v, bool accumulate) const override;
  void kv_copy(std::int32_t sequences, const std::int32_t* begin, const std::int32_t* from_slot,
               const paged_kv& from, const paged_kv& to) const override;
  void attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                 const key_set& keys, float scale, const tensor_view& out,
                 const tensor_view& key_mass) const override;
  void silu_mul(const tensor_view& gate_up, const tensor_view& out) const override;
  void moe_route(const tensor_view& x, const moe_router& router, const tensor_view& expert,
                 const tensor_view& weight) const override;
  void moe_feed_forward(const tensor_view& x, const tensor_view& expert, const tensor_view& weight,
                        const moe_experts& experts, const tensor_view& y) const override;
  void confidence(const tensor_view& x, const packed_matrix& head, const candidate_set& candidates,
                  const confidence_params& params, const confidence_out& out) const override;
  void logits(const tensor_view& x, const packed_matrix& head, const std::int32_t* row,
              const tensor_view& out) const override;
  void sample(const candidate_set& candidates, const tensor_view& logits,
              const sample_params& params, const confidence_out& out) const override;

  // ops/rows.cu
  void gather_rows(const tensor_view& from, const std::int32_t* index,
                   const tensor_view& to) const override;
  void scatter_rows(const tensor_view& from, const std::int32_t* index,
                    const tensor_view& to) const override;
  std::int32_t compact(std::int32_t sequences, const tensor_view& flags, std::uint8_t want,
                       const std::int32_t* first, const std::int32_t* last, std::int32_t* begin,
                       std::int32_t* position, std::int32_t* sequence) const override;
  void find_rows(const row_set& rows, const row_set& some, std::int32_t* index) const override;
  void gather_tokens(const row_set& rows, const tensor_view& canvas,
                     std::int32_t* token) const override;
  std::int32_t find_candidates(const row_set& rows, const tensor_view& state, std::uint8_t want,
                               const std::int32_t* first, const std::int32_t* last,
                               std::int32_t shift, std::int32_t* begin, std::int32_t* position,
                               std::int32_t* row) const override;
  void mean_rows(const row_set& rows, const tensor_view& x, const tensor_view& out) const override;
  void row_distance(const tensor_view& a, const tensor_view& b, float* out) const override;

  // ops/decisions.cu
  void accept_top(const candidate_set& candidates, const float* score, const std::int32_t* quota,
                  std::uint8_t* accept) const override;
  void accept_threshold(const candidate_set& candidates, const float* score, float threshold,
                        bool strict, bool always_best, std::uint8_t* accept) const override;
  void accept_factor(const candidate_set& candidates, const float* score, float factor,
                     std::uint8_t* accept) const override;
  void merge_accept(std::int32_t count, const std::uint8_t* also, bool both,
                    std::uint8_t* accept) const override;
  void accept_sequential(const candidate_set& candidates, const std::int32_t* block_begin,
                         std::int32_t block, const std::int32_t* quota,
                         std::uint8_t* accept) const override;
  void uniform_scores(const candidate_set& candidates, const noise_source& noise,
                      float* score) const override;
  void gumbel_scores(const candidate_set& candidates, const noise_source& noise, float temperature,
                     float* score) const override;
  void commit(const candidate_set& candidates, const std::int32_t* token,
              const std::uint8_t* accept, std::uint8_t decoded_state, std::int32_t mask_id,
              const tensor_view& canvas, const tensor_view& state,
              std::int32_t* committed) const override;

  // ops/freeze.cu
  void push_history(const candidate_set& candidates, const float* score, bool replicate,
                    const tensor_view& history) const override;
  void freeze_two_centroids(const candidate_set& candidates, const tensor_view& history,
                            const std::int32_t* rank, const freeze_params& params,
                            std::uint8_t* accept) const override;
  void mark_unsettled(const tensor_view& state, const settle_params& params,
                      const std::int32_t* first, const std::int32_t* last,
                      const std::uint8_t* whole, const tensor_view& flags) const override;
  // ops/blocks.cu
  void fill_flags(std::int32_t sequences, const std::int32_t* first, const std::int32_t* last,
                  std::uint8_t value, const tensor_view& flags) const override;
  void scatter_flags(const row_set& rows, const std::uint8_t* where, std::uint8_t value,
                     const tensor_view& flags) const override;
  void freeze(std::int32_t sequences, const tensor_view& state, const std::int32_t* first,
              const std::int32_t* last, bool right_neighbour,
              const tensor_view& flags) const override;
  void combine_scores(std::int32_t count, const float* a, float wa, const float* b, float wb,
                      float* out) const override;
  void round_bf16(std::int32_t count, float* x) const override;
  void retain(const candidate_set& candidates, const float* score, const retain_params& params,
              std::uint8_t* accept) const override;
  std::int32_t drop_rows(const row_set& rows, const candidate_set& candidates,
                         const std::uint8_t* accept, std::int32_t* begin, std::int32_t* sequence,
                         std::int32_t* position, std::int32_t* kept) const override;
  std::int32_t select_chunk(std::int32_t sequences, const tensor_view& state,
                            const chunk_params& params, std::int32_t* begin, std::int32_t* sequence,
                            std::int32_t* position, std::int32_t* slot,
                            std::uint8_t* settles) const override;

  // ops/selection.cu
  void top_indices(std::int32_t segments, const std::int32_t* begin, const float* score,
                   const std::int32_t* out_begin, std::int32_t* out) const override;
  void pool(std::int32_t segments, const std::int32_t* begin, const float* in, std::int32_t kernel,
            bool maximum, float* out) const override;
  void key_scores(const tensor_view& q, const paged_kv& cache, const key_set& keys,
                  float* score) const override;
  void block_mean_keys(std::int32_t sequences, const paged_kv& cache, const std::int32_t* kv_length,
                       std::int32_t block, const std::int32_t* block_begin, const tensor_view& out,
                       const std::int32_t* first_block) const override;
  void importance(std::int32_t sequences, const std::int32_t* begin, const std::int32_t* index,
                  const tensor_view& q, const tensor_view& k, float scale,
                  float* out) const override;
  void mark_top(const row_set& some, const float* score, const std::int32_t* count,
                const tensor_view& flags) const override;

  // ops/block_pattern.cu
  void block_mass(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                  const std::int32_t* kv_length, const std::int32_t* first_slot, std::int32_t size,
                  float scale, const tensor_view& out) const override;
  void keep_top_blocks(const tensor_view& mass, const std::int32_t* used, const std::int32_t* first,
                       const std::int32_t* limit, const std::int32_t* count,
                       const tensor_view& keep) const override;
  void block_mask_keys(const tensor_view& keep, const std::uint8_t* applies, std::int32_t size,
                       const std::int32_t* kv_length, const tensor_view& out) const override;

 private:
  // y[i, n] = x[row(i)] . W[first + n] (+ bias[n]) (+ y[i, n]) for n < count.
  struct product {
    const void* x = nullptr;
    dtype x_type = dtype::f32;  // or bf16, where the library multiplies
    std::int64_t x_stride = 0;
    const std::int32_t* index = nullptr;  // [rows], row(i) = index[i]; null: i
    std::int64_t rows = 0;
    const device_matrix* weight = nullptr;
    std::int64_t first = 0, count = 0;  // output features
    const float* bias = nullptr;        // [count] or null
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
  // Rows as int8, with room for the sums of products with `columns` output features; 0: for none.
  int8_rows as_int8(const void* x, dtype type, std::int64_t stride, const std::int32_t* index,
                    std::int64_t rows, std::int64_t width,
                    std::int64_t columns) const;          // ops/gemm.cu
  void multiply(const product& p) const;                  // ops/gemm.cu
  void multiply_int8(const product& p) const;             // ops/gemm.cu
  bool library_multiply(const library_product& p) const;  // ops/gemm.cu

  // ops/rows.cu. A kernel cannot throw: it raises a word that the next wait reports as
  // std::logic_error. The emulator's launches are over at once, so there the operation itself
  // reports.
  std::int32_t* fault_word(device_fault kind) const;
  void check_faults() const;
  void faults_may_be_known() const;

  struct rope_table {
    std::int32_t rotary_dim;
    float theta;
    std::shared_ptr<void> memory;  // [rotary_dim / 2] float
  };
  const float* rope_frequencies(const rope_params& rope) const;

  // The experts' matrices as the kernels want them: an array of pointers in device memory, made
  // once per layer and kept while its matrices live.
  struct expert_table {
    std::vector<std::weak_ptr<const packed_matrix>> matrices;  // gate_up of all, then down
    std::shared_ptr<void> memory;                              // [2 experts] const void*
  };
  // [rows, experts] of a router in scratch memory, by the library; x is bfloat16.
  const float* router_logits(const tensor_view& x, const moe_router& router) const;
  const void* const* expert_pointers(const moe_experts& experts) const;  // ops/moe.cu

  mutable queue queue_;
  mutable std::shared_ptr<void> faults_;  // [device_fault::count] int32, shared with the host
  mutable std::vector<rope_table> rope_tables_;
  mutable std::vector<expert_table> expert_tables_;
#if defined(__CUDACC__)
  mutable std::unique_ptr<library_gemm> library_;
#endif
};

}  // namespace unmask::cuda::UNMASK_TARGET
