// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/harness/engine/scripted_runner.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/engine/loop_runner.h"

namespace unmask {

scripted_runner::scripted_runner(std::int32_t places, pace_shape shape,
                                 std::function<request_script(std::size_t)> scripts,
                                 std::int32_t pages, std::int32_t page_size)
    : shape_(shape),
      scripts_(std::move(scripts)),
      pages_(pages),
      free_pages_(pages),
      page_size_(page_size),
      places_(static_cast<std::size_t>(places)) {
  if (places <= 0 || pages <= 0 || page_size <= 0 || shape.block <= 0) {
    throw usage_error("scripted_runner: places, pages and block must be positive");
  }
}

std::int32_t scripted_runner::pages_for(std::int64_t positions) const {
  return static_cast<std::int32_t>((positions + page_size_ - 1) / page_size_);
}

bool scripted_runner::take_pages(place_state& p, std::int32_t wanted) {
  const std::int32_t more = std::max(wanted - p.pages, 0);
  if (more > free_pages_) return false;
  free_pages_ -= more;
  p.pages += more;
  return true;
}

std::int32_t scripted_runner::first_rows(std::size_t request) {
  const auto kept = kept_.find(request);
  const std::size_t block = kept == kept_.end() ? 0 : kept->second.block;
  return scripts_(request).prompt + static_cast<std::int32_t>(block) * shape_.block;
}

std::int32_t scripted_runner::admit(std::size_t request, bool grow) {
  const auto free = std::ranges::find(places_, false, &place_state::used);
  place_state p;
  p.script = scripts_(request);
  const auto all = static_cast<std::int64_t>(p.script.steps.size()) * shape_.block;
  const std::int32_t needed = pages_for(p.script.prompt + all);
  if (needed > pages_) {
    forget(request);
    return never_fits;
  }
  if (free == places_.end()) return no_room;
  p.used = true;
  p.request = request;
  if (const auto kept = kept_.find(request); kept != kept_.end()) {
    p.block = kept->second.block;
    p.counters = kept->second.counters;
  }
  const std::int32_t done = static_cast<std::int32_t>(p.block) * shape_.block;
  p.prefill = p.script.prompt + done;
  if (!take_pages(p, grow ? std::min(pages_for(p.prefill) + 1, needed) : needed)) return no_room;
  forget(request);
  *free = std::move(p);
  return static_cast<std::int32_t>(free - places_.begin());
}

bool scripted_runner::reserve(std::int32_t place, std::int32_t forwards) {
  place_state& p = places_[static_cast<std::size_t>(place)];
  const std::int32_t blocks = shape_.commits ? (forwards + 1) / 2 : forwards;
  const std::size_t end =
      std::min(p.block + 1 + static_cast<std::size_t>(blocks), p.script.steps.size());
  return take_pages(p, pages_for(p.script.prompt + static_cast<std::int64_t>(end) * shape_.block));
}

void scripted_runner::forward(std::span<const schedule_action> parts,
                              std::span<place_progress> out) {
  for (std::size_t s = 0; s < places_.size(); ++s) {
    if (parts[s] == schedule_action::out) continue;
    place_state& p = places_[s];
    place_progress& o = out[s];
    const bool prefill = p.prefill > 0;
    o = {};
    o.what = prefill    ? forward_kind::prefill
             : p.commit ? forward_kind::commit
                        : forward_kind::denoise;
    o.rows = prefill ? p.prefill : shape_.block;
    o.context = p.script.prompt + static_cast<std::int64_t>(p.block + 1) * shape_.block;
    ++p.counters.forwards;
    p.counters.rows += o.rows;
    if (!prefill) p.counters.decode_rows += o.rows;
    p.counters.prefill_forwards += prefill;
    if (parts[s] == schedule_action::step) {
      if (prefill) {
        p.prefill = 0;
      } else if (p.commit) {
        ++p.counters.commit_forwards;
        p.commit = false;
      } else {
        // Tokens are decided evenly over the forwards of a block, the rest with the last one.
        const std::int32_t steps = std::max(p.script.steps[p.block], 1);
        const std::int32_t each = shape_.block / steps;
        o.candidates = shape_.block - each * p.step;
        o.committed = ++p.step == steps ? o.candidates : each;
        p.counters.committed += o.committed;
        p.counters.head_rows += o.candidates;
        ++p.counters.denoise_steps;
        if (p.step == steps) {
          o.resolved = true;
          p.step = 0;
          ++p.block;
          p.commit = shape_.commits && p.block < p.script.steps.size();
        }
      }
    }
    o.emitted = static_cast<std::int32_t>(p.block) * shape_.block;
    o.finished = p.prefill == 0 && p.block == p.script.steps.size();
  }
}

finished_answer scripted_runner::take(std::int32_t place) {
  const place_state& p = at(place);
  return {std::vector<std::int32_t>(p.block * static_cast<std::size_t>(shape_.block), 0),
          p.counters};
}

finished_answer scripted_runner::forget(std::size_t request) {
  const auto node = kept_.extract(request);
  if (node.empty()) return {};
  const std::size_t tokens = node.mapped().block * static_cast<std::size_t>(shape_.block);
  return {std::vector<std::int32_t>(tokens, 0), node.mapped().counters};
}

void scripted_runner::release(std::int32_t place) {
  place_state& p = places_[static_cast<std::size_t>(place)];
  free_pages_ += p.pages;
  p = {};
}

void scripted_runner::preempt(std::int32_t place, bool keep) {
  place_state& p = places_[static_cast<std::size_t>(place)];
  kept_state kept{keep ? p.block : 0, p.counters};
  kept.counters.committed = static_cast<std::int64_t>(kept.block) * shape_.block;
  kept_[p.request] = kept;
  release(place);
}

}  // namespace unmask
