// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Makes requests progress. The engine decides which requests take part; this interface is
// implemented by the step loop (loop_runner.h) and, in tests, by a script that replaces the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/decode/step_loop.h"

namespace unmask {

// What one forward pass did for the request in one batch slot.
struct place_progress {
  forward_kind what = forward_kind::denoise;
  std::int32_t rows = 0;        // computed, at layer 0
  std::int32_t candidates = 0;  // masks that could be unmasked
  std::int32_t committed = 0;   // tokens unmasked
  std::int32_t emitted = 0;     // tokens of the answer complete so far, whole blocks only
  std::int64_t context = 0;     // keys visible
  bool resolved = false;        // this forward left no mask in the request's block
  bool finished = false;
};

struct finished_answer {
  std::vector<std::int32_t> output;
  sequence_counters counters;
  bool repeats = false;  // ended where it began to repeat itself (run_keys.h: repeat_window)
};

enum : std::int32_t {
  no_room = -1,    // no free batch slot, or not enough free pages: ask again later
  never_fits = -2  // longer than the batch or than all pages together
};

class batch_runner {
 public:
  virtual ~batch_runner() = default;
  virtual std::int32_t places() const = 0;
  virtual pace_shape shape() const = 0;
  virtual std::int32_t pages() const = 0;
  virtual std::int32_t free_pages() const = 0;

  // Returns how many positions the first forward pass of a waiting request would compute.
  virtual std::int32_t first_rows(std::size_t request) = 0;
  // Puts a request into a free batch slot, with pages for prompt and response or, with `grow`, for
  // the prompt and one more page. Returns the slot, no_room or never_fits.
  virtual std::int32_t admit(std::size_t request, bool grow) = 0;
  virtual bool prefilling(std::int32_t place) const = 0;
  virtual std::int32_t prefill_rows(std::int32_t place) const = 0;
  // Takes the pages that the next `forwards` forward passes of a batch slot need. Returns false if
  // too few are free.
  virtual bool reserve(std::int32_t place, std::int32_t forwards) = 0;
  // Makes one forward pass. `parts` and `out` are [places]; entries of requests without a part in
  // it are not written.
  virtual void forward(std::span<const schedule_action> parts, std::span<place_progress> out) = 0;
  // Tokens per request that the method chose for the last forward; 0: it chooses none.
  virtual std::int32_t chosen_chunk() const { return 0; }
  // Returns what the request in a batch slot has so far: the tokens before its first block with
  // masks, and its counters.
  virtual finished_answer take(std::int32_t place) = 0;
  // Frees the batch slot and its pages.
  virtual void release(std::int32_t place) = 0;
  // Frees them; the request is admitted again later. With `keep` its finished blocks are then a
  // part of the prompt; without, it starts anew.
  virtual void preempt(std::int32_t place, bool keep) = 0;
  // Returns what was kept of a preempted request that will not come back, and drops it.
  virtual finished_answer forget(std::size_t request) = 0;
};

}  // namespace unmask
