// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/multi_block/open_blocks.h"

#include <algorithm>

#include "methods/parts/long_block.h"

namespace unmask::multi_block {

void flight::make_room(const batch& b) {
  if (forced) return;
  const std::int64_t blocks = b.max_length() / set.block_length + 1;
  forced = b.backend().allocate(dtype::u8, {b.capacity(), blocks}, memory_use::host_visible);
  origin.resize(static_cast<std::size_t>(b.capacity()));
}

std::int32_t open_blocks::canvas_length(const model_config& model,
                                        const sequence_request& request) const {
  const settings& set = shared_->set;
  refuse_long_block("multi_block", model, request, set.block_length);
  if (set.diffulex) return request_positions("multi_block", request, set.block_length);
  if (request.gen_length > 0 && request.gen_length < set.block_length) {
    throw usage_error("multi_block: gen_length " + std::to_string(request.gen_length) +
                      " is less than block_length " + std::to_string(set.block_length));
  }
  // The official loops decode whole blocks only.
  return request_positions("multi_block", request) - request.gen_length % set.block_length;
}

void open_blocks::start(batch& b, std::int32_t s) {
  shared_->make_room(b);
  const settings& set = shared_->set;
  const std::int32_t prompt = b.at(s).prompt_length, block = set.block_length;
  block_range& r = shared_->range.at(s);
  shared_->origin[static_cast<std::size_t>(s)] = set.diffulex ? 0 : prompt;
  if (!set.diffulex) {
    r = {.stored = prompt, .open = prompt};
    open_next(b, s);
    return;
  }
  // The prompt's rest shares a block with masks, which is decided in the first forward.
  r = {.stored = prompt / block * block, .open = (prompt + block - 1) / block * block};
  if (r.open > r.stored) open_next(b, s);
}

std::int32_t open_blocks::prefill_rows(const batch& b, std::int32_t s) const {
  const block_range& r = shared_->range.at(s);
  (void)b;
  return r.first ? r.open : 0;
}

double open_blocks::progress(const batch& b, std::int32_t s, std::int32_t end) const {
  const std::int32_t block = shared_->set.block_length;
  if (end <= origin(s)) return 1;
  const std::int32_t masks = b.count(s, end - block, end, state_masked);
  return static_cast<double>(block - masks) / block;
}

bool open_blocks::has_stopped(const batch& b, std::int32_t s) const {
  const auto& ids = shared_->set.stop_ids;
  const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
  return std::find_first_of(canvas + b.at(s).prompt_length, canvas + shared_->range.at(s).open,
                            ids.begin(), ids.end()) != canvas + shared_->range.at(s).open;
}

// Opens a block behind the last one where the rule allows it.
void open_blocks::open_next(const batch& b, std::int32_t s) {
  const settings& set = shared_->set;
  block_range& r = shared_->range.at(s);
  if (r.open + set.block_length > b.at(s).length || has_stopped(b, s)) return;
  // The prompt's complete blocks are not counted in the first forward.
  const std::int32_t from = r.first ? r.stored : r.cached;
  const std::int32_t flying = (r.open - from) / set.block_length;
  const bool room = set.max_blocks == 0 || flying < set.max_blocks;
  const bool idle = set.diffulex && r.cached == r.open;
  if (idle || (room && progress(b, s, r.open) >= set.add_threshold)) r.open += set.block_length;
}

void open_blocks::mark_full_blocks(const batch& b, std::int32_t s) {
  const std::int32_t block = shared_->set.block_length;
  const block_range& r = shared_->range.at(s);
  std::uint8_t* forced = shared_->forced.row<std::uint8_t>(s);
  for (std::int32_t first = r.stored; first < r.open; first += block) {
    forced[(first - origin(s)) / block] =
        progress(b, s, first) >= shared_->set.activation_threshold ? 1 : 0;
  }
}

sequence_step open_blocks::plan(const batch& b, std::int32_t s) {
  const block_range& r = shared_->range.at(s);
  mark_full_blocks(b, s);
  sequence_step step;
  step.active = true;
  step.what = r.first ? forward_kind::prefill : forward_kind::denoise;
  step.first = r.cached;
  step.last = step.kv_length = r.open;
  step.candidate_first = step.block_first = r.stored;
  step.candidate_last = step.block_last = r.open;
  step.quota = 1;
  return step;
}

void open_blocks::observe(batch& b, std::int32_t s, const sequence_step&, const step_outcome&) {
  sequence& q = b.at(s);
  block_range& r = shared_->range.at(s);
  const std::int32_t block = shared_->set.block_length;
  r.first = false;
  r.cached = r.stored;
  while (r.stored < r.open && b.count(s, r.stored, r.stored + block, state_masked) == 0) {
    r.stored += block;
  }
  const bool ends = shared_->set.diffulex && (r.open == q.length || has_stopped(b, s));
  if (!ends) open_next(b, s);
  if (r.stored < r.open || (shared_->set.diffulex && !ends)) return;
  q.finished = true;
  q.output_end = r.open;
}

// A view for each block; of the prompt, where it is one block, one.
void block_rows::select(const batch& b, const step_choice& plan, row_lists& rows) {
  rows.rows = rows.views.count = 0;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    rows.begin.as<std::int32_t>()[s] = rows.rows;
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    const std::int32_t origin = shared_->origin[static_cast<std::size_t>(s)];
    for (std::int32_t p = step.first; p < step.last; ++p, ++rows.rows) {
      const bool opens =
          p == step.first || (p >= origin && (p - origin) % shared_->set.block_length == 0);
      if (opens) {
        rows.views.begin.as<std::int32_t>()[rows.views.count] = rows.rows;
        rows.views.sequence.as<std::int32_t>()[rows.views.count++] = s;
      }
      rows.position.as<std::int32_t>()[rows.rows] = p;
      rows.sequence.as<std::int32_t>()[rows.rows] = s;
      rows.views.token.as<std::int32_t>()[rows.rows] = -1;
      rows.views.judges.as<std::uint8_t>()[rows.rows] = one_state(state_masked);
    }
  }
  rows.begin.as<std::int32_t>()[b.capacity()] = rows.rows;
}

void block_keys::see(const batch& b, const step_choice& plan, row_lists& rows) const {
  (void)b, (void)plan;
  const row_views& views = rows.views;
  const auto *begin = views.begin.as<std::int32_t>(), *position = rows.position.as<std::int32_t>();
  auto* range = views.range.as<std::int32_t>();
  for (std::int32_t v = 0; v < views.count; ++v, range += 2 * row_views::ranges) {
    const std::int32_t last = (v + 1 < views.count ? begin[v + 1] : rows.rows) - 1;
    std::fill_n(range, 2 * row_views::ranges, 0);
    range[1] = position[last] + 1;
  }
}

}  // namespace unmask::multi_block
