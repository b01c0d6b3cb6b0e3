// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the freeze rule and of the delayed cache (operation_test.h says what follows from them).
#include "methods/ada_dlm/kernels/freeze.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto pushed = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b, length_of, true, false);
    const std::int64_t m = i % 2 == 0 ? 1 : 3, length = 2200;
    std::vector<float> before =
        random_numbers<float>(b, same(b, length * m), 1, 0, 2);  // 0: never scored
    return op::push_history{s.candidates, s.score, i / 2 == 1,
                            at.out_rows(same(b, 1), {length, m}, 0, before)};
  });
});
// Every rule with every option, over scopes that cut sequences; means of tiers are summed in the
// reference's order, so that even they agree bit by bit.
const auto frozen = for_each_of(numbers(40), [](int run) {
  return declared([=](operands& at, const batch& b) {
    const auto size = [&](int s) { return run % 8 == 0 ? length_of(s) % 256 : s * 11 % 41; };
    const scene s(at, b, size);
    std::mt19937 rng = rng_of(run, 7);
    const int m = draw(rng, 1, 5), length = 800;
    const auto history = joined<float>(b, [&](int q) {
      std::mt19937 own = rng_of(q, 8 + run);
      std::vector<float> h(static_cast<std::size_t>(length * m));
      for (float& x : h) {
        x = run % 2 == 0 ? static_cast<float>(draw(own, 1, 16)) / 16
                         : std::uniform_real_distribution<float>(0.01F, 1.0F)(own);
        if (draw(own, 0, 60) == 0) x = draw(own, 0, 1) == 0 ? -infinity : nan;
      }
      return h;
    });
    freeze_params p;
    p.rule = static_cast<freeze_rule>(run % 5);
    p.threshold = run % 3 == 0 || p.rule == freeze_rule::threshold ? 0.6F : 0.0F;
    p.clamp_weights = draw(rng, 0, 2) == 0;
    p.tier_mean = draw(rng, 0, 1) == 0;
    p.always_best = draw(rng, 0, 3) != 0;
    p.all_when_short = draw(rng, 0, 3) == 0;
    p.floor = draw(rng, 0, 3) == 0 ? 0.3F : 0.0F;
    if (draw(rng, 0, 1) == 0) {
      p.first = of_each(at, b, [](int q) { return q % 5; });
      std::size_t i = 0;
      p.last = of_each(at, b, [&](int) { return s.length[i++] / 2 + 5; });
      p.rank_all = draw(rng, 0, 1) == 0;
    }
    if (draw(rng, 0, 2) == 0) p.limit = of_each(at, b, [](int q) { return q % 4; });
    if (!p.tier_mean && draw(rng, 0, 1) == 0) {
      const std::vector<float> before = random_numbers<float>(b, same(b, 2 * m), 5, 0, 1);
      p.trace = at.inout<float>(same(b, 2 * m), before);
    }
    const int base = draw(rng, 1, 12);
    const auto rank = of_each(at, b, [&](int q) { return q == 5 && run % 2 == 1 ? -1 : base + q; });
    return op::accept_two_centroids{s.candidates, at.in(history, {length, m}), rank, p,
                                    at.out<std::uint8_t>(s.n)};
  });
});
const auto delayed = for_each_of(numbers(8), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const span_of_flags f(at, b, i < 4 ? 200 : 5000, 1);
    const delayed_cache_params p{0, 1, 2, i % 2 == 0, i / 2 % 2 == 0};
    return op::advance_delayed_cache{
        at.out_rows(same(b, 1), {f.room}, 0,
                    random_numbers<std::uint8_t>(b, same(b, f.room), 1, 0, 2)),
        p,
        f.first,
        f.last,
        at.in(each<std::uint8_t>(b, [](int s) { return s % 4 == 3; })),
        at.out_rows<std::uint8_t>(same(b, 1), {f.room})};
  });
});

}  // namespace
}  // namespace unmask::test
