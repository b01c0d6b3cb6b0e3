// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/freedave/branches.h"

#include <algorithm>
#include <stdexcept>

namespace unmask::freedave {

void branch_state::make_room(const batch& b) {
  if (guess) return;
  const auto ints = [&](std::initializer_list<std::int64_t> shape) {
    return b.backend().allocate(dtype::i32, shape, memory_use::host_visible);
  };
  guess = ints({b.capacity(), b.max_length()});
  turn = ints({b.capacity(), b.max_length()});
  for (tensor* t : {&chosen, &left, &left_in_block}) *t = ints({b.capacity()});
  for (shared_vector<std::int32_t>* v : {&branches, &width, &first_only, &block_last}) {
    v->resize(static_cast<std::size_t>(b.capacity()));
  }
}

// Rows [first, last) of a branch whose rows begin at `origin`.
void branch_rows::add_view(const batch& b, std::int32_t s, std::int32_t branch, std::int32_t first,
                           std::int32_t last, std::int32_t origin, row_lists& rows) const {
  row_views& views = rows.views;
  if (rows.rows + last - first > rows.position.view().rows()) {
    throw std::logic_error("branch_rows: more rows than the lists hold");
  }
  views.begin.as<std::int32_t>()[views.count] = rows.rows;
  views.sequence.as<std::int32_t>()[views.count++] = s;
  const std::uint8_t* state = b.state().row<std::uint8_t>(s);
  const std::int32_t *turn = shared_->turn.row<std::int32_t>(s),
                     *guess = shared_->guess.row<std::int32_t>(s);
  const auto holds_guess = [&](std::int32_t p) {
    return branch > 0 && p < b.at(s).length && state[p] == state_masked && turn[p] <= branch;
  };
  const std::int32_t shift = shared_->set.shifted ? 1 : 0;
  // A branch guesses inside its window; what a prefix cache repeats behind the block has no turn yet.
  const std::int32_t end = shared_->block_last[static_cast<std::size_t>(s)];
  const bool whole = shared_->set.causal;
  for (std::int32_t p = first; p < last; ++p, ++rows.rows) {
    const auto in_window = [&](std::int32_t q) { return whole || q < end; };
    const bool own = in_window(p) && holds_guess(p);
    const bool decided = in_window(p + shift) && holds_guess(p + shift);
    rows.position.as<std::int32_t>()[rows.rows] = p;
    rows.sequence.as<std::int32_t>()[rows.rows] = s;
    rows.slot.as<std::int32_t>()[rows.rows] = shared_->slot(b.at(s), branch, p, origin);
    views.token.as<std::int32_t>()[rows.rows] = own ? guess[p] : -1;
    views.judges.as<std::uint8_t>()[rows.rows] = decided ? 0 : one_state(state_masked);
  }
}

void branch_rows::select(const batch& b, const step_choice& plan, row_lists& rows) {
  shared_->make_room(b);
  rows.rows = rows.views.count = 0;
  rows.slots_differ = true;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    rows.begin.as<std::int32_t>()[s] = rows.rows;
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    const std::int32_t branches =
        step.recompute ? 1 : shared_->branches[static_cast<std::size_t>(s)];
    const std::int32_t piece =
        shared_->set.causal ? shared_->set.block_length : step.last - step.first;
    for (std::int32_t i = 0; i < branches; ++i) {
      for (std::int32_t first = step.first; first < step.last; first += piece) {
        add_view(b, s, i, first, first + piece, step.first, rows);
      }
    }
  }
  rows.begin.as<std::int32_t>()[b.capacity()] = rows.rows;
}

void branch_keys::see(const batch& b, const step_choice& plan, row_lists& rows) const {
  const row_views& views = rows.views;
  const auto *begin = views.begin.as<std::int32_t>(), *of = views.sequence.as<std::int32_t>(),
             *position = rows.position.as<std::int32_t>(), *slot = rows.slot.as<std::int32_t>();
  auto* range = views.range.as<std::int32_t>();
  const auto add = [&](std::int32_t first, std::int32_t last) {
    *range++ = first;
    *range++ = std::max(first, last);
  };
  for (std::int32_t v = 0; v < views.count; ++v) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(of[v])];
    const sequence& q = b.at(of[v]);
    const std::int32_t row = begin[v],
                       end = (v + 1 < views.count ? begin[v + 1] : rows.rows) - 1;  // its last row
    const bool canvas = slot[row] == position[row];
    if (canvas) {
      add(0, shared_->set.causal ? position[end] + 1 : q.length);
      add(0, 0);
      add(0, 0);
      continue;
    }
    // The branch's rows begin where its window does, in this block or one before it.
    add(0, step.first);
    add(slot[row] - (position[row] - step.first), slot[end] + 1);
    add(shared_->set.causal ? 0 : step.last, shared_->set.causal ? 0 : q.length);
  }
}

}  // namespace unmask::freedave
