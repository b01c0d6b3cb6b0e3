// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What moves a decoding from step to step without the host (kernels/block_run.cpp defines it). The
// rules are the host's own (kernels/block_cycle.h, kernels/focus_budget.h); a warp finds out what
// they ask about a sequence.
#pragma once

#include "kernels/cuda/groups.h"
#include "kernels/ops.h"
#include "kernels/token_state.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int run_threads = 256;

struct advance_params {
  block_run run;
  const std::int32_t* judged_begin;  // null: plan only
  std::int32_t* committed;
  const std::int32_t* canvas;
  std::int64_t canvas_stride;
  std::uint8_t* state;
  std::int64_t state_stride;
};

UNMASK_DEVICE int masks_of(const warp_group& warp, const std::uint8_t* state, int first, int n) {
  return warp.count(n, [&](int i) { return state[first + i] == state_masked; });
}

// As first_stop(), by a warp.
UNMASK_DEVICE int first_stop_of(const warp_group& warp, const block_rules& rules,
                                const block_record& r, const std::int32_t* canvas) {
  const position_range range = stop_range(rules, r);
  int found = range.last;
  for (int p = range.first + warp.rank(); p < range.last; p += warp.size()) {
    for (int i = 0; i < rules.stop_count; ++i) {
      if (canvas[p] == rules.stop_ids[i] && p < found) found = p;
    }
  }
  found = group_min(warp, found);
  return found < range.last ? found : -1;
}

// One block; its warps take the sequences in turn. Every lane keeps the whole record, so that all
// agree; lane 0 writes.
UNMASK_KERNEL void UNMASK_THREADS(run_threads) advance_blocks_kernel(advance_params p) {
  constexpr int warps = run_threads / warp_size;
  shared_allocator shared;
  const shared_array<std::int32_t> ends = shared.take<std::int32_t>(warps);
  const shared_array<std::int32_t> goes = shared.take<std::int32_t>(warps);
  const warp_group warp;
  const block_rules& rules = p.run.rules;
  std::int32_t over = 0, any = 0;
  for (int s = warp_index(); s < p.run.sequences; s += warps) {
    block_record r = p.run.record[s];
    std::uint8_t* state = p.state + s * p.state_stride;
    const bool stepped = r.running != 0 && r.finished == 0 && p.judged_begin != nullptr;
    if (stepped) {
      const auto kind = static_cast<step_kind>(p.run.step.kind[s]);
      const std::int32_t committed = p.committed[s];
      const int masks = masks_of(warp, state, r.history, rules.block);
      const int stop = first_stop_of(warp, rules, r, p.canvas + s * p.canvas_stride);
      count_block_step(r, kind, p.judged_begin[s + 1] - p.judged_begin[s], committed);
      if (observe_block(rules, r, kind, committed, masks, stop)) {
        for (int i = warp.rank(); i < rules.block; i += warp.size()) {
          state[r.history - rules.block + i] = state_cached;
        }
      }
      if (block_is_stuck(rules, r)) r.stuck = 1;
    }
    const bool runs = r.running != 0 && r.finished == 0;
    const int masks = runs ? masks_of(warp, state, r.history, rules.block) : 0;
    warp.sync();  // every lane has read what lane 0 now writes
    if (warp.rank() == 0) {
      write_block_step(rules, r, masks, p.run.step, s);
      if (stepped) {
        ++p.run.noise_step[s];
        p.run.record[s] = r;
      }
      if (p.judged_begin != nullptr) p.committed[s] = 0;
    }
    over |= r.running != 0 && (r.finished != 0 || r.stuck != 0) ? 1 : 0;
    any |= runs ? 1 : 0;
  }
  if (warp.rank() == 0) {
    ends[warp_index()] = over;
    goes[warp_index()] = any;
  }
  sync_block();
  if (thread_index() != 0) return;
  for (int w = 1; w < warps; ++w) {
    over |= ends[w];
    any |= goes[w];
  }
  run_state& run = *p.run.run;
  if (p.judged_begin != nullptr) ++run.steps;
  run.go = over == 0 && any != 0 && run.steps < run.limit ? 1 : 0;
}

struct pick_windows_params {
  std::int32_t sequences;
  step_arrays step;
  std::uint32_t kinds;
  std::int32_t* to_first;
  std::int32_t* to_last;
};

UNMASK_KERNEL void pick_windows_kernel(pick_windows_params p) {
  const int s = static_cast<int>(block_index() * block_size() + thread_index());
  if (s >= p.sequences) return;
  const bool in = (p.kinds >> static_cast<unsigned>(p.step.kind[s]) & 1U) != 0;
  p.to_first[s] = in ? p.step.first[s] : 0;
  p.to_last[s] = in ? p.step.last[s] : 0;
}

struct tally_params {
  row_set rows;
  key_set keys;
  std::int64_t* row_count;
  std::int64_t* key_count;
};

// A warp for each sequence.
UNMASK_KERNEL void tally_kernel(tally_params p) {
  const warp_group warp;
  const int s = static_cast<int>(block_index());
  const int first = p.rows.row_begin[s], last = p.rows.row_begin[s + 1];
  long long keys = 0;
  for (int r = first + warp.rank(); r < last; r += warp.size()) {
    keys += admitted_keys(p.keys, s, p.rows.position[r]);
  }
  keys = group_sum(warp, keys);
  if (warp.rank() != 0) return;
  p.row_count[s] += last - first;
  p.key_count[s] += keys;
}

struct focus_targets_params {
  row_set rows;
  const std::uint8_t* state;
  std::int64_t stride;
  step_arrays step;
  focus_rules rules;
  focus_record* record;
  focus_targets_out out;
};

// A warp for each sequence.
UNMASK_KERNEL void focus_targets_kernel(focus_targets_params p) {
  const warp_group warp;
  const int s = static_cast<int>(block_index());
  const int first = p.rows.row_begin[s], last = p.rows.row_begin[s + 1];
  const std::uint8_t* state = p.state + s * p.stride;
  const int masks = warp.count(
      last - first, [&](int i) { return state[p.rows.position[first + i]] == state_masked; });
  if (warp.rank() != 0) return;
  const bool in = in_block(p.step, s);
  const int budget = in ? enter_block(p.rules, p.record[s], p.step.first[s]) : 0;
  const bool evicts = in && masks > budget;
  p.out.target[s] = evicts ? budget : 0;
  p.out.budget[s] = budget;
  p.out.first[s] = evicts ? p.step.first[s] : 0;
  p.out.last[s] = evicts ? p.step.last[s] : 0;
  p.out.row_first[s] = evicts ? first : 0;
  p.out.row_last[s] = evicts ? last : 0;
  p.out.processed_end[s] = p.record[s].processed_end;
}

struct focus_record_params {
  std::int32_t sequences;
  step_arrays step;
  focus_rules rules;
  const std::int32_t* end;        // [S] or null
  const std::int32_t* committed;  // [S] or null
  focus_record* record;
};

UNMASK_KERNEL void focus_record_kernel(focus_record_params p) {
  const int s = static_cast<int>(block_index() * block_size() + thread_index());
  if (s >= p.sequences || !in_block(p.step, s)) return;
  focus_record& r = p.record[s];
  if (p.end != nullptr) r.processed_end = larger(r.processed_end, p.end[s]);
  if (p.committed != nullptr) count_decided(p.rules, r, p.committed[s]);
}

}  // namespace unmask::cuda::UNMASK_TARGET
