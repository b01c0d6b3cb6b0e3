// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/freedave/draft_pace.h"

#include <algorithm>

#include "methods/parts/long_block.h"

namespace unmask::freedave {

std::int32_t draft_pace::canvas_length(const model_config& model,
                                       const sequence_request& request) const {
  const settings& set = shared_->set;
  refuse_long_block("freedave", model, request, set.block_length);
  if (set.causal) return request_positions("freedave", request, set.block_length);
  if (request.gen_length > 0 && request.gen_length % set.block_length != 0) {
    throw usage_error("freedave: gen_length " + std::to_string(request.gen_length) +
                      " is not a multiple of block_length " + std::to_string(set.block_length));
  }
  return request_positions("freedave", request);
}

void draft_pace::start(batch& b, std::int32_t s) {
  shared_->make_room(b);
  const std::int32_t prompt = b.at(s).prompt_length, block = shared_->set.block_length;
  progress_.at(s) = {};
  open_block(b, s, shared_->set.causal ? prompt / block * block : prompt);
  progress_.at(s).entered = !shared_->set.causal || progress_.at(s).first == 0;
}

std::int32_t draft_pace::prefill_rows(const batch& b, std::int32_t s) const {
  if (!shared_->set.causal) return pace_policy::prefill_rows(b, s);
  const progress& p = progress_.at(s);
  return p.entered ? 0 : p.first;
}

// Of the window: the block, and where drafts may run into them the blocks behind it.
std::int32_t draft_pace::window_end(const batch& b, std::int32_t s) const {
  const progress& p = progress_.at(s);
  const std::int32_t further = shared_->set.further_blocks() * shared_->set.block_length;
  return std::min(block_end(p) + further, b.at(s).length);
}

sequence_step draft_pace::plan(const batch& b, std::int32_t s) {
  progress& p = progress_.at(s);
  const settings& set = shared_->set;
  const sequence& q = b.at(s);
  const auto at = static_cast<std::size_t>(s);
  sequence_step step;
  step.active = true;
  step.block_first = p.first;
  step.block_last = block_end(p);
  step.step = p.step;
  step.quota = set.per_step;
  if (!p.entered) {
    step.what = forward_kind::prefill;
    step.last = p.first;
  } else if (p.commits) {
    step.what = forward_kind::commit;
    step.first = p.first;
    step.last = step.block_last;
    step.quota = 0;
  } else {
    // Without a block-causal mask the forward that predicts computes everything.
    step.first = set.causal || p.branches > 0 ? p.first : 0;
    step.last = set.causal                      ? window_end(b, s)
                : p.branches == 0 || set.prefix ? q.length
                                                : step.block_last;
    step.candidate_first = p.first;
    step.candidate_last = set.causal ? step.last : step.block_last;
    p.verifies_only = b.count(s, p.first, step.candidate_last, state_masked) == 0;
  }
  step.kv_length = set.causal ? step.last : q.length;
  shared_->branches[at] = std::max(p.branches, 1);
  shared_->width[at] = std::max(step.last - step.first, 1);
  // Dream's prediction decides the block's first token, whatever its confidence: no later forward of
  // the block computes the row before it.
  shared_->first_only[at] = set.shifted && p.branches == 0 ? 1 : 0;
  shared_->block_last[at] = step.block_last;
  step.slots = shared_->slot(q, shared_->branches[at] - 1, step.last, step.first);
  return step;
}

void draft_pace::observe(batch& b, std::int32_t s, const sequence_step& step, const step_outcome&) {
  progress& p = progress_.at(s);
  const settings& set = shared_->set;
  if (step.what == forward_kind::prefill) {
    p.entered = true;
    return;
  }
  if (step.what == forward_kind::commit) {
    leave_block(b, s);
    return;
  }
  ++p.step;
  const auto at = static_cast<std::size_t>(s);
  const bool first_only = shared_->first_only[at] != 0;
  // Masks of the canvas that was accepted, before the tokens of its own step. A forward without a mask
  // asks no rule.
  const std::int32_t left =
      p.verifies_only ? 0 : shared_->left.as<std::int32_t>()[s] - (first_only ? 1 : 0);
  const bool window_ends = !set.eager || step.block_last == b.at(s).length;
  const bool complete = first_only ? left == 0
                        : window_ends || left == 0
                            ? left <= set.per_step
                            : shared_->left_in_block.as<std::int32_t>()[s] == 0;
  p.branches = std::min(set.draft_steps, (left + set.per_step - 1) / set.per_step);
  if (!complete) return;
  p.branches = 0;
  if (set.causal) {
    p.commits = true;
  } else {
    leave_block(b, s);
  }
}

void draft_pace::open_block(batch& b, std::int32_t s, std::int32_t first) {
  progress& p = progress_.at(s);
  p = {.first = first, .entered = p.entered};
  // Drafts that ran ahead may have completed it.
  p.commits = shared_->set.causal && b.count(s, first, block_end(p), state_masked) == 0;
}

void draft_pace::leave_block(batch& b, std::int32_t s) {
  const progress& p = progress_.at(s);
  sequence& q = b.at(s);
  const std::int32_t last = block_end(p);
  const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
  const auto& ids = shared_->set.exit_ids;
  const bool exits =
      !ids.empty() && std::all_of(canvas + p.first, canvas + last, [&](std::int32_t id) {
        return std::ranges::find(ids, id) != ids.end();
      });
  if (!exits && last < q.length) return open_block(b, s, last);
  q.finished = true;
  q.output_end = last;
}

}  // namespace unmask::freedave
