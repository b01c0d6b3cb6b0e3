// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The step loop as the engine's worker: real policies and, unless the loop is dry, a real model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "harness/engine/batch_runner.h"

namespace unmask {

// When an answer ends because it repeats itself: the stop of FOCUS' throughput runs (Appendix F.1;
// the numbers are those of its released benchmark script, which runs with a window of 32).
// An answer of n tokens repeats itself when its last three stretches of b tokens are alike, for some
// b from 8 to `window`; while min(window, n / 3) is below 8, for some b from 1 to that.
class repetition_watch {
 public:
  explicit repetition_watch(std::int32_t window = 0);  // 0: nothing repeats

  // The next token of the answer; true when the answer repeats itself from here on.
  bool add(std::int32_t token);

 private:
  std::int32_t window_;
  std::vector<std::int32_t> tokens_;
  // [b]: how many tokens, up to the last, equal the one b before them.
  std::vector<std::int64_t> alike_;
};

// Makes request i when it is needed; called again after a preemption.
using request_source = std::function<sequence_request(std::size_t)>;
// Makes the rows of the picture that request i shows (step_loop::admit), once, when it is at the head of
// the queue; no data: it shows none.
using picture_source = std::function<tensor(std::size_t)>;

class loop_runner final : public batch_runner {
 public:
  // `prefill_chunk`: rows of one prompt in one prefill forward; 0: whole prompts. Usage error when
  // this method's pace cannot take a prompt in pieces. `repeat_window`: of repetition_watch, which
  // is shown each block of an answer when it is complete; a request that repeats itself is finished.
  // `pictures`: may be empty.
  loop_runner(const transformer& model, recipe method, const loop_limits& limits,
              request_source requests, std::int32_t prefill_chunk = 0,
              std::int32_t repeat_window = 0, picture_source pictures = {});

  std::int32_t places() const override { return static_cast<std::int32_t>(places_.size()); }
  pace_shape shape() const override { return shape_; }
  std::int32_t pages() const override { return loop_.cache().pages(); }
  std::int32_t free_pages() const override { return loop_.cache().free_pages(); }
  std::int32_t first_rows(std::size_t request) override;
  std::int32_t admit(std::size_t request, bool grow) override;
  bool prefilling(std::int32_t place) const override;
  std::int32_t prefill_rows(std::int32_t place) const override;
  bool reserve(std::int32_t place, std::int32_t forwards) override;
  void forward(std::span<const schedule_action> parts, std::span<place_progress> out) override;
  std::int32_t chosen_chunk() const override { return loop_.pace().chosen_chunk(); }
  finished_answer take(std::int32_t place) override;
  void release(std::int32_t place) override;
  void preempt(std::int32_t place, bool keep) override;
  finished_answer forget(std::size_t request) override;

  step_loop& loop() { return loop_; }

 private:
  struct place_state {
    std::size_t request = 0;
    std::int32_t resumed = 0;   // tokens generated before a preemption
    std::int32_t complete = 0;  // absolute end of the blocks decided from the left
    std::int32_t used = 0;      // positions touched so far
    repetition_watch watch;
    std::int32_t watched = 0;   // absolute end of what it has seen
    std::int32_t repeats = -1;  // absolute end of an answer that repeats itself
  };
  std::int32_t padded(std::int32_t positions) const;
  const sequence_request& request_of(std::size_t request);
  tensor_view pictures_of(std::size_t request);
  // Move place_state::complete on; true when it moved.
  bool complete_blocks(std::int32_t place);
  // Absolute end of the answer as far as it is complete.
  std::int32_t answer_end(std::int32_t place) const;
  void watch_repetition(std::int32_t place);

  const model_config& config_;
  std::int32_t max_length_, prefill_chunk_, repeat_window_;
  step_loop loop_;
  pace_shape shape_;
  request_source requests_;
  picture_source pictures_;
  std::vector<place_state> places_;
  std::unordered_map<std::size_t, finished_answer> kept_;  // of preempted requests
  std::unordered_map<std::size_t, tensor>
      shown_;  // until their request is over: it may be preempted
  // The request at the head of the queue, made once however often it is refused.
  std::optional<std::pair<std::size_t, sequence_request>> head_;
};

// Rows the model must be made for: the widest forward of `places` of these requests. Prompts enter
// up to `prefill_tokens` rows at a time (0: any number), or in pieces of `prefill_chunk`; `mixed`:
// in the forwards of those who decode already.
std::int32_t engine_rows(const model_config& model, const pace_policy& pace,
                         const std::vector<sequence_request>& requests, std::int32_t places,
                         std::int32_t prefill_tokens, std::int32_t prefill_chunk,
                         bool mixed = false);

}  // namespace unmask
