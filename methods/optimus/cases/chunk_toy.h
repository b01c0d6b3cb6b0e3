// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// One request decoded without a model: each position is ready when enough of its left neighbours
// were decided before the step. The real chunk builder lays out the steps.
#pragma once

#include <functional>
#include <vector>

#include "harness/decode/batch.h"
#include "methods/optimus/chunk_builder.h"

namespace unmask::testing {

struct toy_step {
  std::vector<std::int32_t> chunk, refresh, commit;
};

struct toy_run {
  std::vector<toy_step> steps;
  int slots = 0, commits = 0;
};

struct toy_settings {
  chunk_settings chunk;
  std::int32_t size = 32;
  bool out_block = false;
  std::int32_t neighbours = 2;  // difficulties count how many of these must be decided
};

// `difficulty` of every position, whole blocks. `watch` sees each step: its chunk, the masks of it
// and which of them were ready on their own, and whether masks of the block stayed outside.
using toy_watch = std::function<void(const toy_step&, const std::vector<std::int32_t>& masks,
                                     const std::vector<std::uint8_t>& ready, bool complete)>;

inline toy_run run_toy(const std::vector<int>& difficulty, const toy_settings& settings,
                       const toy_watch& watch = {}) {
  const auto length = static_cast<std::int32_t>(difficulty.size());
  const std::int32_t block = settings.chunk.block;
  std::vector<std::uint8_t> state(difficulty.size(), state_masked), settles(difficulty.size());
  std::vector<std::int32_t> begin(2), sequence(difficulty.size()), position = sequence,
                                                                   slot = sequence;
  const tensor_view states = make_view(state.data(), dtype::u8, {1, length});
  chunk_builder builder(cpu_backend(), settings.chunk);
  toy_run run;
  std::int32_t history = 0;
  while (history < length && run.steps.size() < 100000) {
    const std::int32_t last =
        settings.out_block ? std::min(history + 2 * block, length) : history + block;
    std::vector<chunk_request> requests{{history, last, length, settings.size, false}};
    const std::int32_t n = builder.build(
        states, requests,
        {begin.data(), sequence.data(), position.data(), slot.data(), settles.data()});
    toy_step step;
    std::vector<std::int32_t> masks;
    std::vector<std::uint8_t> ready;
    std::int32_t outside = 0;
    for (std::int32_t p = history; p < requests[0].last; ++p) outside += state[p] == state_masked;
    for (std::int32_t r = 0; r < n; ++r) {
      const std::int32_t p = position[r];
      step.chunk.push_back(p);
      if (state[p] == state_decoded) {
        step.refresh.push_back(p);
        continue;
      }
      int decided = 0;
      for (std::int32_t k = 1; k <= settings.neighbours; ++k) {
        decided += p - k < 0 || state[p - k] != state_masked;
      }
      masks.push_back(p);
      ready.push_back(decided >= difficulty[static_cast<std::size_t>(p)] ? 1 : 0);
      --outside;
    }
    for (std::size_t j = 0; j < masks.size(); ++j) {
      if (ready[j] != 0) step.commit.push_back(masks[j]);
    }
    if (step.commit.empty() && !masks.empty()) step.commit.push_back(masks.front());
    if (watch) watch(step, masks, ready, outside == 0);
    for (const std::int32_t p : step.commit) state[p] = state_decoded;
    for (std::int32_t r = 0; r < n; ++r) {
      if (settles[r] != 0) state[position[r]] = state_cached;
    }
    run.slots += n;
    run.commits += static_cast<int>(step.commit.size());
    run.steps.push_back(std::move(step));
    while (history < length && std::count(state.begin() + history, state.begin() + history + block,
                                          state_cached) == block) {
      history += block;
    }
  }
  return run;
}

}  // namespace unmask::testing
