// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/focus_dllm/sparse_context.h"
#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "kernels/selection.h"
#include "methods/parts/kernels/block_means.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace unmask {

bool sparse_context::dense(const batch& b, std::int32_t layer) const {
  const focus_dllm_settings& f = state_->settings;
  return !f.sparse_attention || layer < f.dense_layers ||
         layer >= b.model().layers - f.dense_tail_layers;
}

// False at block entry, where everything is computed and seen.
bool sparse_context::focused(const step_choice& plan, std::int32_t s) const {
  const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
  return step.active && step.step > 0;
}

std::int32_t sparse_context::blocks_of(const batch& b, std::int32_t s) const {
  const std::int32_t size = state_->settings.prompt_block_size;
  return (b.at(s).prompt_length + size - 1) / size;
}

// Once per forward, at layer 0: which sequences are focused, and room for what follows.
void sparse_context::prepare(const batch& b, const step_choice& plan, const paged_kv& cache,
                             const tensor_view& query) {
  const std::int32_t sequences = b.capacity();
  any_focused_ = false;
  for (std::int32_t s = 0; s < sequences; ++s) any_focused_ = any_focused_ || focused(plan, s);
  if (!means_.empty()) return;
  const backend& backend = b.backend();
  const std::int64_t kv_heads = cache.keys.shape[2], dim = cache.keys.shape[3];
  const std::int32_t size = state_->settings.prompt_block_size;
  const std::int32_t blocks = (b.max_length() + size - 1) / size;
  means_stride_ = (blocks + kv_page_size - 1) / kv_page_size;
  for (std::int32_t l = 0; l < b.model().layers; ++l) {
    means_.push_back(dense(b, l)
                         ? tensor{}
                         : backend.allocate(dtype::f32, {std::int64_t{sequences} * means_stride_,
                                                         kv_page_size, kv_heads, dim}));
  }
  means_table_.resize(static_cast<std::size_t>(sequences) *
                      static_cast<std::size_t>(means_stride_));
  std::iota(means_table_.begin(), means_table_.end(), 0);
  const std::int64_t most = std::int64_t{sequences} * b.max_length();
  for (tensor* t : {&top_, &sink_, &key_slot_}) *t = backend.allocate(dtype::i32, {most});
  for (tensor* t : {&mass_, &score_}) *t = backend.allocate(dtype::f32, {most});
  flags_ = backend.allocate(dtype::u8, {sequences, b.max_length()});
  for (std::int32_t l = 0; l < b.model().layers; ++l) {
    key_begin_.push_back(backend.allocate(dtype::i32, {sequences + 1}, memory_use::host_visible));
  }
  mean_query_ = backend.allocate(dtype::f32, {sequences, query.shape[1] * dim});
  focus_query_ = backend.allocate(query.type, {b.max_length(), query.shape[1] * dim});
}

// The last dense layer finds the sinks.
bool sparse_context::sums_mass(std::int32_t layer) const {
  const focus_dllm_settings& f = state_->settings;
  return any_focused_ && f.sinks && f.sparse_attention && layer == f.dense_layers - 1;
}

// Largest attention mass among the prompt's slots (eq. 6). The sum over heads and active rows ranks
// as their mean does.
void sparse_context::find_sinks(const batch& b, const step_choice& plan) {
  const std::int32_t sequences = b.capacity();
  mass_begin_.clear();
  sink_begin_.assign(1, 0);
  // top_indices ranks whole segments; the prompt is the head of each sequence's mass, so segments
  // are (prompt, rest) pairs and the rest asks for nothing.
  std::int32_t at = 0;
  for (std::int32_t s = 0; s < sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    const std::int32_t prompt = step.active ? b.at(s).prompt_length : 0;
    const std::int32_t wanted =
        focused(plan, s)
            ? std::max(1, static_cast<std::int32_t>(state_->settings.sink_fraction * prompt))
            : 0;
    mass_begin_.push_back(at);
    mass_begin_.push_back(at + prompt);
    sink_begin_.push_back(sink_begin_.back() + wanted);
    sink_begin_.push_back(sink_begin_.back());
    at += step.active ? step.kv_length : 0;
  }
  mass_begin_.push_back(at);
  b.backend().run(op::top_indices{2 * sequences, mass_begin_.data(), mass_.as<float>(),
                                  sink_begin_.data(), sink_.as<std::int32_t>()});
}

// Mean keys of the prompt's blocks: all of them at block entry, later those with computed rows.
void sparse_context::refresh_means(const batch& b, const step_choice& plan, std::int32_t layer,
                                   const paged_kv& cache) {
  const std::int32_t size = state_->settings.prompt_block_size;
  const tensor_view& means = means_[static_cast<std::size_t>(layer)].view();
  means_of_.resize(static_cast<std::size_t>(b.capacity()) * 4);
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    std::int32_t* of = means_of_.data() + std::int64_t{s} * 4;
    std::int32_t &prompt = of[0], &first = of[1], *count = of + 2;
    prompt = b.at(s).prompt_length;
    const std::int32_t from = focused(plan, s) ? state_->of.at(s).touched_prompt : 0;
    if (from >= prompt) continue;
    first = from / size;
    count[0] = 0;
    count[1] = blocks_of(b, s) - first;
    paged_kv one = cache;
    one.page_table += std::int64_t{s} * cache.table_stride;
    const std::int64_t slots = std::int64_t{means_stride_} * kv_page_size;
    tensor_view out = means;
    out.data = means.as<float>() + (s * slots + first) * means.shape[2] * means.shape[3];
    out.rank = 3;
    out.shape = {count[1], means.shape[2], means.shape[3], 0};
    out.row_stride = means.shape[2] * means.shape[3];
    b.backend().run(op::block_mean_keys{1, one, &prompt, size, count, out, &first});
  }
}

// R_b = mean over heads of (mean focus query) . (mean key of block b), top C of them (eqs 7, 8).
void sparse_context::score_blocks(const batch& b, const step_choice& plan, std::int32_t layer,
                                  const tensor_view& q) {
  const backend& backend = b.backend();
  const std::int32_t sequences = b.capacity();
  const std::int64_t width = q.shape[1] * q.shape[2];
  const bool scored = state_->settings.blocks == focus_dllm_settings::choice::score;
  blocks_.clear();
  mean_rows_.resize(static_cast<std::size_t>(sequences) * 2);
  top_begin_.assign(1, 0);
  block_begin_.assign(1, 0);
  for (std::int32_t s = 0; s < sequences; ++s) {
    const bool on = focused(plan, s);
    const std::int32_t blocks = on ? blocks_of(b, s) : 0;
    blocks_.push_back(blocks);
    const auto share = static_cast<std::int32_t>(std::floor(state_->settings.alpha * blocks));
    top_begin_.push_back(top_begin_.back() + (on ? std::max(1, share) : 0));
    block_begin_.push_back(block_begin_.back() + blocks);
    const std::int32_t begin = focus_begin_[static_cast<std::size_t>(s)];
    std::int32_t* count = mean_rows_.data() + std::int64_t{s} * 2;
    count[0] = 0;
    count[1] = focus_begin_[static_cast<std::size_t>(s) + 1] - begin;
    if (!on || !scored) continue;
    tensor_view rows = q;
    rows.rank = 2;
    rows.shape = {q.shape[0], width, 0, 0};
    const tensor_view gathered = focus_query_.view().first(count[1]);
    backend.run(op::gather_rows{rows, focus_row_.data() + begin, gathered});
    row_set set;
    set.sequences = 1;
    set.rows = count[1];
    set.row_begin = count;
    backend.run(op::mean_rows{set, gathered, mean_query_.view().slice(s, 1)});
  }
  if (!scored) {
    rank_blocks(b, layer);
    return;
  }
  const tensor_view mean =
      make_view(mean_query_.view().data, dtype::f32, {sequences, q.shape[1], q.shape[2]});
  paged_kv means;
  means.keys = means.values = means_[static_cast<std::size_t>(layer)].view();
  means.page_table = means_table_.data();
  means.table_stride = means_stride_;
  b.score(op::key_scores{
      mean, means, {blocks_.data(), nullptr, nullptr, mask_kind::full, 1}, score_.as<float>()});
  backend.run(op::top_indices{sequences, block_begin_.data(), score_.as<float>(), top_begin_.data(),
                              top_.as<std::int32_t>()});
}

// The top C of blocks that are not scored: the last ones, or drawn by seed, forward, layer and block.
void sparse_context::rank_blocks(const batch& b, std::int32_t layer) {
  const backend& backend = b.backend();
  block_.clear();
  block_order_.clear();
  for (const std::int32_t blocks : blocks_) {
    for (std::int32_t i = 0; i < blocks; ++i) {
      block_.push_back(i);
      block_order_.push_back(static_cast<float>(i));
    }
  }
  const float* ranked = block_order_.data();
  if (state_->settings.blocks == focus_dllm_settings::choice::random) {
    const auto at = static_cast<std::size_t>(layer);
    draw_.resize(static_cast<std::size_t>(b.model().layers));
    draw_[at].clear();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      draw_[at].push_back(b.at(s).step * b.model().layers + layer);
    }
    const candidate_set set{b.capacity(), static_cast<std::int32_t>(block_.size()),
                            block_begin_.data(), block_.data(), nullptr};
    backend.run(op::uniform_scores{set, {b.seeds(), draw_[at].data()}, score_.as<float>()});
    ranked = score_.as<float>();
  }
  backend.run(op::top_indices{b.capacity(), block_begin_.data(), ranked, top_begin_.data(),
                              top_.as<std::int32_t>()});
}

// Ascending: sinks and tokens of the top blocks, then the response.
void sparse_context::list_slots(const batch& b, const step_choice& plan, std::int32_t layer) {
  const backend& backend = b.backend();
  const focus_dllm_settings& f = state_->settings;
  zero_.assign(plan.of.size(), 0);
  length_.assign(plan.of.size(), 0);
  seen_from_.assign(plan.of.size(), 0);
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const auto i = static_cast<std::size_t>(s);
    if (!plan.of[i].active) continue;
    length_[i] = b.at(s).length;
    if (focused(plan, s)) seen_from_[i] = b.at(s).prompt_length;
  }
  backend.run(op::mark_context{b.capacity(), length_.data(), seen_from_.data(), f.prompt_block_size,
                               top_begin_.data(), top_.as<std::int32_t>(), sink_begin_.data(),
                               f.sinks ? sink_.as<std::int32_t>() : nullptr, flags_});
  backend.run(op::list_flags{b.capacity(), flags_, 1, zero_.data(), length_.data(),
                             key_begin_[static_cast<std::size_t>(layer)].as<std::int32_t>(),
                             key_slot_.as<std::int32_t>(), nullptr});
}

void sparse_context::choose(const layer_rows& rows, const paged_kv& cache) {
  const batch& b = rows.state;
  const step_choice& plan = rows.plan;
  const std::int32_t layer = rows.layer;
  if (layer == 0) prepare(b, plan, cache, rows.q);
  if (sums_mass(layer)) {
    b.backend().clear(mass_.view().data, mass_.bytes());
  }
  if (dense(b, layer)) return;
  if (state_->settings.blocks == focus_dllm_settings::choice::score) {
    refresh_means(b, plan, layer, cache);
  }
  if (!any_focused_) return;
  if (layer == state_->settings.dense_layers) {
    if (state_->settings.sinks) find_sinks(b, plan);
    // Rows of the focus positions: rows ascend by position inside a sequence.
    focus_begin_.assign(1, 0);
    focus_row_.clear();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      if (focused(plan, s)) {
        const focus_dllm_sequence& f = state_->of.at(s);
        focus_row_.insert(focus_row_.end(), f.focus_rows.begin(), f.focus_rows.end());
      }
      focus_begin_.push_back(static_cast<std::int32_t>(focus_row_.size()));
    }
  }
  score_blocks(b, plan, layer, rows.q);
  list_slots(b, plan, layer);
}

layer_keys sparse_context::select(const batch& b, const step_choice&, std::int32_t layer,
                                  const std::int32_t* kv_length) const {
  layer_keys keys;
  keys.set.kv_length = kv_length;
  if (sums_mass(layer)) keys.mass = mass_.view();
  if (dense(b, layer) || !any_focused_) return keys;
  keys.set.key_begin = key_begin_[static_cast<std::size_t>(layer)].as<std::int32_t>();
  keys.set.key_slot = key_slot_.as<std::int32_t>();
  keys.counted_later = true;
  return keys;
}

}  // namespace unmask
