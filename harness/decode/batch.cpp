// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/batch.h"

#include <algorithm>

namespace unmask {

const char* name_of(forward_kind p) {
  constexpr const char* names[] = {"prefill", "denoise", "commit"};
  return names[static_cast<std::size_t>(p)];
}

batch::batch(const unmask::backend& backend, const model_config& model, std::int32_t capacity,
             std::int32_t max_length)
    : backend_(&backend),
      model_(&model),
      capacity_(capacity),
      max_length_(max_length),
      canvas_(backend.allocate(dtype::i32, {capacity, max_length}, memory_use::host_visible)),
      state_(backend.allocate(dtype::u8, {capacity, max_length}, memory_use::host_visible)),
      seed_(backend.allocate(dtype::u64, {capacity}, memory_use::host_visible)),
      step_(backend.allocate(dtype::i32, {capacity}, memory_use::host_visible)),
      sequences_(static_cast<std::size_t>(capacity)),
      occupied_(static_cast<std::size_t>(capacity), false),
      scored_(static_cast<std::size_t>(capacity)) {}

void batch::take_scored(std::vector<double>& flops) {
  flops = scored_;
  std::ranges::fill(scored_, 0.0);
}

void batch::admit(std::int32_t s, const sequence_request& request, std::int32_t length) {
  const auto prompt = static_cast<std::int32_t>(request.prompt.size());
  if (prompt == 0) throw usage_error("a request needs a prompt of at least one token");
  if (length > max_length_) {
    throw usage_error("prompt and response take " + std::to_string(length) +
                      " positions, more than the " + std::to_string(max_length_) +
                      " the batch was made for");
  }
  for (std::int32_t id : request.prompt) {
    if (id >= model_->vocabulary) {  // below 0: a row of a picture, which the loop has checked
      throw usage_error("prompt token " + std::to_string(id) + " is outside the vocabulary of " +
                        model_->name);
    }
  }
  sequence& q = at(s);
  q = sequence{};
  q.request = request;
  q.prompt_length = prompt;
  q.length = length;
  q.serial = ++admitted_;
  occupied_[static_cast<std::size_t>(s)] = true;
  std::int32_t* canvas = canvas_.row<std::int32_t>(s);
  std::uint8_t* state = state_.row<std::uint8_t>(s);
  std::copy(request.prompt.begin(), request.prompt.end(), canvas);
  const std::int32_t filler = model_->mask_id >= 0 ? model_->mask_id : std::max(model_->eos_id, 0);
  std::fill(canvas + prompt, canvas + length, filler);
  std::fill(state, state + prompt, state_decoded);
  std::fill(state + prompt, state + length, state_masked);
  if (held_) std::fill_n(held_.row<std::int32_t>(s), max_length_, -1);
  seed_.as<std::uint64_t>()[s] = request.seed;
  step_.as<std::int32_t>()[s] = 0;
}

void batch::keep_held_tokens() {
  held_ = backend_->allocate(dtype::i32, {capacity_, max_length_}, memory_use::host_visible);
}

void batch::clear(std::int32_t s) {
  occupied_[static_cast<std::size_t>(s)] = false;
}

std::int32_t batch::count(std::int32_t s, std::int32_t first, std::int32_t last,
                          std::uint8_t want) const {
  const std::uint8_t* state = state_.row<std::uint8_t>(s);
  return static_cast<std::int32_t>(std::count(state + first, state + last, want));
}

void batch::set_state(std::int32_t s, std::int32_t first, std::int32_t last, std::uint8_t to) {
  std::uint8_t* state = state_.row<std::uint8_t>(s);
  std::fill(state + first, state + last, to);
}

void batch::reopen(std::int32_t s, std::int32_t position) {
  set_state(s, position, position + 1, state_masked);
  --at(s).counters.committed;
  ++at(s).counters.reopened;
}

void batch::advance_step(std::int32_t s) {
  ++at(s).step;
  ++step_.as<std::int32_t>()[s];
}

std::vector<std::int32_t> batch::tokens(std::int32_t s, std::int32_t first,
                                        std::int32_t last) const {
  const std::int32_t* canvas = canvas_.row<std::int32_t>(s);
  std::vector<std::int32_t> tokens(canvas + first, canvas + last);
  if (!held_) return tokens;
  const std::int32_t* held = held_.row<std::int32_t>(s);
  for (std::int32_t p = first; p < last; ++p) {
    if (held[p] >= 0) tokens[static_cast<std::size_t>(p - first)] = held[p];
  }
  return tokens;
}

}  // namespace unmask
