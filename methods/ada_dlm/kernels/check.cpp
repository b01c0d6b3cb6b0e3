// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of Ada-DLM's frozen tokens.
#include "kernels/check/checker.h"
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/focus/kernels/eviction.h"

namespace unmask::device_checks {
namespace {

void freeze(checker& c) {
  const std::int64_t sequences = 2, length = 64;
  const mirrored state = c.states(sequences, length),
                 flags = c.empty(dtype::u8, {sequences, length});
  const mirrored first = c.ints({0, 32}), last = c.ints({64, 64});
  const auto count = static_cast<std::int32_t>(sequences * length);
  const mirrored begin = c.ints({0, count / 2, count});
  std::vector<std::int32_t> at(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) at[static_cast<std::size_t>(i)] = i % (count / 2);
  const mirrored position = c.ints(at), score = c.reals({count}), rank = c.ints({7, 20});
  const mirrored history = c.empty(dtype::f32, {sequences, length, 4});
  const mirrored accept = c.poisoned(dtype::u8, {count});
  c.both([&](const side& s) {
    s.with().run(op::mark_kv_final{static_cast<std::int32_t>(sequences), s(state), s.at(first),
                                   s.at(last), true, s(flags)});
    const candidate_set candidates{static_cast<std::int32_t>(sequences), count, s.at(begin),
                                   s.at(position), s.at(position)};
    s.with().run(op::push_history{candidates, s.at<float>(score), true, s(history)});
    s.with().run(op::accept_two_centroids{
        candidates, s(history), s.at(rank), {}, s.at<std::uint8_t>(accept)});
  });
  c.same("mark_kv_final", "right neighbour", flags);
  c.compare("push_history", "four steps", history, 0, no_difference);
  c.same("accept_two_centroids", "squared euclidean", accept);
}

const register_device_check registered_freeze("mark_kv_final, accept_two_centroids", freeze);

}  // namespace
}  // namespace unmask::device_checks
