// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand:
// the rules with credit.
#include <cmath>

#include "methods/credit_decoding/kernels/credit.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

// Lists of `room` of the seven tokens, none twice.
std::vector<std::int32_t> distinct_tokens(const batch& b, std::int64_t room) {
  return joined<std::int32_t>(b, [&](int s) {
    std::mt19937 rng = rng_of(s, 5);
    std::vector<std::int32_t> all;
    for (std::int64_t place = 0; place < remembered; ++place) {
      indices tokens{0, 1, 2, 3, 4, 5, 6};
      std::shuffle(tokens.begin(), tokens.end(), rng);
      all.insert(all.end(), tokens.begin(), tokens.begin() + room);
    }
    return all;
  });
}
// Lists of three tokens, some of them full; both kinds of forwards.
const declared credited(
    [](operands& at, const batch& b) {
      const scene s(at, b, some_of_them, false);
      const counts one = same(b, 1);
      const auto listed = random_numbers<std::int32_t>(b, same(b, remembered), 4, 0, 3);
      return op::credited_confidence{
          .candidates = s.candidates,
          .logits = at.normal(b, s.n, {7}, 1),
          .first = of_each(at, b, [](int) { return 0; }),
          .fresh = of_each(at, b, [](int q) { return q % 2; }),
          .alpha = 1.5F,
          .exponent = 0.3F,
          .decay = 0.8F,
          .refused = 2,
          .listed = at.out_rows(one, {remembered}, 0, listed),
          .tokens = at.out_rows(one, {remembered, 3}, 0, distinct_tokens(b, 3)),
          .credits = at.out_rows(one, {remembered, 3}, 0, positive(b, remembered * 3, 6)),
          .token = at.out<std::int32_t>(s.n),
          .probability = at.out<float>(s.n),
          .score = at.out<float>(s.n)};
    },
    1e-6);
const auto near_best = for_each_of<float>({0.5F, 2}, [](float threshold) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_near_best{s.candidates, s.score, threshold, 0.125F,
                                at.out<std::uint8_t>(s.n)};
  });
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

TEST(histories, near_the_best_by_hand) {
  const auto c = candidates_at({{0, 1, 2}, {0, 1}, {0}});
  const std::vector<float> score{0.5F, 0.4375F, 0.25F, 0.9F, 0.75F, -infinity};
  for (const backend* backend : backends) {
    bytes a(6, 9);
    backend->run(op::accept_near_best{c.set(), score.data(), 0.75F, 0.0625F, a.data()});
    EXPECT_EQ(a, (bytes{1, 1, 0, 1, 1, 0}));
  }
}

// p = (1/4, 1/2, 1/4): token 1 has credit 1/2 and e^f = 2 (3/2). Then 4, 2, 1 of 7: credit fades to
// 1/4 and token 0 gets 4/7, e^f = 4 (11/7) and 2 (5/4).
TEST(histories, credit_by_hand) {
  const auto c = candidates_at({{10}});
  const float two = std::log(2.0F), four = std::log(4.0F);
  for (const backend* backend : backends) {
    indices first{8}, fresh{1}, listed(4, 7), tokens(8, 5), token(1);
    std::vector<float> credits(8, 9), probability(1), score(1), logits{0, two, 0};
    op::credited_confidence args{.candidates = c.set(),
                                 .logits = matrix_over(logits, 3),
                                 .first = first.data(),
                                 .fresh = fresh.data(),
                                 .alpha = 1,
                                 .exponent = 1,
                                 .decay = 0.5F,
                                 .refused = 0,
                                 .listed = make_view(listed.data(), dtype::i32, {1, 4}),
                                 .tokens = make_view(tokens.data(), dtype::i32, {1, 4, 2}),
                                 .credits = make_view(credits.data(), dtype::f32, {1, 4, 2}),
                                 .token = token.data(),
                                 .probability = probability.data(),
                                 .score = score.data()};
    backend->run(args);
    EXPECT_EQ(token[0], 1);
    EXPECT_NEAR(probability[0], 3.0 / 5, 1e-6);
    EXPECT_EQ(score[0], probability[0]);
    EXPECT_EQ(listed, (indices{7, 7, 1, 7}));
    logits = {four, two, 0};
    fresh[0] = 0;
    backend->run(args);
    EXPECT_EQ(token[0], 0);
    EXPECT_NEAR(probability[0], (44.0 / 7) / (44.0 / 7 + 2.5 + 1), 1e-6);
    EXPECT_EQ(score[0], -infinity);  // the refused token
    EXPECT_NEAR(credits[4], 0.25, 1e-6);
    EXPECT_NEAR(credits[5], 4.0 / 7, 1e-6);
    // A full list takes no third token, and the arg-max is still found among the listed two.
    logits = {0, two, four};
    backend->run(args);
    EXPECT_EQ(listed[2], 2);
    EXPECT_EQ(token[0], 1);
  }
}

}  // namespace
}  // namespace unmask::test
