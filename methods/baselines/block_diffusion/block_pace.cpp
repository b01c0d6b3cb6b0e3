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
  return !prompts_.at(s).prefilled;
}

std::int32_t block_pace::prefill_end(const batch& b, std::int32_t s) const {
  return settings_.partial_prefill ? round_up(b.at(s).prompt_length, settings_.block_length)
                                   : record(s).history;
}

std::int32_t block_pace::prefill_rows(const batch& b, std::int32_t s) const {
  const std::int32_t rest = prefill_end(b, s) - prompts_.at(s).entered;
  return prefill_limit_ > 0 ? std::min(rest, prefill_limit_) : rest;
}

// Rows of a block attend to the whole block, so pieces end where blocks end.
bool block_pace::limit_prefill(std::int32_t rows) {
  const std::int32_t block = settings_.block_length;
  prefill_limit_ = rows > 0 ? std::max(rows / block, 1) * block : 0;
  return true;
}

// Records and stop ids lie where a device can reach them.
void block_pace::prepare(const batch& b) {
  if (!records_.empty()) return;
  records_.resize(static_cast<std::size_t>(b.capacity()));
  stop_ids_.assign(settings_.stop_ids.begin(), settings_.stop_ids.end());
  rules_ = rules_of(settings_);
  rules_.stop_ids = stop_ids_.data();
}

void block_pace::start(batch& b, std::int32_t s) {
  prepare(b);
  const sequence& q = b.at(s);
  block_record& r = record(s);
  prompt_progress& p = prompts_.at(s);
  r = {};
  p = {};
  r.prompt_length = q.prompt_length;
  r.gen_length = q.request.gen_length;
  r.length = q.length;
  if (!settings_.partial_prefill) {
    r.history = q.prompt_length / settings_.block_length * settings_.block_length;
    p.prefilled = r.history == 0;
  }
}

sequence_step block_pace::plan(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  const block_record& r = record(s);
  const std::int32_t block = settings_.block_length;
  sequence_step step;
  step.active = true;
  if (!prompts_.at(s).prefilled) {
    step.what = phase::prefill;
    const std::int32_t end = prefill_end(b, s);
    step.first = prompts_.at(s).entered;
    step.last = step.first + prefill_rows(b, s);
    step.candidate_first =
        settings_.partial_prefill && step.last == end ? std::min(q.prompt_length, end) : step.last;
    step.candidate_last = step.last;
  } else {
    step.first = r.history;
    step.last = r.history + block;
    const bool clean = b.count(s, step.first, step.last, state_masked) == 0;
    step.what = clean ? phase::commit : phase::denoise;
    step.commit = r.commits;
    step.candidate_first = step.first;
    step.candidate_last = clean ? step.first : step.last;
  }
  step.kv_length = step.last;
  step.block_first = step.last - block;
  step.block_last = step.last;
  step.quota = block_quota(rules_, r);
  return step;
}

void block_pace::observe(batch& b, std::int32_t s, const sequence_step& step,
                         std::int32_t committed) {
  sequence& q = b.at(s);
  block_record& r = record(s);
  prompt_progress& p = prompts_.at(s);
  const std::int32_t block = settings_.block_length;
  if (!p.prefilled) {
    p.entered = step.last;
    if (step.last < prefill_end(b, s)) return;
    p.prefilled = true;
    b.set_state(s, 0, r.history, state_cached);
    if (!settings_.partial_prefill) return;
    r.history = step.last - block;
    b.set_state(s, 0, r.history, state_cached);
    // A prompt of whole blocks is cached at once and a block of masks opens.
    if (q.prompt_length % block == 0) {
      open_next_block(rules_, r, -1);
      b.set_state(s, 0, r.history, state_cached);
      return;
    }
  }
  if (step.what != phase::commit && step.candidate_last == step.candidate_first) return;
  const step_kind kind = step.what == phase::commit ? step_kind::commit : step_kind::denoise;
  const std::int32_t masks = b.count(s, r.history, r.history + block, state_masked);
  if (observe_block(rules_, r, kind, committed, masks,
                    first_stop(rules_, r, b.canvas().row<std::int32_t>(s)))) {
    b.set_state(s, r.history - block, r.history, state_cached);
  }
  if (block_is_stuck(rules_, r)) refuse_stuck(s);
  q.finished = r.finished != 0;
  q.output_end = r.output_end;
}

void block_pace::refuse_stuck(std::int32_t s) const {
  throw error(exit_code::run_failed,
              settings_.method + ": the block at position " + std::to_string(record(s).history) +
                  " decides nothing any more: the model predicts the mask token, which stays a "
                  "mask when masks are recognised by their id; set mask_track=state");
}

block_record* block_pace::records(const batch& b) {
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    if (record(s).stuck != 0) refuse_stuck(s);
    record(s).running = b.occupied(s) && !b.at(s).finished && prompts_.at(s).prefilled ? 1 : 0;
  }
  return records_.data();
}

void block_pace::issue_next_step(const batch& b, const step_plan& plan, candidate_lists* found,
                                 run_state* run) {
  const block_run all{b.capacity(), rules_, records_.data(), b.steps(), plan.arrays, run};
  b.backend().advance_blocks(all, found != nullptr ? found->begin.as<std::int32_t>() : nullptr,
                             found != nullptr ? found->committed.as<std::int32_t>() : nullptr,
                             b.canvas(), b.state());
}

block_rules rules_of(const block_settings& settings) {
  block_rules rules;
  rules.block = settings.block_length;
  rules.steps = settings.steps;
  rules.commit_forwards = settings.commit_forwards;
  rules.engine = settings.engine;
  rules.commit_last = settings.commit_last;
  rules.stop_in_prompt_block = settings.stop_in_prompt_block;
  rules.stop_count =
      settings.use_stop_ids ? static_cast<std::int32_t>(settings.stop_ids.size()) : 0;
  rules.stop_ids = settings.stop_ids.data();
  return rules;
}

std::int32_t engine_answer_end(const batch& b, std::int32_t s, std::int32_t first,
                               const block_settings& settings) {
  block_record r;
  r.prompt_length = b.at(s).prompt_length;
  r.gen_length = b.at(s).request.gen_length;
  r.history = first;
  block_rules rules = rules_of(settings);
  rules.engine = true;
  return engine_answer_end(rules, r, first_stop(rules, r, b.canvas().row<std::int32_t>(s)));
}

}  // namespace unmask
