// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/block_diffusion/block_pace.h"

#include <algorithm>
#include <string>

namespace unmask {

std::int32_t block_pace::canvas_length(const model_config&, const sequence_request& request) const {
  if (request.gen_length <= 0) {
    throw usage_error(settings_.method + ": gen_length must be positive");
  }
  return round_up(static_cast<std::int32_t>(request.prompt.size()) + request.gen_length,
                  settings_.block_length);
}

pace_shape block_pace::shape(const model_config&) const {
  return {settings_.block_length, settings_.block_length, true};
}

bool block_pace::prefilling(const batch&, std::int32_t s) const {
  return !progress_.at(s).prefilled;
}

std::int32_t block_pace::prefill_end(const batch& b, std::int32_t s) const {
  return settings_.partial_prefill ? round_up(b.at(s).prompt_length, settings_.block_length)
                                   : progress_.at(s).history;
}

std::int32_t block_pace::prefill_rows(const batch& b, std::int32_t s) const {
  const std::int32_t rest = prefill_end(b, s) - progress_.at(s).entered;
  return prefill_limit_ > 0 ? std::min(rest, prefill_limit_) : rest;
}

// Rows of a block attend to the whole block, so pieces end where blocks end.
bool block_pace::limit_prefill(std::int32_t rows) {
  const std::int32_t block = settings_.block_length;
  prefill_limit_ = rows > 0 ? std::max(rows / block, 1) * block : 0;
  return true;
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
    step.what = phase::prefill;
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
    step.what = clean ? phase::commit : phase::denoise;
    step.candidate_first = step.first;
    step.candidate_last = clean ? step.first : step.last;
  }
  step.kv_length = step.last;
  const std::int32_t steps = settings_.steps > 0 ? settings_.steps : block;
  step.quota = std::max(1, block / steps);
  // SDAR's own loop hands the remainder of block / steps to the first steps.
  if (!settings_.engine && p.step < block % steps) step.quota = block / steps + 1;
  return step;
}

void block_pace::observe(batch& b, std::int32_t s, const sequence_step& step,
                         std::int32_t committed) {
  progress& p = progress_.at(s);
  const std::int32_t block = settings_.block_length;
  if (!p.prefilled) {
    p.entered = step.last;
    if (step.last < prefill_end(b, s)) return;
    p.prefilled = true;
    b.set_state(s, 0, p.history, state_cached);
    if (!settings_.partial_prefill) return;
    p.history = step.last - block;
    b.set_state(s, 0, p.history, state_cached);
    // A prompt of whole blocks is cached at once and a block of masks opens.
    if (b.at(s).prompt_length % block == 0) {
      next_block(b, s);
      return;
    }
  }
  if (step.what == phase::commit) {
    if (++p.commits == settings_.commit_forwards) next_block(b, s);
    return;
  }
  if (step.candidate_last == step.candidate_first) return;
  ++p.step;
  p.idle = committed > 0 ? 0 : p.idle + 1;
  if (p.idle > block) {
    throw error(exit_code::run_failed,
                settings_.method + ": the block at position " + std::to_string(p.history) +
                    " decides nothing any more: the model predicts the mask token, which stays a "
                    "mask when masks are recognised by their id; set mask_track=state");
  }
  if (settings_.engine && b.count(s, p.history, p.history + block, state_masked) == 0) {
    block_done(b, s);
  }
}

std::int32_t engine_answer_end(const batch& b, std::int32_t s, std::int32_t first,
                               const block_settings& settings) {
  const sequence& q = b.at(s);
  const std::int32_t end = first + settings.block_length;
  const std::int32_t budget_end = q.prompt_length + q.request.gen_length;
  bool stopped = false;
  std::int32_t answer_end = std::min(end, budget_end);
  if (settings.use_stop_ids && (settings.stop_in_prompt_block || first >= q.prompt_length)) {
    answer_end = end_of_answer(b, s, std::max(first, q.prompt_length), answer_end,
                               settings.stop_ids, &stopped);
  }
  return stopped || end >= budget_end ? answer_end : 0;
}

void block_pace::block_done(batch& b, std::int32_t s) {
  sequence& q = b.at(s);
  progress& p = progress_.at(s);
  p.answer_end = engine_answer_end(b, s, p.history, settings_);
  if (p.answer_end > 0 && !settings_.commit_last) {
    q.finished = true;
    q.output_end = p.answer_end;
  }
}

void block_pace::next_block(batch& b, std::int32_t s) {
  sequence& q = b.at(s);
  progress& p = progress_.at(s);
  b.set_state(s, p.history, p.history + settings_.block_length, state_cached);
  p.history += settings_.block_length;
  p.step = p.idle = p.commits = 0;
  if (settings_.engine) {
    q.finished = p.answer_end > 0;
    q.output_end = p.answer_end;
    return;
  }
  bool stopped = false;
  if (settings_.use_stop_ids) {
    end_of_answer(b, s, std::min(q.prompt_length, p.history), p.history, settings_.stop_ids,
                  &stopped);
  }
  if (stopped || p.history >= q.length) {
    q.finished = true;
    q.output_end = p.history;  // this loop returns whole blocks
  }
}

}  // namespace unmask
