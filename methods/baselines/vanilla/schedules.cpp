// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/vanilla/schedules.h"

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

void finish(sequence& q) {
  q.finished = true;
  q.output_end = q.length;
}

}  // namespace

std::int32_t block_schedule::canvas_length(const model_config&,
                                           const sequence_request& request) const {
  const std::int32_t gen = request.gen_length;
  const std::int32_t block = settings_.block_length > 0 ? settings_.block_length : gen;
  if (gen <= 0) throw usage_error(settings_.method + ": gen_length must be positive");
  if (gen % block != 0) {
    throw usage_error(settings_.method + ": gen_length " + std::to_string(gen) +
                      " is not a multiple of block_length " + std::to_string(block));
  }
  const std::int32_t steps =
      steps_for(settings_.method, gen, settings_.steps, settings_.tokens_per_step);
  if (steps % (gen / block) != 0) {
    throw usage_error(settings_.method + ": steps " + std::to_string(steps) +
                      " is not a multiple of the " + std::to_string(gen / block) +
                      " blocks (gen_length / block_length)");
  }
  return static_cast<std::int32_t>(request.prompt.size()) + gen;
}

void block_schedule::start(batch& b, std::int32_t s) {
  const std::int32_t gen = b.at(s).request.gen_length;
  progress& p = progress_.at(s);
  p = {};
  p.block_length = settings_.block_length > 0 ? settings_.block_length : gen;
  p.blocks = gen / p.block_length;
  p.steps_per_block =
      steps_for(settings_.method, gen, settings_.steps, settings_.tokens_per_step) / p.blocks;
  enter_block(b, s);
}

void block_schedule::enter_block(const batch& b, std::int32_t s) {
  progress& p = progress_.at(s);
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
  const progress& p = progress_.at(s);
  sequence_step step = whole_canvas(q);
  // Leftover masks of earlier blocks (a token decided as the mask id) are candidates again.
  step.candidate_last = q.prompt_length + (p.block + 1) * p.block_length;
  // Past the schedule (until_clean with a leftover) one token per step.
  step.quota = p.step < p.steps_per_block ? quota(p.masks, p.steps_per_block, p.step) : 1;
  return step;
}

void block_schedule::observe(batch& b, std::int32_t s, const sequence_step& step,
                             std::int32_t committed) {
  sequence& q = b.at(s);
  progress& p = progress_.at(s);
  ++p.step;
  // Only a step that should have decided something and did not is idle (it decided the mask id).
  p.idle_steps = committed > 0 || step.quota == 0 ? 0 : p.idle_steps + 1;
  const std::int32_t first = q.prompt_length + p.block * p.block_length;
  const bool clean = b.count(s, first, first + p.block_length, state_masked) == 0;
  // A model that keeps deciding the mask id would never come clean: leave after a block of tries.
  const bool stuck = p.idle_steps >= p.block_length;
  const bool over = settings_.until_clean ? clean || stuck : p.step == p.steps_per_block;
  if (!over) return;
  if (++p.block == p.blocks) {
    finish(q);
  } else {
    enter_block(b, s);
  }
}

std::int32_t time_schedule::canvas_length(const model_config&,
                                          const sequence_request& request) const {
  if (request.gen_length <= 0)
    throw usage_error(settings_.method + ": gen_length must be positive");
  const std::int32_t steps =
      steps_for(settings_.method, request.gen_length, settings_.steps, settings_.tokens_per_step);
  if (settings_.confidence_threshold && request.gen_length % steps != 0) {
    throw usage_error(settings_.method + ": alg confidence_threshold needs gen_length " +
                      std::to_string(request.gen_length) + " to be a multiple of steps " +
                      std::to_string(steps));
  }
  return static_cast<std::int32_t>(request.prompt.size()) + request.gen_length;
}

void time_schedule::start(batch& b, std::int32_t s) {
  const std::int32_t gen = b.at(s).request.gen_length;
  progress& p = progress_.at(s);
  p = {};
  p.steps = steps_for(settings_.method, gen, settings_.steps, settings_.tokens_per_step);
  p.per_step = gen / p.steps;
}

float time_schedule::transfer_fraction(std::int32_t steps, float eps, std::int32_t i) {
  // torch.linspace fills its two halves from the two ends.
  const float delta = (eps - 1.0F) / static_cast<float>(steps);
  const auto t = [&](std::int32_t j) {
    return j < (steps + 1) / 2 ? 1.0F + delta * static_cast<float>(j)
                               : eps - delta * static_cast<float>(steps - j);
  };
  return 1.0F - t(i + 1) / t(i);
}

sequence_step time_schedule::plan(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  const progress& p = progress_.at(s);
  sequence_step step = whole_canvas(q);
  const std::int32_t masks = b.count(s, q.prompt_length, q.length, state_masked);
  if (settings_.confidence_threshold) {
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
                            std::int32_t committed) {
  progress& p = progress_.at(s);
  if (settings_.confidence_threshold) {
    p.carried = std::max(0, step.quota - committed);
    // Refused tokens of the last step get one step more, again and again until none is refused.
    if (p.step + 1 == p.steps && p.carried > 0) {
      p.per_step = 0;
      ++p.steps;
    }
  }
  if (++p.step == p.steps) finish(b.at(s));
}

}  // namespace unmask
