// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rules that decide by entropies, runs, credits and histories of distributions: cases worked by hand.
#include <cmath>

#include "methods/credit_decoding/kernels/credit.h"
#include "methods/hierarchical/kernels/runs.h"
#include "methods/parts/kernels/entropy_bound.h"
#include "methods/parts/kernels/history.h"
#include "methods/pc_sampler/kernels/surprise.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using accepts = std::vector<std::uint8_t>;
using integers = std::vector<std::int32_t>;
const std::vector<const backend*> backends = unmask::test::host_backends();

test::candidates_fixture candidates_at(const std::vector<integers>& positions) {
  test::candidates_fixture c;
  for (const integers& of : positions) c.add(of);
  return c;
}

tensor_view rows_of(std::vector<float>& values, std::int64_t columns) {
  return make_view(values.data(), dtype::f32,
                   {static_cast<std::int64_t>(values.size()) / columns, columns});
}

// Entropies 0.5, 2 and 0.125 in the order of their scores. The first two without their largest are
// 0.5, all three 0.625; those before the third are 2.5.
TEST(histories, entropy_bound_by_hand) {
  const auto c = candidates_at({{3, 4, 5}, {}, {0}});
  const std::vector<float> score{0.9F, 0.7F, 0.8F, test::nan};
  const std::vector<float> entropy{-0.5F, -0.125F, -2.0F, 0.0F};
  for (const backend* backend : backends) {
    const auto under = [&](float bound, bool without_largest, std::int32_t minimum) {
      accepts a(4, 9);
      backend->run(op::accept_entropy_bound{c.set(), score.data(), entropy.data(), bound,
                                            without_largest, minimum, a.data()});
      return a;
    };
    EXPECT_EQ(under(0, true, 1), (accepts{1, 0, 0, 0}));
    EXPECT_EQ(under(0.5F, true, 1), (accepts{1, 0, 1, 0}));
    EXPECT_EQ(under(0.5F, false, 1), (accepts{1, 0, 1, 0}));
    EXPECT_EQ(under(0.625F, true, 1), (accepts{1, 1, 1, 0}));
    EXPECT_EQ(under(0.625F, false, 1), (accepts{1, 0, 1, 0}));
    EXPECT_EQ(under(2.5F, false, 1), (accepts{1, 1, 1, 0}));
    EXPECT_EQ(under(0, true, 2), (accepts{1, 0, 1, 0}));
    EXPECT_EQ(under(0, true, 7), (accepts{1, 1, 1, 0}));
  }
}

// Runs 2-4, 6 and 8-9; the second sequence is one run with two equal ones.
TEST(histories, best_of_runs_by_hand) {
  const auto c = candidates_at({{2, 3, 4, 6, 8, 9}, {0, 1, 2}});
  const std::vector<float> score{0.1F, 0.5F, 0.4F, 0.2F, 0.9F, test::nan, 0.7F, 0.3F, 0.7F};
  for (const backend* backend : backends) {
    accepts a(9, 9);
    backend->run(op::accept_run_best{c.set(), score.data(), 0, a.data()});
    EXPECT_EQ(a, (accepts{0, 1, 0, 1, 1, 0, 1, 0, 1}));
    backend->run(op::accept_run_best{c.set(), score.data(), 0.5F, a.data()});
    EXPECT_EQ(a, (accepts{0, 0, 0, 0, 1, 0, 1, 0, 1}));
  }
}

TEST(histories, near_the_best_by_hand) {
  const auto c = candidates_at({{0, 1, 2}, {0, 1}, {0}});
  const std::vector<float> score{0.5F, 0.4375F, 0.25F, 0.9F, 0.75F, -test::infinity};
  for (const backend* backend : backends) {
    accepts a(6, 9);
    backend->run(op::accept_near_best{c.set(), score.data(), 0.75F, 0.0625F, a.data()});
    EXPECT_EQ(a, (accepts{1, 1, 0, 1, 1, 0}));
  }
}

// p = (1/4, 1/2, 1/4): token 1 has credit 1/2 and e^f = 2 (3/2). Then 4, 2, 1 of 7: credit fades to
// 1/4 and token 0 gets 4/7, e^f = 4 (11/7) and 2 (5/4).
TEST(histories, credit_by_hand) {
  const auto c = candidates_at({{10}});
  const float two = std::log(2.0F), four = std::log(4.0F);
  for (const backend* backend : backends) {
    integers first{8}, fresh{1}, listed(4, 7), tokens(8, 5), token(1);
    std::vector<float> credits(8, 9), probability(1), score(1), logits{0, two, 0};
    op::credited_confidence args{.candidates = c.set(),
                                 .logits = rows_of(logits, 3),
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
    EXPECT_EQ(listed, (integers{7, 7, 1, 7}));
    logits = {four, two, 0};
    fresh[0] = 0;
    backend->run(args);
    EXPECT_EQ(token[0], 0);
    EXPECT_NEAR(probability[0], (44.0 / 7) / (44.0 / 7 + 2.5 + 1), 1e-6);
    EXPECT_EQ(score[0], -test::infinity);  // the refused token
    EXPECT_NEAR(credits[4], 0.25, 1e-6);
    EXPECT_NEAR(credits[5], 4.0 / 7, 1e-6);
    // A full list takes no third token, and the arg-max is still found among the listed two.
    logits = {0, two, four};
    backend->run(args);
    EXPECT_EQ(listed[2], 2);
    EXPECT_EQ(token[0], 1);
  }
}

// (1/2, 1/2) against nothing; (3/4, 1/4) against it, 3/4 ln 3/2 + 1/4 ln 1/2; then the same again.
TEST(histories, movement_by_hand) {
  const auto c = candidates_at({{6}});
  for (const backend* backend : backends) {
    integers origin{5}, fresh{1}, owner(4, 6), still(4, 0), token(1);
    std::vector<float> kept(8, 3), scale(8, 3), probability(1), doubt(1), moved(1), logits{0, 0};
    accepts settled(1, 9);
    op::compare_distributions args{.candidates = c.set(),
                                   .logits = rows_of(logits, 2),
                                   .origin = origin.data(),
                                   .fresh = fresh.data(),
                                   .epsilon = 1e-12,
                                   .limit = 0.2F,
                                   .history = 2,
                                   .still_before = 1,
                                   .owner = make_view(owner.data(), dtype::i32, {1, 4}),
                                   .still = make_view(still.data(), dtype::i32, {1, 4}),
                                   .kept = make_view(kept.data(), dtype::f32, {1, 4, 2}),
                                   .scale = make_view(scale.data(), dtype::f32, {1, 4, 2}),
                                   .token = token.data(),
                                   .probability = probability.data(),
                                   .doubt = doubt.data(),
                                   .moved = moved.data(),
                                   .settled = settled.data()};
    backend->run(args);
    EXPECT_EQ(token[0], 0);
    EXPECT_NEAR(moved[0], std::log(0.5) - std::log(1e-12), 1e-4);
    EXPECT_EQ(settled[0], 0);
    EXPECT_EQ(owner[1], 6);
    fresh[0] = 0;
    logits = {std::log(3.0F), 0};
    backend->run(args);
    EXPECT_NEAR(moved[0], 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-6);
    EXPECT_NEAR(probability[0], 0.75, 1e-6);
    EXPECT_NEAR(doubt[0], -0.25, 1e-6);
    EXPECT_EQ(settled[0], 0);
    backend->run(args);
    EXPECT_NEAR(moved[0], 0, 1e-6);
    EXPECT_EQ(settled[0], 1);
    // Another position at the same place has no history.
    owner[1] = 2;
    backend->run(args);
    EXPECT_GT(moved[0], 20);
    EXPECT_EQ(settled[0], 0);
  }
}

TEST(histories, settled_by_hand) {
  const auto c = candidates_at({{0, 1, 2, 3}});
  const std::vector<float> probability{0.9F, 0.8F, 0.7F, 0.95F}, doubt{-0.1F, -0.2F, -0.3F, -0.05F};
  const std::vector<float> moved{0.3F, 0.1F, 0.0F, 0.0F};
  const accepts settled{1, 1, 0, 0};
  for (const backend* backend : backends) {
    const auto of = [&](op::ready_choice choice, float threshold, std::int32_t last,
                        std::int32_t allowed) {
      accepts a(4, 9);
      const integers end{last}, may{allowed}, quota{2};
      backend->run(op::accept_settled{c.set(), end.data(), may.data(), probability.data(),
                                      doubt.data(), moved.data(), settled.data(), threshold, false,
                                      choice, quota.data(), 1, a.data()});
      return a;
    };
    EXPECT_EQ(of(op::ready_choice::all, 0.5F, 4, 1), (accepts{1, 1, 0, 0}));
    EXPECT_EQ(of(op::ready_choice::surest, 0.5F, 4, 1), (accepts{1, 0, 0, 0}));
    EXPECT_EQ(of(op::ready_choice::stillest, 0.5F, 4, 1), (accepts{0, 1, 0, 0}));
    EXPECT_EQ(of(op::ready_choice::all, 0.9F, 4, 1), (accepts{1, 0, 0, 0}));
    // Nobody is ready: one of the quota's two, among those that take part.
    EXPECT_EQ(of(op::ready_choice::all, 0.99F, 4, 1), (accepts{0, 0, 0, 1}));
    EXPECT_EQ(of(op::ready_choice::all, 0.5F, 3, 0), (accepts{1, 0, 0, 0}));
  }
}

TEST(histories, surprise_by_hand) {
  const auto c = candidates_at({{4, 6}});
  const integers first{4}, token{1, 0};
  const std::vector<float> weight{1, 0.5F, 0.25F}, surprise{2, 8}, probability{0.5F, 0.75F};
  for (const backend* backend : backends) {
    std::vector<float> score(2);
    backend->run(op::surprise_scores{c.set(), first.data(), weight.data(), 3, surprise.data(),
                                     token.data(), probability.data(), 3, score.data()});
    EXPECT_EQ(score, (std::vector<float>{3, 0.375F}));
  }
}

}  // namespace
}  // namespace unmask
