// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand:
// what is taken and reopened.
#include "methods/wino/kernels/revoke.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

// Both limits on what is masked again; a block's first step, and later ones.
const auto reopened = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b, length_of, true, false);
    const counts one = same(b, 1);
    return op::accept_and_reopen{
        .candidates = s.candidates,
        .state = at.in(random_numbers<std::uint8_t>(b, same(b, 2200), 6, 0, 1), {2200}),
        .probability = s.score,
        .threshold = 0.5F,
        .threshold_back = 0.75F,
        .strict = i % 2 == 0,
        .by_earlier = i % 2 == 0,
        .share = 0.7,
        .least_cap = i < 2 ? 5 : 300,
        .most_cap = i < 2 ? 20 : 300,
        .least = i == 3 ? 3 : 1,
        .first_allowance = 30,
        .restart = of_each(at, b, [](int q) { return q % 2; }),
        .taken = at.inout(one, each<std::int32_t>(b, [](int q) { return q + 1; })),
        .accept = at.out<std::uint8_t>(s.n)};
  });
});
const declared presents(
    [](operands& at, const batch& b) {
      const scene s(at, b, few, false);
      const counts one = same(b, 1);
      return op::confidence_of_present{
          .candidates = s.candidates,
          .logits = at.normal(b, s.n, {333}, 1),
          .canvas = at.in(random_numbers<std::int32_t>(b, same(b, 60), 5, 0, 332), {60}),
          .state = at.in(random_numbers<std::uint8_t>(b, same(b, 60), 6, 0, 1), {60}),
          .token = at.out<std::int32_t>(s.n),
          .probability = at.out<float>(s.n)};
    },
    1e-6);

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

// Masks at 0 .. 3, decided at 4 .. 7.
TEST(views, taken_and_reopened_by_hand) {
  candidates_fixture c;
  c.add({0, 1, 2, 3, 4, 5, 6, 7});
  bytes state{0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<float> p{0.6F, 0.9F, 0.7F, 0.2F, 0.3F, 0.1F, 0.8F, 0.1F};
  for (const backend* backend : backends) {
    indices taken{3}, restart{0};
    op::accept_and_reopen args{.candidates = c.set(),
                               .state = make_view(state.data(), dtype::u8, {1, 8}),
                               .probability = p.data(),
                               .threshold = 0.6F,
                               .threshold_back = 0.5F,
                               .share = 0.5,
                               .least_cap = 1,
                               .most_cap = 4,
                               .first_allowance = 30,
                               .restart = restart.data(),
                               .taken = taken.data()};
    const auto decided = [&](std::int32_t before) {
      bytes accept(8, 9);
      taken = {before};
      args.accept = accept.data();
      backend->run(args);
      return accept;
    };
    // 0.9 and 0.7 pass (not 0.6: strict) and the cap is 2. The step before took 3: two are reopened.
    EXPECT_EQ(decided(3), (bytes{0, 1, 1, 0, 0, 3, 0, 3}));
    EXPECT_EQ(taken, indices{2});
    EXPECT_EQ(decided(2), (bytes{0, 1, 1, 0, 0, 3, 0, 0}));
    EXPECT_EQ(decided(1), (bytes{0, 1, 1, 0, 0, 0, 0, 0}));
    restart = {1};
    EXPECT_EQ(decided(1), (bytes{0, 1, 1, 0, 3, 3, 0, 3}));
    restart = {0};
    args.most_cap = 1;  // one alone reopens nothing
    EXPECT_EQ(decided(9), (bytes{0, 1, 0, 0, 0, 0, 0, 0}));
    args.threshold = 0.95F;  // the best where none passes
    EXPECT_EQ(decided(9), (bytes{0, 1, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(taken, indices{1});
    // The other limit: as many as are taken beyond one; not strict, so three pass.
    args.threshold = 0.6F;
    args.most_cap = 4;
    args.share = 1;
    args.strict = false;
    args.by_earlier = false;
    EXPECT_EQ(decided(1), (bytes{1, 1, 1, 0, 0, 3, 0, 3}));
    args.least = 2;
    EXPECT_EQ(decided(1), (bytes{1, 1, 1, 0, 0, 3, 0, 0}));
    args.threshold = 0.99F;
    EXPECT_EQ(decided(1), (bytes{0, 1, 1, 0, 0, 0, 0, 0}));
  }
}

}  // namespace
}  // namespace unmask::test
