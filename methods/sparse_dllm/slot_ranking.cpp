// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/sparse_dllm/slot_ranking.h"
#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "kernels/selection.h"
#include "methods/sparse_dllm/kernels/eviction.h"

namespace unmask {

// The product of each candidate's key with the mean query of its sequence's rows.
void slot_ranking::score(const batch& b, const tensor_view& q, std::span<const std::int32_t> first,
                         std::span<const std::int32_t> last, const paged_kv& cache) {
  const backend& backend = b.backend();
  const auto sequences = static_cast<std::int32_t>(first.size());
  const std::int64_t heads = q.shape[1], dim = q.shape[2];
  if (!mean_query_) mean_query_ = backend.allocate(dtype::f32, {sequences, heads * dim});
  mean_begin_.resize(first.size() * 2);
  for (std::int32_t s = 0; s < sequences; ++s) {
    if (candidates(s) == 0) continue;
    const auto i = static_cast<std::size_t>(s);
    std::int32_t* one = mean_begin_.data() + 2 * i;
    one[0] = 0;
    one[1] = last[i] - first[i];
    row_set rows;
    rows.sequences = 1;
    rows.rows = one[1];
    rows.row_begin = one;
    tensor_view of = q.slice(first[i], one[1]);
    of.rank = 2;
    of.shape = {one[1], heads * dim, 0, 0};
    backend.run(op::mean_rows{rows, of, mean_query_.view().slice(s, 1)});
  }
  const tensor_view mean = make_view(mean_query_.view().data, dtype::f32, {sequences, heads, dim});
  b.score(op::key_scores{mean,
                         cache,
                         {nullptr, begin_.data(), slots_.data(), mask_kind::full, 1},
                         score_.as<float>()});
}

// A draw by seed, forward, layer and position, so that it is the same in any batch.
void slot_ranking::draw(std::int32_t layer, const batch& b) {
  const auto at = static_cast<std::size_t>(layer);
  if (draw_.size() <= at) draw_.resize(at + 1);
  draw_[at].clear();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    draw_[at].push_back(b.at(s).step * b.model().layers + layer);
  }
  const candidate_set set{b.capacity(), static_cast<std::int32_t>(slots_.size()), begin_.data(),
                          slots_.data(), nullptr};
  b.backend().run(op::uniform_scores{set, {b.seeds(), draw_[at].data()}, score_.as<float>()});
}

void slot_ranking::rank(std::int32_t layer, const batch& b, const tensor_view& q,
                        std::span<const std::int32_t> first, std::span<const std::int32_t> last,
                        const paged_kv& cache, std::span<const std::int32_t> keep) {
  const backend& backend = b.backend();
  const auto sequences = static_cast<std::int32_t>(first.size());
  const auto all = static_cast<std::int64_t>(slots_.size());
  if (!score_ || score_.view().rows() < all) {  // grows only
    for (tensor* t : {&score_, &pooled_}) *t = backend.allocate(dtype::f32, {all + all / 4});
  }
  if (random_) {
    draw(layer, b);
  } else {
    score(b, q, first, last, cache);
  }
  const float* ranked = score_.as<float>();
  if (kernel_size_ > 0 && !random_) {
    backend.run(op::pool{sequences, begin_.data(), score_.as<float>(), kernel_size_, maximum_,
                         pooled_.as<float>()});
    ranked = pooled_.as<float>();
  }
  top_begin_.assign(1, 0);
  for (const std::int32_t n : keep) top_begin_.push_back(top_begin_.back() + n);
  if (top_.size() <= static_cast<std::size_t>(layer))
    top_.resize(static_cast<std::size_t>(layer) + 1);
  shared_vector<std::int32_t>& top = top_[static_cast<std::size_t>(layer)];
  top.resize(static_cast<std::size_t>(top_begin_.back()));
  backend.run(op::top_indices{sequences, begin_.data(), ranked, top_begin_.data(), top.data()});
}

}  // namespace unmask
