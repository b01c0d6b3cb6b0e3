// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which keys the rows of Focus-dLLM see, layer by layer (eqs 6 to 9).
#pragma once

#include <memory>
#include <vector>

#include "kernels/shared_vector.h"
#include "methods/parts/common.h"

namespace unmask {

struct focus_dllm_settings {
  double rho = 4;
  std::int32_t window = 8;
  bool past_confidence = true;
  bool forget = false;  // positions not computed last step have no confidence
  bool sparse_attention = true;
  std::int32_t dense_layers = 6, dense_tail_layers = 0;
  double alpha = 0.5;
  std::int32_t prompt_block_size = 64;
  bool sinks = true;
  // By which the prompt's blocks are chosen; the other two are controls.
  enum class choice { score, random, last } blocks = choice::score;
  double sink_fraction = 0.01;
};

// One sequence's part of a step, shared by the policies of the recipe.
struct focus_dllm_sequence {
  std::vector<float> confidence;         // last seen, by position
  std::vector<std::int32_t> focus;       // positions that guide this step, ascending
  std::vector<std::int32_t> focus_rows;  // their rows in this forward
  std::int32_t touched_prompt = 0;       // first computed position; prompt keys from here on change
};

struct focus_dllm_state {
  focus_dllm_settings settings;
  per_sequence<focus_dllm_sequence> of;
  // The candidates of the last step, in the loop's lists, which the next decision writes anew.
  candidate_set judged;
  const float* score = nullptr;
};

// Dense layers see every slot. In the others row lists are: sinks and the tokens of the C = max(1,
// floor(alpha blocks)) prompt blocks whose mean key has the largest product with the mean focus
// query, ascending, then the whole response.
class sparse_context final : public key_policy {
 public:
  explicit sparse_context(std::shared_ptr<focus_dllm_state> state)
      : key_policy(0, {true}), state_(std::move(state)) {}
  void choose(const layer_rows& layer, const paged_kv& cache) override;
  layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                    const std::int32_t* kv_length) const override;

 private:
  bool dense(const batch& b, std::int32_t layer) const;
  bool sums_mass(std::int32_t layer) const;
  bool focused(const step_choice& plan, std::int32_t s) const;
  std::int32_t blocks_of(const batch& b, std::int32_t s) const;
  void prepare(const batch& b, const step_choice& plan, const paged_kv& cache,
               const tensor_view& query);
  void find_sinks(const batch& b, const step_choice& plan);
  void refresh_means(const batch& b, const step_choice& plan, std::int32_t layer,
                     const paged_kv& cache);
  void score_blocks(const batch& b, const step_choice& plan, std::int32_t layer,
                    const tensor_view& q);
  void rank_blocks(const batch& b, std::int32_t layer);
  void list_slots(const batch& b, const step_choice& plan, std::int32_t layer);

  std::shared_ptr<focus_dllm_state> state_;
  std::int32_t means_stride_ = 0;  // pages of block means per sequence
  std::vector<tensor> means_;      // per layer [S * stride, kv_page_size, kv_heads, dim]
  tensor mean_query_;              // [S, heads * dim]
  // What only operations see, [S * max_length]: attention mass and scores, the best of them, lists.
  tensor mass_, score_, top_, sink_, key_slot_, flags_;
  std::vector<tensor> key_begin_;            // per layer [S+1], for the accounting
  shared_vector<std::int32_t> means_table_;  // identity pages of the means
  shared_vector<std::int32_t> focus_row_;    // their rows that guide, end to end
  shared_vector<std::int32_t> focus_begin_, top_begin_, block_begin_, blocks_;
  shared_vector<std::int32_t> mass_begin_, sink_begin_, zero_, length_, seen_from_;
  // The numbers of blocks that are not scored, as positions and as scores; the coordinate of the
  // draws of each layer [S].
  shared_vector<std::int32_t> block_;
  shared_vector<float> block_order_;
  std::vector<shared_vector<std::int32_t>> draw_;
  shared_vector<std::int32_t> mean_rows_,
      means_of_;        // [S, 2], [S, 4] arguments of per-sequence operations
  tensor focus_query_;  // gathered q rows of one sequence
  bool any_focused_ = false;
};

}  // namespace unmask
