// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of candidates and decisions. Where a choice rests on sums of floats, both
// sides choose from the reference's sums: a near-tie is no fault.
#include <numeric>

#include "kernels/check/checker.h"
#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "kernels/selection.h"

namespace unmask::device_checks {
namespace {

void top_of_many(checker& c) {
  const auto n = static_cast<std::int32_t>(c.size(700, 16384));
  const mirrored score = c.reals({n}), begin = c.ints({0, n}), out_begin = c.ints({0, n / 2});
  const mirrored out = c.empty(dtype::i32, {n / 2});
  c.both([&](const side& s) {
    s.with().run(op::top_indices{1, s.at(begin), s.at<float>(score), s.at(out_begin), s.at(out)});
  });
  c.same("top_indices", std::to_string(n / 2) + " of " + std::to_string(n), out);
}

void find_candidates(checker& c) {
  const std::int64_t sequences = 3, length = c.size(70, 3000);
  const ragged r(c, std::vector<std::int32_t>(3, static_cast<std::int32_t>(length)), 3);
  const mirrored state = c.states(sequences, length);
  const mirrored first = c.ints({0, 5, 11}),
                 last = c.ints(std::vector<std::int32_t>(3, static_cast<std::int32_t>(length)));
  for (const std::int32_t shift : {0, 1}) {
    const mirrored begin = c.empty(dtype::i32, {sequences + 1}),
                   position = c.empty(dtype::i32, {sequences * length}),
                   row = c.empty(dtype::i32, {sequences * length});
    std::int32_t found[2] = {};
    c.both([&](const side& s) {
      found[s.is_device()] = s.with().run(
          op::find_candidates{r.set(s), s(state), one_state(0), s.at(first), s.at(last), shift,
                              s.at(begin), s.at(position), s.at(row)});
    });
    const std::string what = "shift " + std::to_string(shift);
    c.report("find_candidates", what, found[0] == found[1] ? 0 : 2);
    c.same("find_candidates", what + ": begin", begin);
    c.same("find_candidates", what + ": position", position);
    c.same("find_candidates", what + ": row", row);
  }
}

void decide(checker& c) {
  const auto count = static_cast<std::int32_t>(c.size(90, 5000));
  const mirrored begin = c.ints({0, count / 3, count / 3, count}), quota = c.ints({5, 3, 17});
  std::vector<std::int32_t> at(static_cast<std::size_t>(count));
  std::iota(at.begin(), at.end(), 0);
  const mirrored position = c.ints(at);
  const mirrored score = c.reals({count});
  for (std::int32_t i = 0; i < count; ++i) {  // ties, which must go to the lowest index
    score.here.as<float>()[i] = std::round(score.here.as<float>()[i] * 8) / 8;
  }
  c.send(score);
  const mirrored top = c.poisoned(dtype::u8, {count}), above = c.poisoned(dtype::u8, {count});
  const mirrored canvas = c.poisoned(dtype::i32, {3, count}), state = c.states(3, count);
  const mirrored committed = c.ints({0, 0, 0});
  c.both([&](const side& s) {
    const candidate_set candidates{3, count, s.at(begin), s.at(position), s.at(position)};
    s.with().run(
        op::accept_top{candidates, s.at<float>(score), s.at(quota), s.at<std::uint8_t>(top)});
    s.with().run(op::accept_threshold{candidates, s.at<float>(score), 1.0F, false, true,
                                      s.at<std::uint8_t>(above)});
    s.with().run(op::commit{.candidates = candidates,
                            .token = s.at(position),
                            .accept = s.at<std::uint8_t>(above),
                            .canvas = s(canvas),
                            .state = s(state),
                            .counts = {.taken = s.at(committed)}});
  });
  c.same("accept_top", std::to_string(count), top);
  c.same("accept_threshold", std::to_string(count), above);
  c.same("commit", "canvas", canvas);
  c.same("commit", "committed", committed);
}

const register_device_check registered_top_of_many("top_indices", top_of_many);
const register_device_check registered_find_candidates("find_candidates", find_candidates);
const register_device_check registered_decide("accept, commit", decide);

}  // namespace
}  // namespace unmask::device_checks
