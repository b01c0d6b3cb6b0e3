// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/block_pace.h"

#include <algorithm>
#include <string>

namespace unmask {

std::int32_t block_pace::canvas_length(const model_config&, const sequence_request& request) const {
  return request_positions(settings_.method, request, settings_.block_length);
}

std::int32_t block_pace::prefill_end(const batch& b, std::int32_t s) const {
  return settings_.partial_prefill ? round_up(b.at(s).prompt_length, settings_.block_length)
                                   : progress_.at(s).history;
}

std::int32_t block_pace::prefill_rows(const batch& b, std::int32_t s) const {
  const progress& p = progress_.at(s);
  return p.prefilled ? 0 : prefill_piece(prefill_end(b, s) - p.entered);
}

void block_pace::start(batch& b, std::int32_t s) {
  progress& p = progress_.at(s);
  p = {};
  if (!settings_.partial_prefill) {
    p.history = b.at(s).prompt_length / settings_.block_length * settings_.block_length;
    p.prefilled = p.history == 0;
  }
}

sequence_step block_pace::plan(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  const progress& p = progress_.at(s);
  const std::int32_t block = settings_.block_length;
  sequence_step step;
  step.active = true;
  if (!p.prefilled) {
    step.what = forward_kind::prefill;
    const std::int32_t end = prefill_end(b, s);
    step.first = p.entered;
    step.last = p.entered + prefill_rows(b, s);
    step.candidate_first =
        settings_.partial_prefill && step.last == end ? std::min(q.prompt_length, end) : step.last;
    step.candidate_last = step.last;
  } else {
    step.first = p.history;
    step.last = p.history + block;
    const bool clean = b.count(s, step.first, step.last, state_masked) == 0;
    step.what = clean ? forward_kind::commit : forward_kind::denoise;
    step.commit = p.commits;
    step.candidate_first = step.first;
    step.candidate_last = clean ? step.first : step.last;
  }
  step.kv_length = step.last;
  step.block_first = step.last - block;
  step.block_last = step.last;
  step.step = p.step;
  step.quota = quota_of(p);
  return step;
}

std::int32_t block_pace::quota_of(const progress& p) const {
  const std::int32_t block = settings_.block_length;
  const std::int32_t steps = settings_.steps > 0 ? settings_.steps : block;
  // SDAR's own loop hands the remainder of block / steps to the first steps.
  if (!settings_.engine && p.step < block % steps) return block / steps + 1;
  return std::max(1, block / steps);
}

void block_pace::observe(batch& b, std::int32_t s, const sequence_step& step,
                         const step_outcome& outcome) {
  progress& p = progress_.at(s);
  if (!p.prefilled) {
    observe_prefill(b, s, step);
    // A prefill that opened the block in work was its first denoising step.
    if (!p.prefilled || p.history == step.last) return;
  }
  if (step.what == forward_kind::commit) {
    if (++p.commits >= settings_.commit_forwards) open_next_block(b, s);
    return;
  }
  if (step.candidate_last == step.candidate_first) return;
  ++p.step;
  p.idle = outcome.taken > 0 ? 0 : p.idle + 1;
  // A rule that accepts nothing is the loop's to tell.
  const bool masks = b.at(s).counters.mask_decided > 0;
  if (masks && p.idle > settings_.block_length) refuse_stuck(p);
  const bool complete =
      b.count(s, p.history, p.history + settings_.block_length, state_masked) == 0;
  if (!settings_.engine || !complete) return;
  p.answer_end = engine_answer_end(b, s, p.history, settings_);
  if (p.answer_end > 0 && !settings_.commit_last) {
    b.at(s).finished = true;
    b.at(s).output_end = p.answer_end;
  }
}

void block_pace::observe_prefill(batch& b, std::int32_t s, const sequence_step& step) {
  progress& p = progress_.at(s);
  p.entered = step.last;
  if (step.last < prefill_end(b, s)) return;
  p.prefilled = true;
  // A prompt of whole blocks is cached at once and a block of masks opens.
  const bool whole_blocks = b.at(s).prompt_length % settings_.block_length == 0;
  if (settings_.partial_prefill) {
    p.history = whole_blocks ? step.last : step.last - settings_.block_length;
  }
  b.set_state(s, 0, p.history, state_cached);
}

// The block is cached; the next one opens, or the answer ends.
void block_pace::open_next_block(batch& b, std::int32_t s) {
  sequence& q = b.at(s);
  progress& p = progress_.at(s);
  const std::int32_t first = p.history;
  p.history += settings_.block_length;
  p.step = p.idle = p.commits = 0;
  b.set_state(s, first, p.history, state_cached);
  if (settings_.engine) {
    q.finished = p.answer_end > 0;
    q.output_end = p.answer_end;
    return;
  }
  bool stopped = false;
  if (settings_.use_stop_ids) {
    const std::int32_t from = std::min(std::max(q.prompt_length, first), p.history);
    end_of_answer(b, s, from, p.history, settings_.stop_ids, &stopped);
  }
  q.finished = stopped || p.history >= q.length;
  q.output_end = q.finished ? p.history : 0;  // this loop returns whole blocks
}

void block_pace::refuse_stuck(const progress& p) const {
  throw error(exit_code::run_failed,
              settings_.method + ": the block at position " + std::to_string(p.history) +
                  " unmasks nothing any more: the model predicts the mask token, which stays a "
                  "mask when masks are recognised by their id; set mask_track=state");
}

std::int32_t engine_answer_end(const batch& b, std::int32_t s, std::int32_t first,
                               const block_settings& settings) {
  const sequence& q = b.at(s);
  const std::int32_t end = first + settings.block_length;
  const std::int32_t budget_end = q.prompt_length + q.request.gen_length;
  const std::int32_t last = std::min(end, budget_end);
  bool stopped = false;
  std::int32_t answer_end = last;
  if (settings.use_stop_ids && (settings.stop_in_prompt_block || first >= q.prompt_length)) {
    const std::int32_t from = std::min(std::max(first, q.prompt_length), last);
    answer_end = end_of_answer(b, s, from, last, settings.stop_ids, &stopped);
  }
  return stopped || end >= budget_end ? answer_end : 0;
}

}  // namespace unmask
