// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What makes requests progress. The engine decides who runs; behind this interface stands either
// the step loop (loop_runner.h), or in tests a script in the place of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/decode/step_loop.h"

namespace unmask {

// What one forward did for one place.
struct place_progress {
  forward_kind what = forward_kind::denoise;
  std::int32_t rows = 0;        // computed, at layer 0
  std::int32_t candidates = 0;  // masks that could be decided
  std::int32_t committed = 0;   // decided
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
  no_room = -1,    // no free place, or not enough free pages: ask again later
  never_fits = -2  // longer than the batch or than all pages together
};

class batch_runner {
 public:
  virtual ~batch_runner() = default;
  virtual std::int32_t places() const = 0;
  virtual pace_shape shape() const = 0;
  virtual std::int32_t pages() const = 0;
  virtual std::int32_t free_pages() const = 0;

  // Rows the first forward of a waiting request would compute.
  virtual std::int32_t first_rows(std::size_t request) = 0;
  // Put a request into a free place, with pages for its whole canvas or, when `grow`, for its
  // prompt and a page beyond. The place, or no_room, or never_fits.
  virtual std::int32_t admit(std::size_t request, bool grow) = 0;
  virtual bool prefilling(std::int32_t place) const = 0;
  virtual std::int32_t prefill_rows(std::int32_t place) const = 0;
  // Pages for the next `forwards` forwards of a place. False when too few are free.
  virtual bool reserve(std::int32_t place, std::int32_t forwards) = 0;
  // One forward. `parts` and `out` [places]; entries of places that stay out are not written.
  virtual void forward(std::span<const schedule_action> parts, std::span<place_progress> out) = 0;
  // Tokens per request that the method chose for the last forward; 0: it chooses none.
  virtual std::int32_t chosen_chunk() const { return 0; }
  // What the request in a place has come to: decided tokens up to its first open block, and work.
  virtual finished_answer take(std::int32_t place) = 0;
  // Free the place and its pages.
  virtual void release(std::int32_t place) = 0;
  // Free them, to be admitted again later. `keep`: with the blocks decided so far as a part of its
  // prompt; otherwise from its beginning.
  virtual void preempt(std::int32_t place, bool keep) = 0;
  // Forget what was kept of a preempted request that will not come back, and return it.
  virtual finished_answer forget(std::size_t request) = 0;
};

}  // namespace unmask
