// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The phases of a decoding step, the same for every method and every backend. A phase_range is an
// NVTX range in the domain "unmask" (nvtx.h) and, when there is a listener in this process, an event:
// the phase clock (phase_clock.h) adds up times, CUPTI tags what is launched (cupti_trace.h).
//
//   measure                                  one pass of `unmask profile`; payload: repetition
//     run                                    what wall_seconds covers; payload: requests
//       vision                               the tower of a request's picture; payload: its rows
//       step                                 payload: step of this loop, from 0
//         plan                               what each sequence does; payload: step
//         prefill | denoise | commit_forward | mixed_forward      payload: sequences taking part
//           selection                        rows of this forward; payload: -1
//           embed                            payload: rows
//           layer                            payload: layer, as in all phases inside it
//             project cache_update selection attention attention_output feed_forward accounting
//               across_ranks             inside any of these: a sum over several ranks
//           final_norm                       payload: rows
//           recorded                         payload: rows; on a GPU, in place of embed, layers and
//                                            final_norm, which ran inside it when it was recorded
//         candidates                         which rows may decide a token; payload: -1
//         lm_head decide commit              payload: candidates
//         settle accounting                  payload: -1
//         across_ranks                       what ranks compare behind a step; payload: -1
//
// Without a tool and without a listener a range costs two tests of a pointer (about a nanosecond).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/profile/nvtx.h"

namespace unmask {

enum class profile_phase : std::uint8_t {
  measure,
  run,
  step,
  plan,
  prefill,         // a forward in which every sequence takes its prompt in
  denoise,         // decides tokens
  commit_forward,  // passes decided tokens once more, so that their K/V is exact
  mixed_forward,   // sequences of one batch that do different things
  selection,       // what a method adds: choosing rows and keys, scoring, evicting, copying
  embed,
  layer,
  project,       // norm, Q, K and V, rotary embedding
  cache_update,  // K/V (or stored layer outputs) written, read back or gathered
  attention,
  attention_output,  // its projection
  feed_forward,      // norm and feed-forward, dense or routed
  final_norm,
  candidates,
  lm_head,  // logits and confidence of the candidates
  decide,
  commit,  // decided tokens enter the canvas
  settle,  // what is cached now
  accounting,
  recorded,     // layers that run as one recorded piece (a CUDA graph)
  vision,       // a picture becomes rows of a prompt
  across_ranks  // waiting for the bytes of other ranks and copying them
};
inline constexpr std::size_t profile_phases = 26;

const char* name_of(profile_phase phase);         // "attention", ...: the name of the NVTX range
range_category category_of(profile_phase phase);  // of the NVTX range
bool is_container(profile_phase phase);  // holds other phases: measure, run, step, a forward, layer
profile_phase phase_named(const char* name);  // usage error for a name that is none

// Work of one phase instance, counted by the loop, never by a method.
struct phase_work {
  double rows = 0;
  double flops = 0;  // analytic; multiply-adds count as two
  // Least traffic: every operand read once and every result written once, nothing kept between
  // phases. Empty: not known (what a method does to select).
  std::optional<double> bytes;
};

// Sees every phase of the thread that it was set on, in order, properly nested.
class phase_listener {
 public:
  virtual ~phase_listener() = default;
  virtual void enter(profile_phase phase, std::int64_t payload) = 0;
  virtual void leave(profile_phase phase) = 0;
  // Work that belongs to `phase` of the forward in progress; may come after the phase has ended.
  virtual void work(profile_phase phase, const phase_work& done) { (void)phase, (void)done; }
};

// The listener of this thread; null: none.
phase_listener* current_listener();

// Sets the listener of this thread and puts the one before back at its end.
class listening {
 public:
  explicit listening(phase_listener* listener);
  ~listening();
  listening(const listening&) = delete;
  listening& operator=(const listening&) = delete;

 private:
  phase_listener* before_;
};

class phase_range {
 public:
  phase_range(profile_phase phase, std::int64_t payload);
  ~phase_range();
  phase_range(const phase_range&) = delete;
  phase_range& operator=(const phase_range&) = delete;

 private:
  profile_range range_;
  phase_listener* listener_;
  profile_phase phase_;
};

// What a step of the loop held, for the counter tracks of a trace. The loop gathers it only while
// somebody listens.
struct step_numbers {
  std::int64_t batch = 0;              // sequences that took part
  std::int64_t rows = 0;               // that entered layer 0
  std::int64_t late_rows = 0;          // that reached the last layer
  std::int64_t keys = 0;               // visible slots, summed over the sequences
  std::int64_t kv_bytes = 0;           // of pages in use, all layers
  std::int64_t masked = 0;             // positions still masked, after the step
  std::int64_t committed = 0;          // tokens decided by it
  std::vector<std::int64_t> requests;  // that took part, by number or place
};

// A phase_listener that wants to know.
class step_listener {
 public:
  virtual ~step_listener() = default;
  virtual void step(const step_numbers& held) = 0;
};

// The listener of this thread, if it is one; null: nobody asks.
inline step_listener* current_step_listener() {
  return dynamic_cast<step_listener*>(current_listener());
}

}  // namespace unmask
