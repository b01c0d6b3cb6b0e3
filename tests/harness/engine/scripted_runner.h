// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A synthetic process in place of a model: every request brings the number of forwards each of its
// blocks needs. Schedulers and clocks can be checked against it by hand and by queueing theory.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "harness/engine/batch_runner.h"

namespace unmask {

struct request_script {
  std::int32_t prompt = 0;          // rows of its prefill forward; 0: it needs none
  std::vector<std::int32_t> steps;  // denoising forwards of each block, at least one each
};

class scripted_runner final : public batch_runner {
 public:
  // Blocks of shape.block tokens, as many rows per forward; with shape.commits one more forward
  // between blocks. `pages` of page_size positions.
  scripted_runner(std::int32_t places, pace_shape shape,
                  std::function<request_script(std::size_t)> scripts, std::int32_t pages,
                  std::int32_t page_size = kv_page_size);

  std::int32_t places() const override { return static_cast<std::int32_t>(places_.size()); }
  pace_shape shape() const override { return shape_; }
  std::int32_t pages() const override { return pages_; }
  std::int32_t free_pages() const override { return free_pages_; }
  std::int32_t first_rows(std::size_t request) override;
  std::int32_t admit(std::size_t request, bool grow) override;
  bool prefilling(std::int32_t place) const override { return at(place).prefill > 0; }
  std::int32_t prefill_rows(std::int32_t place) const override { return at(place).prefill; }
  bool reserve(std::int32_t place, std::int32_t forwards) override;
  void forward(std::span<const schedule_action> parts, std::span<place_progress> out) override;
  finished_answer take(std::int32_t place) override;
  void release(std::int32_t place) override;
  void preempt(std::int32_t place, bool keep) override;
  finished_answer forget(std::size_t request) override;

 private:
  struct place_state {
    bool used = false, commit = false;
    std::size_t request = 0, block = 0;
    request_script script;
    std::int32_t prefill = 0, step = 0, pages = 0;
    sequence_counters counters;
  };
  struct kept_state {
    std::size_t block = 0;
    sequence_counters counters;
  };
  const place_state& at(std::int32_t place) const {
    return places_[static_cast<std::size_t>(place)];
  }
  std::int32_t pages_for(std::int64_t positions) const;
  bool take_pages(place_state& p, std::int32_t wanted);

  pace_shape shape_;
  std::function<request_script(std::size_t)> scripts_;
  std::int32_t pages_, free_pages_, page_size_;
  std::vector<place_state> places_;
  std::unordered_map<std::size_t, kept_state> kept_;
};

}  // namespace unmask
