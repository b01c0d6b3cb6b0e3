// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The step of one of several ranks. What ranks compare behind it: 8 bytes of what it computed, decided and
// recorded. Ranks that differ would go on, and add rows that mean different positions.
#include <optional>
#include <string>

#include "harness/base/ranks/group.h"
#include "harness/decode/step_loop_impl.h"
#include "harness/profile/phases.h"

namespace unmask {
namespace {

class fnv {  // FNV-1a over 32-bit words
 public:
  void add(std::int64_t word) {
    hash_ = (hash_ ^ static_cast<std::uint32_t>(word)) * 0x100000001B3U;
  }
  void add(const std::int32_t* first, const std::int32_t* last) {
    for (; first != last; ++first) add(*first);
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325U;
};

// Every sum over ranks is a phase with the bytes that it brings, while somebody listens to phases.
class sums_as_phases final : public gather_listener {
 public:
  sums_as_phases(rank_group& ranks, const std::int64_t& layer)
      : ranks_(ranks), layer_(layer), before_(ranks.tell(current_listener() ? this : nullptr)) {}
  ~sums_as_phases() override { ranks_.tell(before_); }
  sums_as_phases(const sums_as_phases&) = delete;
  sums_as_phases& operator=(const sums_as_phases&) = delete;

  void begin() override { range_.emplace(profile_phase::across_ranks, layer_); }
  void end(std::uint64_t received) override {
    current_listener()->work(profile_phase::across_ranks, {0, 0, static_cast<double>(received)});
    range_.reset();
  }

 private:
  rank_group& ranks_;
  const std::int64_t& layer_;
  gather_listener* before_;
  std::optional<phase_range> range_;
};

}  // namespace

void step_loop::impl::step_of_rank(rank_group& ranks) {
  {
    const sums_as_phases phases(ranks, layer_now);
    forward();
    layer_now = -1;
    decide();
  }
  compare_ranks(ranks);
}

// The plan of sequence s and its seed, its rows, the tokens of its candidates, and what the step left behind.
// Of a head in pieces each rank draws for its own tokens, so that unequal seeds would give equal tokens.
std::uint64_t step_loop::impl::digest_of(std::int32_t s) const {
  const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
  fnv digest;
  digest.add(step.active ? 1 : 0);
  if (!step.active) return digest.value();
  for (const std::int32_t n : {static_cast<std::int32_t>(step.what), step.first, step.last,
                               step.candidate_first, step.candidate_last, step.quota,
                               step.kv_length, step.block_first, step.block_last, step.step}) {
    digest.add(n);
  }
  const std::uint64_t seed = state.seeds()[s];
  digest.add(static_cast<std::int64_t>(seed));
  digest.add(static_cast<std::int64_t>(seed >> 32));
  const std::int32_t* begin = entered.begin.as<std::int32_t>();
  const auto* position = entered.position.as<std::int32_t>();
  digest.add(position + begin[s], position + begin[s + 1]);
  const std::int32_t* left = rows.begin.as<std::int32_t>();  // behind what was narrowed
  digest.add(rows.position.as<std::int32_t>() + left[s],
             rows.position.as<std::int32_t>() + left[s + 1]);
  const std::int32_t* of = found.begin.as<std::int32_t>();
  for (std::int32_t i = of[s]; i < of[s + 1]; ++i) {
    digest.add(found.position.as<std::int32_t>()[i]);
    digest.add(found.token.as<std::int32_t>()[i]);
  }
  const std::uint8_t* states = state.state().row<std::uint8_t>(s);
  for (std::int32_t p = step.first; p < step.last; ++p) digest.add(states[p]);
  const std::vector<std::int32_t> tokens = state.tokens(s, step.first, step.last);
  digest.add(tokens.data(), tokens.data() + tokens.size());
  return digest.value();
}

void step_loop::impl::compare_ranks(rank_group& ranks) const {
  const phase_range range(profile_phase::across_ranks, -1);
  fnv digest;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const std::uint64_t one = digest_of(s);
    digest.add(static_cast<std::int64_t>(one));
    digest.add(static_cast<std::int64_t>(one >> 32));
  }
  fnv recorded;
  recorded.add(graphs.counts().direct);
  recorded.add(graphs.counts().replayed);
  digest.add(static_cast<std::int64_t>(recorded.value()));
  if (ranks.first_other(digest.value()) == 0) {
    if (ranks.difference() == 0) return;
    ranks.give_up("ranks 0 and " + std::to_string(ranks.difference()) +
                  " computed other values in step " + std::to_string(step_index) +
                  ": the row is void");
  }
  if (const int other = ranks.first_other(recorded.value()); other != 0) {
    ranks.give_up("ranks 0 and " + std::to_string(other) + " recorded other layers by step " +
                  std::to_string(step_index) +
                  ": the row is void; `graphs` = \"off\" records none");
  }
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const int other = ranks.first_other(digest_of(s));
    if (other == 0) continue;
    ranks.give_up("ranks 0 and " + std::to_string(other) + " took different decisions in step " +
                  std::to_string(step_index) + " (request " +
                  std::to_string(state.at(s).request.id) + "): the row is void");
  }
  ranks.give_up("ranks took different decisions in step " + std::to_string(step_index) +
                ": the row is void");
}

}  // namespace unmask
