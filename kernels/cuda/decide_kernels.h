// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are committed (decisions.cpp of the reference). One block for
// each sequence; a sequence of at most 64 candidates is decided by its first warp, with the scores
// in registers and the flags in ballots. A candidate whose score is -infinity or NaN is not
// eligible.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/groups.h"
#include "kernels/decisions.h"
#include "kernels/random.h"

namespace unmask::cuda::UNMASK_TARGET {

UNMASK_KERNEL void accept_top_kernel(op::accept_top p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  with_keys(p.score + first, n, block, [&](const auto& group, const auto& key) {
    take_top(group, n, key, p.quota[s], p.accept + first);
  });
}

UNMASK_KERNEL void accept_threshold_kernel(op::accept_threshold p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  const float* score = p.score + first;
  with_keys(score, n, block, [&](const auto& group, const auto& key) {
    std::uint64_t best = 0;
    for (int i = group.rank(); p.always_best && i < n; i += group.size()) {
      const std::uint64_t mine = order_value(key(i), i);
      if (key(i) > lowest_key && mine > best) best = mine;
    }
    if (p.always_best) best = group_max(group, best);
    for (int i = group.rank(); i < n; i += group.size()) {
      const bool passes = p.strict ? score[i] > p.threshold : score[i] >= p.threshold;
      const bool is_best = best != 0 && i == index_of(best);
      p.accept[first + i] = key(i) > lowest_key && (passes || is_best) ? 1 : 0;
    }
  });
}

// The draw of candidate c of sequence s.
UNMASK_DEVICE double draw_of(const noise_source& noise, const candidate_set& candidates, int s,
                             int c) {
  const std::uint64_t key = stream_key(noise.seed[s], static_cast<std::uint32_t>(noise.step[s]),
                                       static_cast<std::uint32_t>(candidates.position[c]));
  return uniform_open(key, score_draw);
}

// One block for each sequence. The largest draws round to 1 in float32; they stay below it.
UNMASK_KERNEL void uniform_scores_kernel(op::uniform_scores p) {
  const int s = static_cast<int>(block_index());
  const int last = p.candidates.begin[s + 1];
  for (int c = p.candidates.begin[s] + static_cast<int>(thread_index()); c < last;
       c += static_cast<int>(block_size())) {
    const float u = static_cast<float>(draw_of(p.noise, p.candidates, s, c));
    p.score[c] = u < 0x1.fffffep-1F ? u : 0x1.fffffep-1F;
  }
}

UNMASK_KERNEL void merge_accept_kernel(op::merge_accept p) {
  const int step = static_cast<int>(grid_size() * block_size());
  for (int i = static_cast<int>(block_index() * block_size() + thread_index()); i < p.count;
       i += step) {
    const std::uint8_t mine = p.accept[i], other = p.also[i];
    p.accept[i] = p.both ? (mine & other) : (mine | other);
  }
}

struct commit_params {
  candidate_set candidates;
  const std::int32_t* token;
  const std::uint8_t* accept;
  std::int32_t mask_id;
  std::int32_t mask_token;
  std::int32_t* canvas;
  std::int64_t canvas_stride;
  std::uint8_t* state;
  std::int64_t state_stride;
  std::int32_t* held;
  std::int64_t held_stride;
  decision_counts counts;
};

// What candidate c of sequence s comes to: its decision, keep where a mask stays one by its id, and
// refused_decision where it does not fit the state of its position.
constexpr std::uint8_t refused_decision = 255;
UNMASK_DEVICE std::uint8_t decision_of(const commit_params& p, int s, int c) {
  const std::uint8_t what = p.accept[c];
  const bool decides = decides_mask(what);
  if (what == decision_keep || (decides && p.token[c] == p.mask_id)) return decision_keep;
  if (what == decision_hold && p.held == nullptr) return refused_decision;
  const std::uint8_t state = p.state[s * p.state_stride + p.candidates.position[c]];
  return state == (decides ? state_masked : state_decoded) ? what : refused_decision;
}

// Carries out one decision. Each position is a candidate once, so no other lane touches it.
UNMASK_DEVICE void carry_out(const commit_params& p, int s, int c, std::uint8_t what) {
  const std::int64_t position = p.candidates.position[c];
  std::int32_t& token = p.canvas[s * p.canvas_stride + position];
  if (what == decision_take || what == decision_replace) token = p.token[c];
  if (what == decision_hold) p.held[s * p.held_stride + position] = p.token[c];
  if (what == decision_reopen) token = p.mask_token;
  if (what != decision_replace) {
    p.state[s * p.state_stride + position] = what == decision_reopen ? state_masked : state_decoded;
  }
}

// One warp for each sequence: first the counts of what must fit the old states, then the changes.
UNMASK_KERNEL void commit_kernel(commit_params p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  const auto count = [&](std::int32_t* counts, std::uint8_t kind) {
    if (counts == nullptr) return;
    const int found = group.count(n, [&](int i) { return decision_of(p, s, first + i) == kind; });
    if (group.rank() == 0) counts[s] += found;
  };
  count(p.counts.replaced, decision_replace);
  count(p.counts.reopened, decision_reopen);
  count(p.counts.refused, refused_decision);
  const int taken = group.count(n, [&](int i) {
    const std::uint8_t what = decision_of(p, s, first + i);
    if (what == decision_keep || what == refused_decision) return false;
    carry_out(p, s, first + i, what);
    return decides_mask(what);
  });
  if (group.rank() == 0) p.counts.taken[s] += taken;
}

// Products of two floats are exact in float64: one rounding at the sum, one at the store.
UNMASK_KERNEL void combine_scores_kernel(op::combine_scores p) {
  const int step = static_cast<int>(grid_size() * block_size());
  for (int i = static_cast<int>(block_index() * block_size() + thread_index()); i < p.count;
       i += step) {
    const double mine = static_cast<double>(p.a[i]) * static_cast<double>(p.wa);
    const double other =
        p.b != nullptr ? static_cast<double>(p.b[i]) * static_cast<double>(p.wb) : 0.0;
    p.out[i] = static_cast<float>(mine + other);
  }
}

UNMASK_KERNEL void round_bf16_kernel(op::round_bf16 p) {
  const int step = static_cast<int>(grid_size() * block_size());
  for (int i = static_cast<int>(block_index() * block_size() + thread_index()); i < p.count;
       i += step) {
    p.x[i] = bf16_to_float(bf16_of(p.x[i]));
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
