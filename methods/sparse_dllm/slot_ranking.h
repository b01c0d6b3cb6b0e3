// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sparse-dLLM's score of cached slots (Algorithm 1): the mean query of a block's rows against every
// candidate's key, mean over the heads, pooled along the candidates; and its top share.
#pragma once

#include <span>
#include <vector>

#include "harness/decode/policies.h"
#include "kernels/shared_vector.h"
#include "methods/sparse_dllm/kernels/eviction.h"

namespace unmask {

// `floor(r n)` as the official code truncates the product of an int and a Python float.
inline std::int32_t retained(std::int32_t candidates, double ratio) {
  return static_cast<std::int32_t>(candidates * ratio);
}

class slot_ranking {
 public:
  // `kernel_size`: window of the pooling, odd; 0: none. `maximum`: of the window, else its mean.
  // `random`: scores are drawn, for each layer anew, and nothing is pooled.
  slot_ranking(std::int32_t kernel_size, bool maximum, bool random = false)
      : kernel_size_(kernel_size), maximum_(maximum), random_(random) {}

  // Candidates of this step, the same in every layer: sequence s has the slots add()ed between its
  // begin() and the next one.
  void clear() { begin_.assign(1, 0), slots_.clear(); }
  void add(std::int32_t first, std::int32_t last) {
    for (std::int32_t slot = first; slot < last; ++slot) slots_.push_back(slot);
  }
  void end_sequence() { begin_.push_back(static_cast<std::int32_t>(slots_.size())); }
  bool empty() const { return slots_.empty(); }
  std::int32_t candidates(std::int32_t s) const {
    return begin_[static_cast<std::size_t>(s) + 1] - begin_[static_cast<std::size_t>(s)];
  }

  // Ranks the candidates of one layer by the rows [first[s], last[s]) of q [R, heads, dim], after
  // RoPE. `keep` [S]: how many of sequence s are wanted.
  void rank(std::int32_t layer, const batch& b, const tensor_view& q,
            std::span<const std::int32_t> first, std::span<const std::int32_t> last,
            const paged_kv& cache, std::span<const std::int32_t> keep);
  // What is kept of it, as places among the candidates of each sequence, best first, ties in the
  // order of the candidates: for operations at once, for the host after a wait.
  op::list_kept kept(std::int32_t layer) const {
    return {static_cast<std::int32_t>(begin_.size()) - 1, begin_.data(), slots_.data(),
            top_begin_.data(), top_[static_cast<std::size_t>(layer)].data()};
  }

 private:
  void score(const batch& b, const tensor_view& q, std::span<const std::int32_t> first,
             std::span<const std::int32_t> last, const paged_kv& cache);
  void draw(std::int32_t layer, const batch& b);

  std::int32_t kernel_size_;
  bool maximum_, random_;
  tensor mean_query_, score_, pooled_;
  shared_vector<std::int32_t> begin_{0}, slots_, top_begin_;
  std::vector<shared_vector<std::int32_t>> top_;   // of each layer
  shared_vector<std::int32_t> mean_begin_;         // [S, 2] rows of each mean query
  std::vector<shared_vector<std::int32_t>> draw_;  // of each layer [S]: coordinate of its draws
};

}  // namespace unmask
