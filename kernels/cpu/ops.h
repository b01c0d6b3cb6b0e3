// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CPU backend. Semantics are those of kernels/ops.h and kernels/reference; this is the same
// arithmetic in float32 vectors, with threads where the work is worth waking them.
#pragma once

#include "kernels/cpu/crowd.h"
#include "kernels/ops.h"

namespace unmask::cpu {

class backend : public ops {
 public:
  std::string name() const override;
  tensor allocate(dtype type, std::initializer_list<std::int64_t> shape,
                  memory_use use = memory_use::resident) const override;
  packed_handle pack(const tensor_view& weight, weight_format format) const override;

  // ops.cpp
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
  void kv_read(const row_set& rows, const paged_kv& cache, const tensor_view& k,
               const tensor_view& v, bool accumulate) const override;
  void attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                 const key_set& keys, float scale, const tensor_view& out,
                 const tensor_view& key_mass) const override;
  void silu_mul(const tensor_view& gate_up, const tensor_view& out) const override;

  // moe.cpp
  void moe_route(const tensor_view& x, const moe_router& router, const tensor_view& expert,
                 const tensor_view& weight) const override;
  void moe_feed_forward(const tensor_view& x, const tensor_view& expert, const tensor_view& weight,
                        const moe_experts& experts, const tensor_view& y) const override;

  // head.cpp, sample.cpp
  void confidence(const tensor_view& x, const packed_matrix& head, const candidate_set& candidates,
                  const confidence_params& params, const confidence_out& out) const override;
  void logits(const tensor_view& x, const packed_matrix& head, const std::int32_t* row,
              const tensor_view& out) const override;
  void sample(const candidate_set& candidates, const tensor_view& logits,
              const sample_params& params, const confidence_out& out) const override;

  // rows.cpp
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

  // decisions.cpp
  void accept_top(const candidate_set& candidates, const float* score, const std::int32_t* quota,
                  std::uint8_t* accept) const override;
  void accept_threshold(const candidate_set& candidates, const float* score, float threshold,
                        bool strict, bool always_best, std::uint8_t* accept) const override;
  void accept_factor(const candidate_set& candidates, const float* score, float factor,
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

  // freeze.cpp
  void push_history(const candidate_set& candidates, const float* score, bool replicate,
                    const tensor_view& history) const override;
  void freeze_two_centroids(const candidate_set& candidates, const tensor_view& history,
                            const std::int32_t* rank, const freeze_params& params,
                            std::uint8_t* accept) const override;
  void mark_unsettled(const tensor_view& state, const settle_params& params,
                      const std::int32_t* first, const std::int32_t* last,
                      const std::uint8_t* whole, const tensor_view& flags) const override;
  // blocks.cpp
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

  // selection.cpp
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

  // block_pattern.cpp
  void block_mass(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                  const std::int32_t* kv_length, const std::int32_t* first_slot, std::int32_t size,
                  float scale, const tensor_view& out) const override;
  void keep_top_blocks(const tensor_view& mass, const std::int32_t* used, const std::int32_t* first,
                       const std::int32_t* limit, const std::int32_t* count,
                       const tensor_view& keep) const override;
  void block_mask_keys(const tensor_view& keep, const std::uint8_t* applies, std::int32_t size,
                       const std::int32_t* kv_length, const tensor_view& out) const override;
};

// Elements of row work below which waking the other threads costs more than it saves.
inline constexpr team_limit parallel_elements{std::int64_t{1} << 17};

// Cosines and sines of rotary angles, kept for every position below `positions`.
struct rope_table {
  std::int64_t positions = 0;
  std::int64_t half = 0;
  std::unique_ptr<float[]> cosine, sine;  // [positions, half]
};
// The table of (theta, rotary_dim), grown to hold `position`. Safe from several threads.
std::shared_ptr<const rope_table> rope_table_for(const rope_params& rope, std::int64_t position);

// Sorts best first: descending score, ascending index, NaN after everything. A 64-bit key whose
// ascending order that is; the low half is the index.
std::uint64_t rank_key(float score, std::uint32_t index);

}  // namespace unmask::cpu
