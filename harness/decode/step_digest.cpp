// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What ranks compare behind every step: 8 bytes of what it computed and decided. Ranks that differ
// would go on, and add rows that mean different positions.
#include <string>

#include "harness/base/ranks/group.h"
#include "harness/decode/step_loop_impl.h"

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

}  // namespace

// The plan of sequence s, its rows, the tokens of its candidates, and what the step left behind.
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
  const auto differs_from_first = [&](const std::vector<std::uint64_t>& all) {
    for (std::size_t r = 1; r < all.size(); ++r) {
      if (all[r] != all[0]) return r;
    }
    return std::size_t{0};
  };
  const auto compare = [&](std::uint64_t mine) {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks.size()));
    ranks.gather(&mine, sizeof mine, all.data());
    return differs_from_first(all);
  };
  fnv digest;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const std::uint64_t one = digest_of(s);
    digest.add(static_cast<std::int64_t>(one));
    digest.add(static_cast<std::int64_t>(one >> 32));
  }
  if (compare(digest.value()) == 0) return;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const std::size_t other = compare(digest_of(s));
    if (other == 0) continue;
    ranks.give_up("ranks 0 and " + std::to_string(other) + " took different decisions in step " +
                  std::to_string(step_index) + " (request " +
                  std::to_string(state.at(s).request.id) + "): the row is void");
  }
  ranks.give_up("ranks took different decisions in step " + std::to_string(step_index) +
                ": the row is void");
}

}  // namespace unmask
