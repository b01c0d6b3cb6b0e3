// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/carried_outputs.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/rows.h"

namespace unmask {
namespace {

constexpr std::int32_t longest_block = 256;  // candidates of one sequence in one step

std::size_t at(std::int32_t place, std::int32_t max_length, std::int32_t position) {
  return static_cast<std::size_t>(place) * static_cast<std::size_t>(max_length) +
         static_cast<std::size_t>(position);
}

}  // namespace

std::int64_t carried_outputs::room(std::int32_t sequences, std::int32_t max_length) {
  return std::int64_t{sequences} * std::min(max_length, longest_block);
}

carried_outputs::carried_outputs(const backend& backend, std::int32_t sequences,
                                 std::int32_t max_length, std::int64_t rows, std::int64_t hidden)
    : backend_(&backend), max_length_(max_length) {
  const std::int64_t places = std::int64_t{sequences} * max_length;
  outputs_ = backend.allocate(dtype::f32, {places, hidden});
  index_.resize(static_cast<std::size_t>(rows));
  source_.resize(static_cast<std::size_t>(room(sequences, max_length)));
  begin_.resize(static_cast<std::size_t>(sequences) + 1);
  position_.resize(index_.size() + source_.size());
  sequence_.resize(position_.size());
  exact_.assign(static_cast<std::size_t>(places), 0);
}

void carried_outputs::forget(std::int32_t place) {
  std::fill_n(exact_.begin() + static_cast<std::ptrdiff_t>(at(place, max_length_, 0)), max_length_,
              std::uint8_t{0});
}

void carried_outputs::keep(const batch& b, const row_lists& rows, const tensor& final, bool dry) {
  const auto* sequence = rows.sequence.as<std::int32_t>();
  const auto* position = rows.position.as<std::int32_t>();
  for (std::int32_t r = 0; r < rows.rows; ++r) {
    const std::size_t to = at(sequence[r], max_length_, position[r]);
    index_[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(to);
    exact_[to] = b.state().row<std::uint8_t>(sequence[r])[position[r]] != state_masked ? 1 : 0;
  }
  if (dry || rows.rows == 0) return;
  backend_->run(op::scatter_rows{final.view().first(rows.rows), index_.data(), outputs_.view()});
}

// The rows of positions [candidate_first - 1, candidate_last - 1) of place s, ascending.
void carried_outputs::list(const batch& b, const sequence_step& step, const row_lists& rows,
                           std::int32_t s) {
  if (!step.active || step.candidate_last <= step.candidate_first) return;
  const auto* computed = rows.position.as<std::int32_t>();
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  const std::uint8_t* state = b.state().row<std::uint8_t>(s);
  for (std::int32_t p = std::max(step.candidate_first, 1); p < step.candidate_last; ++p) {
    if (state[p] != state_masked) continue;
    const std::int32_t* found =
        std::lower_bound(computed + begin[s], computed + begin[s + 1], p - 1);
    auto place = static_cast<std::int32_t>(found - computed);
    if (place == begin[s + 1] || *found != p - 1) {
      if (state[p - 1] == state_masked || exact_[at(s, max_length_, p - 1)] == 0) continue;
      if (static_cast<std::size_t>(appended_) == source_.size()) {
        throw std::logic_error("carried_outputs: more candidates than a block has");
      }
      source_[static_cast<std::size_t>(appended_)] =
          static_cast<std::int32_t>(at(s, max_length_, p - 1));
      place = rows.rows + appended_++;
    }
    position_[place_.size()] = p - 1;
    sequence_[place_.size()] = s;
    place_.push_back(place);
  }
}

row_set carried_outputs::read(const batch& b, const step_choice& plan, const row_lists& rows,
                              const tensor& final, bool dry) {
  keep(b, rows, final, dry);
  appended_ = 0;
  place_.clear();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    begin_[static_cast<std::size_t>(s)] = static_cast<std::int32_t>(place_.size());
    list(b, plan.of[static_cast<std::size_t>(s)], rows, s);
  }
  begin_.back() = static_cast<std::int32_t>(place_.size());
  if (appended_ > 0 && !dry) {
    backend_->run(
        op::gather_rows{outputs_.view(), source_.data(), final.view().slice(rows.rows, appended_)});
  }
  return {b.capacity(), begin_.back(), begin_.data(), sequence_.data(), position_.data(), nullptr};
}

}  // namespace unmask
