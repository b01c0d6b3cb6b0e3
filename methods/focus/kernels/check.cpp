// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of FOCUS: attention received, the masked rows that stay, the rows dropped.
#include "kernels/check/checker.h"

#include <numeric>

#include "kernels/selection.h"
#include "methods/focus/kernels/eviction.h"

namespace unmask::device_checks {
namespace {

// FOCUS: attention received, the masked rows that stay, the rows dropped.
void evict(checker& c) {
  const std::int64_t heads = c.size(4, 32), kv_heads = c.size(2, 8), dim = c.size(64, 128);
  const ragged r(c, {40, 7, 64}, 2);
  const mirrored q = c.reals({r.rows, heads, dim}), k = c.reals({r.rows, kv_heads, dim});
  std::vector<std::int32_t> order(static_cast<std::size_t>(r.rows));
  std::iota(order.begin(), order.end(), 0);
  const mirrored index = c.ints(order);
  const mirrored score = c.poisoned({r.rows});
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  c.both([&](const side& s) {
    s.with().run(op::importance{r.sequences, s.at(r.begin), s.at(index), s(q), s(k), scale,
                                s.at<float>(score)});
  });
  c.compare("importance", c.text({r.rows, heads, dim}), score, 1e-3, 1e-4);
  c.send(score);
  const mirrored target = c.ints({9, 3, 0}), processed = c.ints({4, 0, 0});
  for (const bool by_deviation : {true, false}) {
    const mirrored accept = c.poisoned(dtype::u8, {r.rows});
    const mirrored begin = c.empty(dtype::i32, {r.sequences + 1}),
                   owner = c.empty(dtype::i32, {r.rows}), place = c.empty(dtype::i32, {r.rows}),
                   kept = c.empty(dtype::i32, {r.rows});
    std::int32_t left[2] = {};
    c.both([&](const side& s) {
      const candidate_set candidates{r.sequences, r.rows, s.at(r.begin), s.at(r.place),
                                     s.at(index)};
      retain_params params;
      params.target = s.at(target);
      params.processed = s.at(processed);
      params.by_deviation = by_deviation;
      s.with().run(op::retain{candidates, s.at<float>(score), params, s.at<std::uint8_t>(accept)});
      left[s.is_device()] =
          s.with().run(op::drop_rows{r.set(s), candidates, s.at<std::uint8_t>(accept), s.at(begin),
                                     s.at(owner), s.at(place), s.at(kept)});
    });
    const std::string what = by_deviation ? "by deviation" : "by target";
    c.same("retain", what, accept);
    c.report("drop_rows", what, left[0] == left[1] ? 0 : 2);
    c.same("drop_rows", what + ": begin", begin);
    c.same("drop_rows", what + ": kept", kept);
    c.same("drop_rows", what + ": position", place);
  }
}

const register_device_check registered_evict("importance, retain, drop_rows", evict);

}  // namespace
}  // namespace unmask::device_checks
