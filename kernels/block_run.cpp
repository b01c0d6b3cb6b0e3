// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What moves a decoding from step to step, for backends whose memory the host reads and writes: the
// definition of the same operations on a device.
#include <algorithm>

#include "kernels/ops.h"
#include "kernels/token_state.h"

namespace unmask {
namespace {

std::int32_t masks_of(const block_rules& rules, const block_record& r, const std::uint8_t* state) {
  const std::uint8_t* first = state + r.history;
  return static_cast<std::int32_t>(std::count(first, first + rules.block, state_masked));
}

}  // namespace

void ops::repeat_while(const std::int32_t* go, const std::function<void()>& body) const {
  do {
    body();
    synchronize();
  } while (*go != 0);
}

void ops::with_bucket(const std::int32_t* count, std::span<const std::int32_t> bounds,
                      const std::function<void(std::int32_t)>& body) const {
  synchronize();
  const auto bound = std::ranges::lower_bound(bounds, *count);
  if (bound == bounds.end()) throw std::logic_error("with_bucket: more than the last bound");
  if (*bound > 0) body(*bound);
}

void ops::advance_blocks(const block_run& b, const std::int32_t* judged_begin,
                         std::int32_t* committed, const tensor_view& canvas,
                         const tensor_view& state) const {
  bool over = false, any = false;
  for (std::int32_t s = 0; s < b.sequences; ++s) {
    block_record& r = b.record[s];
    if (r.running != 0 && r.finished == 0 && judged_begin != nullptr) {
      std::uint8_t* states = state.row<std::uint8_t>(s);
      const std::int32_t judged = judged_begin[s + 1] - judged_begin[s];
      count_block_step(r, static_cast<step_kind>(b.step.kind[s]), judged, committed[s]);
      if (observe_block(b.rules, r, static_cast<step_kind>(b.step.kind[s]), committed[s],
                        masks_of(b.rules, r, states),
                        first_stop(b.rules, r, canvas.row<std::int32_t>(s)))) {
        std::fill(states + r.history - b.rules.block, states + r.history, state_cached);
      }
      if (block_is_stuck(b.rules, r)) r.stuck = 1;
      ++b.noise_step[s];
    }
    const bool runs = r.running != 0 && r.finished == 0;
    write_block_step(b.rules, r, runs ? masks_of(b.rules, r, state.row<std::uint8_t>(s)) : 0,
                     b.step, s);
    over = over || (r.running != 0 && (r.finished != 0 || r.stuck != 0));
    any = any || runs;
  }
  run_state& run = *b.run;
  if (judged_begin != nullptr) {
    std::fill_n(committed, b.sequences, 0);
    ++run.steps;
  }
  run.go = !over && any && run.steps < run.limit ? 1 : 0;
}

void ops::pick_windows(std::int32_t sequences, const step_arrays& step, std::uint32_t kinds,
                       std::int32_t* to_first, std::int32_t* to_last) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    const bool in = (kinds >> static_cast<std::uint32_t>(step.kind[s]) & 1U) != 0;
    to_first[s] = in ? step.first[s] : 0;
    to_last[s] = in ? step.last[s] : 0;
  }
}

void ops::tally(const row_set& rows, const key_set& keys, std::int64_t* row_count,
                std::int64_t* key_count) const {
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    row_count[s] += rows.row_begin[s + 1] - rows.row_begin[s];
    for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
      key_count[s] += admitted_keys(keys, s, rows.position[r]);
    }
  }
}

void ops::focus_targets(const row_set& rows, const tensor_view& state, const step_arrays& step,
                        const focus_rules& rules, focus_record* record,
                        const focus_targets_out& out) const {
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    const bool in = in_block(step, s);
    const std::int32_t first = rows.row_begin[s], last = rows.row_begin[s + 1];
    const std::uint8_t* states = state.row<std::uint8_t>(s);
    const auto masks = static_cast<std::int32_t>(
        std::count_if(rows.position + first, rows.position + last,
                      [states](std::int32_t p) { return states[p] == state_masked; }));
    const std::int32_t budget = in ? enter_block(rules, record[s], step.first[s]) : 0;
    const bool evicts = in && masks > budget;
    out.target[s] = evicts ? budget : 0;
    out.budget[s] = budget;
    out.first[s] = evicts ? step.first[s] : 0;
    out.last[s] = evicts ? step.last[s] : 0;
    out.row_first[s] = evicts ? first : 0;
    out.row_last[s] = evicts ? last : 0;
    out.processed_end[s] = record[s].processed_end;
  }
}

void ops::focus_processed(std::int32_t sequences, const step_arrays& step, const std::int32_t* end,
                          focus_record* record) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    if (in_block(step, s)) record[s].processed_end = larger(record[s].processed_end, end[s]);
  }
}

void ops::focus_decided(std::int32_t sequences, const step_arrays& step, const focus_rules& rules,
                        const std::int32_t* committed, focus_record* record) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    if (in_block(step, s)) count_decided(rules, record[s], committed[s]);
  }
}

}  // namespace unmask
