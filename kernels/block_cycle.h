// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The life of a block in block diffusion: denoising steps until it has no masks, commit forwards,
// the next block, the end of the answer. Integers alone, in one source for the two that drive it:
// the host, step by step (methods/baselines/block_diffusion/block_pace), and a device, many steps
// long (ops::advance_blocks). The rules are those of LMDeploy's dLLM engine and of SDAR's
// generate.py.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace unmask {

// What a sequence does in a step.
enum class step_kind : std::int32_t {
  none,      // no part in it
  prefill,   // its prompt enters the cache
  denoise,   // tokens are decided
  commit,    // the first forward of a complete block
  recommit,  // a later one
  again      // its last rows once more, deciding nothing
};

// A set of kinds, for ops::pick_windows.
constexpr std::uint32_t kind_bit(step_kind kind) {
  return 1U << static_cast<std::uint32_t>(kind);
}
inline constexpr std::uint32_t commit_kinds =
    kind_bit(step_kind::commit) | kind_bit(step_kind::recommit);
// Steps of a block whose prompt is cached, but for those that are only made once more.
inline constexpr std::uint32_t block_kinds = kind_bit(step_kind::denoise) | commit_kinds;

// What each sequence of a step does, where operations read it: [S] each, 0 where it takes no part.
struct step_arrays {
  std::int32_t* first = nullptr;  // positions in play
  std::int32_t* last = nullptr;
  std::int32_t* candidate_first = nullptr;  // where tokens may be decided
  std::int32_t* candidate_last = nullptr;
  std::int32_t* kv_length = nullptr;    // keys visible: slots [0, kv_length)
  std::int32_t* quota = nullptr;        // tokens the schedule wants decided
  std::int32_t* block_first = nullptr;  // first position of the block being decoded
  std::int32_t* kind = nullptr;         // step_kind
};

// The arrays one behind the other in memory for step_array_count * sequences integers.
inline constexpr std::int32_t step_array_count = 8;
inline step_arrays step_arrays_in(std::int32_t* memory, std::int32_t sequences) {
  const auto at = [&](std::int32_t i) { return memory + std::int64_t{i} * sequences; };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
}

struct block_rules {
  std::int32_t block = 32;           // tokens per block
  std::int32_t steps = 0;            // denoising steps per block; 0: block
  std::int32_t commit_forwards = 1;  // of a complete block
  bool engine = true;                // stop rules and quota: LMDeploy's; false: SDAR's
  bool commit_last = false;          // the last block of a request is committed too
  bool stop_in_prompt_block = true;  // stop ids count in a first block shared with the prompt
  std::int32_t stop_count = 0;
  const std::int32_t* stop_ids = nullptr;  // [stop_count] in the backend's memory
};

// Where a sequence stands. Positions are absolute.
struct block_record {
  // Of the request.
  std::int32_t prompt_length = 0, gen_length = 0;
  std::int32_t length = 0;  // prompt and canvas, whole blocks
  // Of the block [history, history + block).
  std::int32_t history = 0;
  std::int32_t step = 0;     // denoising steps made in it
  std::int32_t idle = 0;     // of those, the last ones that decided nothing
  std::int32_t commits = 0;  // commit forwards made
  // Of the answer.
  std::int32_t answer_end = 0;  // > 0: it ends here once its last block is committed
  std::int32_t finished = 0;
  std::int32_t output_end = 0;  // when finished
  // Of a run without the host (ops::advance_blocks).
  std::int32_t running = 0;  // it takes part
  std::int32_t stuck = 0;    // block_is_stuck() ended the run
  std::int64_t forwards = 0, commit_forwards = 0, denoise_steps = 0, committed = 0, judged = 0;
};

struct position_range {
  std::int32_t first = 0, last = 0;
};

UNMASK_HOST_DEVICE inline std::int32_t smaller(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}
UNMASK_HOST_DEVICE inline std::int32_t larger(std::int32_t a, std::int32_t b) {
  return a > b ? a : b;
}

// Where a stop id ends the answer when the present block is complete; empty: nowhere.
UNMASK_HOST_DEVICE inline position_range stop_range(const block_rules& rules,
                                                    const block_record& r) {
  const std::int32_t end = r.history + rules.block;
  if (rules.stop_count == 0) return {};
  if (!rules.engine) return {smaller(larger(r.prompt_length, r.history), end), end};
  if (!rules.stop_in_prompt_block && r.history < r.prompt_length) return {};
  const std::int32_t last = smaller(end, r.prompt_length + r.gen_length);
  return {smaller(larger(r.history, r.prompt_length), last), last};
}

// Position of the first stop id in stop_range(), or -1; canvas: the tokens of the sequence.
UNMASK_HOST_DEVICE inline std::int32_t first_stop(const block_rules& rules, const block_record& r,
                                                  const std::int32_t* canvas) {
  const position_range range = stop_range(rules, r);
  for (std::int32_t p = range.first; p < range.last; ++p) {
    for (std::int32_t i = 0; i < rules.stop_count; ++i) {
      if (canvas[p] == rules.stop_ids[i]) return p;
    }
  }
  return -1;
}

// LMDeploy: end of the answer when the present block is complete, or 0 when the request goes on.
// `stop`: first_stop().
UNMASK_HOST_DEVICE inline std::int32_t engine_answer_end(const block_rules& rules,
                                                         const block_record& r, std::int32_t stop) {
  const std::int32_t end = r.history + rules.block, budget_end = r.prompt_length + r.gen_length;
  if (stop >= 0) return stop + 1;
  return end >= budget_end ? smaller(end, budget_end) : 0;
}

// The block is cached and the next one opens, or the answer ends.
UNMASK_HOST_DEVICE inline void open_next_block(const block_rules& rules, block_record& r,
                                               std::int32_t stop) {
  r.history += rules.block;
  r.step = r.idle = r.commits = 0;
  if (rules.engine) {
    r.finished = r.answer_end > 0 ? 1 : 0;
    r.output_end = r.answer_end;
  } else if (stop >= 0 || r.history >= r.length) {
    r.finished = 1;
    r.output_end = r.history;  // this loop returns whole blocks
  }
}

// After a step other than a prefill. committed: tokens it decided; masked: masks the block has
// left; stop: first_stop(). True where the block is now cached: [history - block,
// history) of the record as it is then.
UNMASK_HOST_DEVICE inline bool observe_block(const block_rules& rules, block_record& r,
                                             step_kind kind, std::int32_t committed,
                                             std::int32_t masked, std::int32_t stop) {
  if (kind == step_kind::commit || kind == step_kind::recommit) {
    if (++r.commits < rules.commit_forwards) return false;
    open_next_block(rules, r, stop);
    return true;
  }
  ++r.step;
  r.idle = committed > 0 ? 0 : r.idle + 1;
  if (rules.engine && masked == 0) {
    r.answer_end = engine_answer_end(rules, r, stop);
    if (r.answer_end > 0 && !rules.commit_last) {
      r.finished = 1;
      r.output_end = r.answer_end;
    }
  }
  return false;
}

// A model that keeps predicting the mask token under a rule that recognises masks by their id.
UNMASK_HOST_DEVICE inline bool block_is_stuck(const block_rules& rules, const block_record& r) {
  return r.idle > rules.block;
}

UNMASK_HOST_DEVICE inline std::int32_t block_quota(const block_rules& rules,
                                                   const block_record& r) {
  const std::int32_t steps = rules.steps > 0 ? rules.steps : rules.block;
  // SDAR's own loop hands the remainder of block / steps to the first steps.
  if (!rules.engine && r.step < rules.block % steps) return rules.block / steps + 1;
  return larger(1, rules.block / steps);
}

// The next step of a sequence whose prompt is cached; masked: masks its block has.
UNMASK_HOST_DEVICE inline step_kind next_kind(const block_record& r, std::int32_t masked) {
  if (masked > 0) return step_kind::denoise;
  return r.commits == 0 ? step_kind::commit : step_kind::recommit;
}

// Counts a step of a run without the host.
UNMASK_HOST_DEVICE inline void count_block_step(block_record& r, step_kind kind,
                                                std::int32_t judged, std::int32_t committed) {
  ++r.forwards;
  if (kind == step_kind::denoise) {
    ++r.denoise_steps;
  } else {
    ++r.commit_forwards;
  }
  r.judged += judged;
  r.committed += committed;
}

// The next step of sequence s; masked: masks its block has. None for one that takes no part or has
// finished.
UNMASK_HOST_DEVICE inline void write_block_step(const block_rules& rules, const block_record& r,
                                                std::int32_t masked, const step_arrays& step,
                                                std::int32_t s) {
  const bool runs = r.running != 0 && r.finished == 0;
  const step_kind kind = runs ? next_kind(r, masked) : step_kind::none;
  const std::int32_t first = runs ? r.history : 0, last = runs ? first + rules.block : 0;
  step.first[s] = step.candidate_first[s] = step.block_first[s] = first;
  step.last[s] = step.kv_length[s] = last;
  step.candidate_last[s] = kind == step_kind::denoise ? last : first;
  step.quota[s] = runs ? block_quota(rules, r) : 0;
  step.kind[s] = static_cast<std::int32_t>(kind);
}

UNMASK_HOST_DEVICE inline bool in_block(const step_arrays& step, std::int32_t s) {
  return (block_kinds >> static_cast<std::uint32_t>(step.kind[s]) & 1U) != 0;
}

}  // namespace unmask
