// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations that decide candidates, and of those that score them (operation_test.h says
// what follows from them).
#include "kernels/decisions.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const declared top([](operands& at, const batch& b) {
  const scene s(at, b);
  return op::accept_top{s.candidates, s.score, of_each(at, b, [](int q) { return q * 9 - 1; }),
                        at.out<std::uint8_t>(s.n)};
});
const auto top_of_many = for_each_of<int>({1, 2048, 4999}, [](int quota) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b, many);
    return op::accept_top{s.candidates, s.score, of_each(at, b, [&](int) { return quota; }),
                          at.out<std::uint8_t>(s.n)};
  });
});
const auto thresholds = for_each_of(numbers(6), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    const float threshold = i < 4 ? 0.5F : i == 4 ? 2.0F : -infinity;
    return op::accept_threshold{s.candidates, s.score,    threshold,
                                i % 2 == 1,   i / 2 == 1, at.out<std::uint8_t>(s.n)};
  });
});
const auto merged = for_each_of<bool>({false, true}, [](bool both) {
  return declared([=](operands& at, const batch& b) {
    const counts n = lengths(b);
    return op::merge_accept{static_cast<std::int32_t>(total(n)),
                            at.in(random_numbers<std::uint8_t>(b, n, 1, 0, 1)), both,
                            at.inout(n, random_numbers<std::uint8_t>(b, n, 2, 0, 1))};
  });
});
const declared uniform([](operands& at, const batch& b) {
  const scene s(at, b);
  return op::uniform_scores{s.candidates, noise(at, b), at.out<float>(s.n)};
});
const auto commits = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    const std::int64_t length = 2200;
    const counts one = same(b, 1);
    const auto count = [&] { return at.inout(one, indices(b.size(), 3)); };
    const bool revises = i >= 2;  // decided positions are candidates too
    op::commit commit{s.candidates,
                      at.in(random_numbers<std::int32_t>(b, s.n, 1, 0, 9)),
                      at.in(random_numbers<std::uint8_t>(b, s.n, 2, 0, revises ? 4 : 1)),
                      i % 2 == 0 ? -1 : 5,
                      7,
                      at.out_rows(one, {length}, 0, indices(b.size() * 2200, 5)),
                      at.out_rows(one, {length}, 0, bytes(b.size() * 2200, revises ? 1 : 0)),
                      at.out_rows(one, {length}, 0, indices(b.size() * 2200, 5)),
                      {count()}};
    if (revises) commit.counts = {commit.counts.taken, count(), count(), count()};
    return commit;
  });
});
const auto combined = for_each_of<bool>({false, true}, [](bool two) {
  return declared([=](operands& at, const batch& b) {
    const counts n = lengths(b);
    const auto normal = [&](int array) { return at.normal(b, n, {1}, array).as<float>(); };
    return op::combine_scores{static_cast<std::int32_t>(total(n)), normal(1), 0.37F,
                              two ? normal(2) : nullptr,           -1.3F,     at.out<float>(n)};
  });
});
const declared combined_in_place([](operands& at, const batch& b) {
  const counts n = lengths(b);
  std::size_t i = 0;
  float* x = at.inout(n, joined<float>(b, [&](int s) { return tied(s, n[i++], 1, false); }));
  return op::combine_scores{static_cast<std::int32_t>(total(n)), x, 0.37F, nullptr, 0, x};
});
const declared rounded([](operands& at, const batch& b) {
  const counts n = lengths(b);
  std::size_t i = 0;
  const auto x = joined<float>(b, [&](int s) { return tied(s, n[i++], 1, s != 12); });
  return op::round_bf16{static_cast<std::int32_t>(total(n)), at.inout(n, x)};
});

}  // namespace
}  // namespace unmask::test
