// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/schedules.h"

#include <algorithm>
#include <string>

namespace unmask {
namespace {

std::int32_t steps_for(const std::string& method, std::int32_t gen_length, std::int32_t steps,
                       std::int32_t tokens_per_step) {
  if (steps > 0) return steps;
  if (gen_length % tokens_per_step != 0) {
    throw usage_error(method + ": gen_length " + std::to_string(gen_length) +
                      " is not a multiple of tokens_per_step " + std::to_string(tokens_per_step));
  }
  return gen_length / tokens_per_step;
}

sequence_step whole_canvas(const sequence& q) {
  sequence_step step;
  step.active = true;
  step.first = 0;
  step.last = q.length;
  step.candidate_first = q.prompt_length;
  step.candidate_last = q.length;
  step.kv_length = q.length;
  return step;
}

// The first block of a request, with the checks of its lengths. Settings: of either blockwise
// schedule.
template <class Settings>
block_progress first_block(const Settings& set, std::int32_t gen) {
  const std::string& method = set.method;
  const std::int32_t block = set.block_length > 0 ? set.block_length : gen;
  if (gen <= 0) throw usage_error(method + ": gen_length must be positive");
  if (gen % block != 0) {
    throw usage_error(method + ": gen_length " + std::to_string(gen) +
                      " is not a multiple of block_length " + std::to_string(block));
  }
  const std::int32_t all = steps_for(method, gen, set.steps, set.tokens_per_step);
  if (all % (gen / block) != 0) {
    throw usage_error(method + ": steps " + std::to_string(all) + " is not a multiple of the " +
                      std::to_string(gen / block) + " blocks (gen_length / block_length)");
  }
  block_progress p;
  p.block_length = block;
  p.blocks = gen / block;
  p.steps_per_block = all / p.blocks;
  return p;
}

template <class Settings>
std::int32_t blockwise_length(const Settings& set, const sequence_request& request) {
  first_block(set, request.gen_length);
  return request_positions(set.method, request);
}

// The rows of step `step` of the block [first, last); `full`: it computes everything.
void set_window(sequence_step& out, std::int32_t step, bool full, block_schedule::window partial,
                std::int32_t first, std::int32_t last) {
  out.block_first = first;
  out.block_last = last;
  out.step = step;
  out.candidate_last = last;
  if (full || partial == block_schedule::window::canvas) return;
  out.first = out.candidate_first = first;
  if (partial == block_schedule::window::block) out.last = last;
}

// The answer ends at `end`.
void finish(sequence& q, std::int32_t end) {
  q.finished = true;
  q.output_end = end;
}

}  // namespace

std::int32_t block_schedule::canvas_length(const model_config&,
                                           const sequence_request& request) const {
  return blockwise_length(settings_, request);
}

void block_schedule::start(batch& b, std::int32_t s) {
  progress_.at(s) = first_block(settings_, b.at(s).request.gen_length);
  enter_block(b, s);
}

void block_schedule::enter_block(const batch& b, std::int32_t s) {
  block_progress& p = progress_.at(s);
  const std::int32_t first = b.at(s).prompt_length + p.block * p.block_length;
  p.step = 0;
  p.idle_steps = 0;
  p.masks = b.count(s, first, first + p.block_length, state_masked);
}

std::int32_t block_schedule::quota(std::int32_t masks, std::int32_t steps, std::int32_t i) {
  return masks / steps + (i < masks % steps ? 1 : 0);
}

sequence_step block_schedule::plan(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  const block_progress& p = progress_.at(s);
  sequence_step step = whole_canvas(q);
  const std::int32_t first = q.prompt_length + p.block * p.block_length;
  // Leftover masks of earlier blocks (a token decided as the mask id) are candidates again.
  if (!settings_.leftovers) step.candidate_first = first;
  const std::int32_t refresh = settings_.refresh_interval;
  const bool full = p.step < settings_.full_steps || (refresh > 0 && p.step % refresh == 0);
  set_window(step, p.step, full, settings_.partial, first, first + p.block_length);
  if (settings_.judge_next_block) {
    step.candidate_last = std::min(step.block_last + p.block_length, q.length);
  }
  if (settings_.window_shift > 0 && step.first > 0) {
    step.first -= settings_.window_shift;
    step.last -= settings_.window_shift;
  }
  if (p.stop_at >= 0) step.candidate_last = std::min(step.candidate_last, p.stop_at);
  // Past the schedule (until_clean with a leftover) one token per step.
  step.quota = p.step < p.steps_per_block ? quota(p.masks, p.steps_per_block, p.step) : 1;
  return step;
}

// The first place of the sequences that are not beyond the one known.
void block_schedule::look_for_stop(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  block_progress& p = progress_.at(s);
  const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
  const std::uint8_t* state = b.state().row<std::uint8_t>(s);
  const auto stands_at = [&](const std::vector<std::int32_t>& stop, std::int32_t place) {
    for (std::size_t j = 0; j < stop.size(); ++j) {
      const std::size_t at = static_cast<std::size_t>(place) + j;
      if (canvas[at] != stop[j] || state[at] == state_masked) return false;
    }
    return true;
  };
  for (const std::vector<std::int32_t>& stop : settings_.stop_sequences) {
    const std::int32_t last = q.length - static_cast<std::int32_t>(stop.size());
    const std::int32_t end = p.stop_at < 0 ? last + 1 : std::min(last + 1, p.stop_at);
    for (std::int32_t place = q.prompt_length; place < end; ++place) {
      if (!stands_at(stop, place)) continue;
      p.stop_at = place;
      break;
    }
    if (p.stop_at >= 0) return;
  }
}

void block_schedule::observe(batch& b, std::int32_t s, const sequence_step& step,
                             const step_outcome& outcome) {
  sequence& q = b.at(s);
  block_progress& p = progress_.at(s);
  ++p.step;
  if (!settings_.stop_sequences.empty()) look_for_stop(b, s);
  if (p.stop_at >= 0 && b.count(s, q.prompt_length, p.stop_at, state_masked) == 0) {
    finish(q, p.stop_at);
    return;
  }
  // Only a step that should have decided something and did not is idle (it decided the mask id).
  p.idle_steps = outcome.taken > 0 || step.quota == 0 ? 0 : p.idle_steps + 1;
  const std::int32_t first = q.prompt_length + p.block * p.block_length;
  const bool clean = b.count(s, first, first + p.block_length, state_masked) == 0;
  // A model that keeps deciding the mask id would never come clean: leave after a block of tries.
  const bool stuck = p.idle_steps >= p.block_length;
  const bool over = settings_.until_clean ? (clean && p.step >= settings_.min_steps) || stuck
                                          : p.step == p.steps_per_block;
  if (!over && !(settings_.within_steps && p.step == p.steps_per_block)) return;
  const std::int32_t last = first + p.block_length;
  const bool ends = settings_.block_end_token >= 0 &&
                    b.tokens(s, last - 1, last).front() == settings_.block_end_token;
  const bool stops =
      stop_behind_block(b, s, first, last, settings_.stop_ids, settings_.fill_behind) || ends;
  if (p.stop_at >= 0 && last >= p.stop_at) {
    finish(q, p.stop_at);
  } else if (++p.block == p.blocks || stops) {
    finish(q, last);
  } else {
    enter_block(b, s);
  }
}

block_schedule::window window_of_cache(const std::string& cache) {
  if (cache == "prefix") return block_schedule::window::suffix;
  if (cache == "dual") return block_schedule::window::block;
  return block_schedule::window::canvas;
}

std::int32_t dream_block_schedule::canvas_length(const model_config&,
                                                 const sequence_request& request) const {
  return blockwise_length(settings_, request);
}

void dream_block_schedule::start(batch& b, std::int32_t s) {
  progress_.at(s) = first_block(settings_, b.at(s).request.gen_length);
  progress_.at(s).step = settings_.first_step;
}

sequence_step dream_block_schedule::plan(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  const block_progress& p = progress_.at(s);
  sequence_step step = whole_canvas(q);
  const std::int32_t first = q.prompt_length + p.block * p.block_length;
  const std::int32_t last = first + p.block_length;
  step.candidate_first = first;
  set_window(step, p.step, p.step < settings_.full_steps, settings_.partial, first, last);
  if (p.step == 0 && settings_.first_token) {
    // The first token is settled by the full forward, whatever its confidence: inside a window
    // that starts at the block, its row (first - 1) is not computed any more.
    step.candidate_last = first + 1;
    step.quota = 1;
    return step;
  }
  const std::int32_t masks = b.count(s, first, last, state_masked);
  step.quota = p.step + 1 < p.steps_per_block
                   ? static_cast<std::int32_t>(
                         static_cast<float>(masks) *
                         time_schedule::transfer_fraction(p.steps_per_block, settings_.eps, p.step))
                   : masks;
  return step;
}

void dream_block_schedule::observe(batch& b, std::int32_t s, const sequence_step& step,
                                   const step_outcome& outcome) {
  block_progress& p = progress_.at(s);
  ++p.step;
  p.idle_steps = outcome.taken > 0 ? 0 : p.idle_steps + 1;
  const bool clean = b.count(s, step.block_first, step.block_last, state_masked) == 0;
  bool over = settings_.until_clean && clean && p.step > 1;
  // A model that keeps deciding the mask id would never come clean: leave after a block of tries.
  over = over || (settings_.endless ? p.idle_steps >= p.block_length
                                    : p.step >= std::max(p.steps_per_block, 1));
  if (!over) return;
  p.step = settings_.first_step;
  p.idle_steps = 0;
  const bool stops = stop_behind_block(b, s, step.block_first, step.block_last, settings_.stop_ids,
                                       settings_.fill_behind);
  if (++p.block == p.blocks || stops) finish(b.at(s), step.block_last);
}

std::int32_t time_schedule::canvas_length(const model_config&,
                                          const sequence_request& request) const {
  const std::int32_t positions = request_positions(settings_.method, request);
  const std::int32_t steps =
      steps_for(settings_.method, request.gen_length, settings_.steps, settings_.tokens_per_step);
  if (settings_.confidence_threshold && request.gen_length % steps != 0) {
    throw usage_error(settings_.method + ": alg confidence_threshold needs gen_length " +
                      std::to_string(request.gen_length) + " to be a multiple of steps " +
                      std::to_string(steps));
  }
  return positions;
}

void time_schedule::start(batch& b, std::int32_t s) {
  const std::int32_t gen = b.at(s).request.gen_length;
  progress& p = progress_.at(s);
  p = {};
  p.steps = steps_for(settings_.method, gen, settings_.steps, settings_.tokens_per_step);
  p.per_step = gen / p.steps;
  p.masks = b.count(s, b.at(s).prompt_length, b.at(s).length, state_masked);
}

namespace {
// t_j = linspace(1, eps, steps + 1)[j]; torch fills its two halves from the two ends.
float time_of(std::int32_t steps, float eps, std::int32_t j) {
  const float delta = (eps - 1.0F) / static_cast<float>(steps);
  return j < (steps + 1) / 2 ? 1.0F + delta * static_cast<float>(j)
                             : eps - delta * static_cast<float>(steps - j);
}
}  // namespace

float time_schedule::transfer_fraction(std::int32_t steps, float eps, std::int32_t i) {
  return 1.0F - time_of(steps, eps, i + 1) / time_of(steps, eps, i);
}

std::int32_t time_schedule::share_quota(const progress& p, std::int32_t masks) const {
  const float share = static_cast<float>(masks) / static_cast<float>(p.masks);
  for (std::int32_t j = p.step + 1; j < p.steps; ++j) {
    const float t = time_of(p.steps, settings_.eps, j);
    if (t >= share) continue;
    const auto count = static_cast<std::int32_t>(static_cast<float>(masks) * (1.0F - t / share));
    if (count >= 1) return count;
  }
  return masks;
}

sequence_step time_schedule::plan(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  const progress& p = progress_.at(s);
  sequence_step step = whole_canvas(q);
  step.block_first = q.prompt_length;
  step.block_last = q.length;
  step.step = p.step;
  const std::int32_t masks = b.count(s, q.prompt_length, q.length, state_masked);
  if (settings_.keeps_prompt && p.step > 0) step.first = std::max(q.prompt_length - 1, 0);
  if (settings_.by_share) {
    step.quota = share_quota(p, masks);
  } else if (settings_.confidence_threshold) {
    step.quota = p.per_step + p.carried;
  } else if (p.step + 1 < p.steps) {
    step.quota = static_cast<std::int32_t>(static_cast<float>(masks) *
                                           transfer_fraction(p.steps, settings_.eps, p.step));
  } else {
    step.quota = masks;
  }
  return step;
}

void time_schedule::observe(batch& b, std::int32_t s, const sequence_step& step,
                            const step_outcome& outcome) {
  progress& p = progress_.at(s);
  if (settings_.confidence_threshold) {
    p.carried = std::max(0, step.quota - outcome.taken);
    // Refused tokens of the last step get one step more, again and again until none is refused, or
    // until a canvas of such steps decided nothing: the model then keeps predicting the mask token.
    p.idle_steps = outcome.taken > 0 ? 0 : p.idle_steps + 1;
    const bool stuck = p.idle_steps >= b.at(s).request.gen_length;
    if (p.step + 1 == p.steps && p.carried > 0 && !stuck) {
      p.per_step = 0;
      ++p.steps;
    }
  }
  const sequence& q = b.at(s);
  const bool clean = settings_.by_share && b.count(s, q.prompt_length, q.length, state_masked) == 0;
  if (++p.step == p.steps || clean) finish(b.at(s), q.length);
}

}  // namespace unmask
