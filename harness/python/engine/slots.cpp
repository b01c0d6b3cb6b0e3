// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/python/engine/slots.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "harness/base/error.h"
#include "harness/python/engine/arrays.h"

namespace unmask::python {
namespace {

bool can_unmask(const sequence_step& step) {
  return step.active && !step.recompute && step.what == forward_kind::denoise;
}

// Positions, masks and tokens of [first, last), for a function.
void append_range(const batch& b, std::int32_t s, std::int32_t first, std::int32_t last,
                  nb::list& seen) {
  const sequence& q = b.at(s);
  std::vector<std::int64_t> position;
  std::vector<std::uint8_t> masked;
  std::vector<std::int32_t> current;
  for (std::int32_t p = first; p < last; ++p) {
    const bool is_masked = b.state().row<std::uint8_t>(s)[p] == state_masked;
    position.push_back(p - q.prompt_length);
    masked.push_back(is_masked ? 1 : 0);
    current.push_back(is_masked ? -1 : b.canvas().row<std::int32_t>(s)[p]);
  }
  seen.append(array_of(std::move(position)));
  seen.append(array_of(std::move(masked)));
  seen.append(array_of(std::move(current)));
}

class python_pace final : public pace_policy {
 public:
  python_pace(std::unique_ptr<pace_policy> base, std::shared_ptr<const asked_rule> rule)
      : pace_policy(base->shape()), base_(std::move(base)), rule_(std::move(rule)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override {
    return base_->canvas_length(model, request);
  }
  void start(batch& b, std::int32_t s) override { base_->start(b, s); }
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override {
    return base_->prefill_rows(b, s);
  }
  void begin(const batch& b, const schedule_action* parts) override {
    // The limit of a prompt's piece is set on this object; the base plans by it.
    constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();
    if (const std::int32_t piece = prefill_piece(any); piece != any) base_->limit_prefill(piece);
    base_->begin(b, parts);
    own_.resize(static_cast<std::size_t>(b.capacity()));
    choose_chunk(base_->chosen_chunk());
  }
  sequence_step plan(const batch& b, std::int32_t s) override {
    sequence_step step = base_->plan(b, s);
    own_[static_cast<std::size_t>(s)] = step;
    choose_chunk(base_->chosen_chunk());
    const std::int32_t first = std::max(step.candidate_first, b.at(s).prompt_length);
    if (!can_unmask(step) ||
        b.count(s, first, std::max(first, step.candidate_last), state_masked) == 0) {
      return step;
    }
    const nb::gil_scoped_acquire hold;
    rule_->asked([&] {
      nb::list seen = rule_->step(asked_rule::question::pace, b, step, s);
      append_range(b, s, first, step.candidate_last, seen);
      const nb::object answer = rule_->ask("pace", seen);
      const auto reach = nb::cast<std::int64_t>(answer[0]);
      const auto quota = nb::cast<std::int64_t>(answer[1]);
      if (reach > 0) step.candidate_last = end_of_reach(b, s, first, step.candidate_last, reach);
      if (quota >= 0)
        step.quota = static_cast<std::int32_t>(std::min<std::int64_t>(quota, step.last));
    });
    return step;
  }
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    sequence_step planned = step;
    const sequence_step& own = own_[static_cast<std::size_t>(s)];
    planned.candidate_first = own.candidate_first;
    planned.candidate_last = own.candidate_last;
    planned.quota = own.quota;
    base_->observe(b, s, planned, outcome);
  }
  bool closed(const batch& b, std::int32_t s, std::int32_t first,
              std::int32_t last) const override {
    return base_->closed(b, s, first, last);
  }
  std::string learnt() const override { return base_->learnt(); }

 private:
  static std::int32_t end_of_reach(const batch& b, std::int32_t s, std::int32_t first,
                                   std::int32_t last, std::int64_t reach) {
    const std::uint8_t* states = b.state().row<std::uint8_t>(s);
    const auto mask =
        static_cast<std::int64_t>(std::find(states + first, states + last, state_masked) - states);
    return static_cast<std::int32_t>(std::min<std::int64_t>(last, mask + reach));
  }

  std::unique_ptr<pace_policy> base_;
  std::shared_ptr<const asked_rule> rule_;
  std::vector<sequence_step> own_;  // of each batch slot, as the base planned it
};

class python_rows final : public row_policy {
 public:
  python_rows(std::unique_ptr<row_policy> base, std::shared_ptr<const asked_rule> rule)
      : row_policy(base->traits()), base_(std::move(base)), rule_(std::move(rule)) {}

  void select(const batch& b, const step_choice& plan, row_lists& rows) override {
    base_->select(b, plan, rows);
    b.backend().synchronize();
    const auto capacity = static_cast<std::size_t>(b.capacity());
    written_.resize(capacity);
    chosen_.assign(capacity, {});
    for (std::size_t s = 0; s < capacity; ++s) {
      const std::int32_t* begin = rows.begin.as<std::int32_t>() + s;
      const std::int32_t* position = rows.position.as<std::int32_t>();
      chosen_[s].assign(position + begin[0], position + begin[1]);
      const sequence_step& step = plan.of[s];
      if (!step.active) continue;
      const auto place = static_cast<std::int32_t>(s);
      if (b.at(place).step == 0)
        written_[s].assign(static_cast<std::size_t>(b.max_length()), false);
      if (can_unmask(step)) choose(b, step, place);
      for (const std::int32_t p : chosen_[s]) written_[s][static_cast<std::size_t>(p)] = true;
    }
    list(b, rows);
  }

 private:
  void choose(const batch& b, const sequence_step& step, std::int32_t s) {
    std::vector<std::int32_t>& mine = chosen_[static_cast<std::size_t>(s)];
    std::vector<std::uint8_t> flags(static_cast<std::size_t>(step.last - step.first), 0);
    std::vector<std::uint8_t> has(flags.size());
    for (const std::int32_t p : mine) flags[static_cast<std::size_t>(p - step.first)] = 1;
    for (std::size_t i = 0; i < has.size(); ++i) {
      has[i] = written_[static_cast<std::size_t>(s)][static_cast<std::size_t>(step.first) + i];
    }
    const std::int32_t shift = b.model().shifted_logits ? 1 : 0;
    const std::int32_t first = std::max(step.candidate_first, b.at(s).prompt_length);
    const nb::gil_scoped_acquire hold;
    rule_->asked([&] {
      nb::list seen = rule_->step(asked_rule::question::rows, b, step, s);
      append_range(b, s, step.first, step.last, seen);
      seen.append(array_of(flags));
      seen.append(array_of(has));
      seen.append(nb::int_(first - b.at(s).prompt_length));
      seen.append(nb::int_(step.candidate_last - b.at(s).prompt_length));
      seen.append(nb::int_(shift));
      const auto answer =
          nb::cast<nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(
              rule_->ask("rows", seen));
      mine.clear();
      for (std::size_t i = 0; i < std::min(flags.size(), answer.shape(0)); ++i) {
        if (answer.data()[i] != 0) mine.push_back(step.first + static_cast<std::int32_t>(i));
      }
    });
  }

  void list(const batch& b, row_lists& rows) const {
    std::int32_t n = 0;
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      rows.begin.as<std::int32_t>()[s] = n;
      for (const std::int32_t p : chosen_[static_cast<std::size_t>(s)]) {
        rows.position.as<std::int32_t>()[n] = p;
        rows.sequence.as<std::int32_t>()[n++] = s;
      }
    }
    rows.begin.as<std::int32_t>()[b.capacity()] = n;
    rows.rows = n;
  }

  std::unique_ptr<row_policy> base_;
  std::shared_ptr<const asked_rule> rule_;
  std::vector<std::vector<std::int32_t>> chosen_;  // positions, by batch slot
  std::vector<std::vector<bool>> written_;         // K/V that the request in a slot has stored
};

}  // namespace

std::unique_ptr<pace_policy> paced(std::unique_ptr<pace_policy> base,
                                   std::shared_ptr<const asked_rule> rule) {
  return std::make_unique<python_pace>(std::move(base), std::move(rule));
}

std::unique_ptr<row_policy> chosen_rows(std::unique_ptr<row_policy> base, const cache_policy& cache,
                                        std::shared_ptr<const asked_rule> rule) {
  const row_traits& rows = base->traits();
  constexpr std::int32_t some = 64;
  const bool keeps = cache.storage(0, some).layer_slots >= some && !cache.traits().evicts;
  if (!keeps || !rows.narrows_at.empty() || rows.partial_rows || rows.most_views(1) > 0 ||
      rows.carries) {
    throw usage_error(rule->method() +
                      ": its base does not keep the KV of a position that a function "
                      "leaves out; take one with a KV cache of all positions");
  }
  return std::make_unique<python_rows>(std::move(base), std::move(rule));
}

}  // namespace unmask::python
