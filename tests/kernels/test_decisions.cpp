// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are committed: cases worked by hand, then properties on random ragged
// candidate sets with ties, infinities and NaN.
#include <rapidcheck.h>

#include "kernels/decisions.h"
#include "kernels/noise.h"
#include "methods/parts/kernels/acceptance.h"
#include "methods/parts/kernels/block_acceptance.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using accepts = std::vector<std::uint8_t>;
const std::vector<const backend*> backends = unmask::test::host_backends();

struct scene {
  test::candidates_fixture candidates;
  std::vector<float> score;
  accepts fresh() const { return accepts(score.size(), 9); }  // poisoned
};

scene make_scene(const std::vector<std::vector<float>>& scores) {
  scene s;
  for (const auto& sequence : scores) {
    std::vector<std::int32_t> positions;
    for (std::size_t i = 0; i < sequence.size(); ++i)
      positions.push_back(static_cast<std::int32_t>(i));
    s.candidates.add(positions);
    s.score.insert(s.score.end(), sequence.begin(), sequence.end());
  }
  return s;
}

TEST(decisions, top_by_hand) {
  const scene s = make_scene({{0.3F, 0.9F, 0.9F, 0.1F}, {}, {-test::infinity, test::nan, 0.2F}});
  for (const backend* backend : backends) {
    accepts a = s.fresh();
    const std::vector<std::int32_t> one{1, 1, 1}, many{3, 5, 5}, none{0, -1, 0};
    backend->run(op::accept_top{s.candidates.set(), s.score.data(), one.data(), a.data()});
    EXPECT_EQ(a, (accepts{0, 1, 0, 0, 0, 0, 1}));
    backend->run(op::accept_top{s.candidates.set(), s.score.data(), many.data(), a.data()});
    EXPECT_EQ(a, (accepts{1, 1, 1, 0, 0, 0, 1}));
    backend->run(op::accept_top{s.candidates.set(), s.score.data(), none.data(), a.data()});
    EXPECT_EQ(a, (accepts{0, 0, 0, 0, 0, 0, 0}));
  }
}

TEST(decisions, threshold_by_hand) {
  const scene s =
      make_scene({{0.3F, 0.9F, 0.5F}, {0.1F, 0.2F, 0.2F}, {-test::infinity, test::nan}});
  for (const backend* backend : backends) {
    accepts a = s.fresh();
    backend->run(
        op::accept_threshold{s.candidates.set(), s.score.data(), 0.5F, false, true, a.data()});
    EXPECT_EQ(a, (accepts{0, 1, 1, 0, 1, 0, 0, 0}));
    backend->run(
        op::accept_threshold{s.candidates.set(), s.score.data(), 0.5F, true, true, a.data()});
    EXPECT_EQ(a, (accepts{0, 1, 0, 0, 1, 0, 0, 0}));
    backend->run(
        op::accept_threshold{s.candidates.set(), s.score.data(), 0.5F, false, false, a.data()});
    EXPECT_EQ(a, (accepts{0, 1, 1, 0, 0, 0, 0, 0}));
    // Even a threshold of -infinity lets no -infinity through.
    backend->run(op::accept_threshold{s.candidates.set(), s.score.data(), -test::infinity, false,
                                      false, a.data()});
    EXPECT_EQ(a, (accepts{1, 1, 1, 1, 1, 1, 0, 0}));
  }
}

// factor 1: thr = -1, 2/3, 3/4, 4/5, 5/6.
TEST(decisions, factor_by_hand) {
  for (const backend* backend : backends) {
    const auto run = [&](const std::vector<float>& scores, float factor) {
      const scene s = make_scene({scores});
      accepts a = s.fresh();
      backend->run(op::accept_factor{s.candidates.set(), s.score.data(), factor, a.data()});
      return a;
    };
    // 0.9, 0.8 pass; 0.7 < 3/4 fails at t = 2: two are accepted.
    EXPECT_EQ(run({0.1F, 0.8F, 0.7F, 0.9F}, 1), (accepts{0, 1, 0, 1}));
    // The second fails at once: t = 1.
    EXPECT_EQ(run({0.5F, 0.6F, 0.2F}, 1), (accepts{0, 1, 0}));
    // All pass: t = m - 1, one more, all.
    EXPECT_EQ(run({0.9F, 0.95F, 0.99F}, 1), (accepts{1, 1, 1}));
    // Only the last fails: it is taken all the same (the published rule's quirk).
    EXPECT_EQ(run({0.9F, 0.95F, 0.1F}, 1), (accepts{1, 1, 1}));
    EXPECT_EQ(run({0.01F}, 1), (accepts{1}));
    EXPECT_EQ(run({-test::infinity, 0.01F, test::nan}, 1), (accepts{0, 1, 0}));
    EXPECT_EQ(run({}, 1), (accepts{}));
    // Masks behind the candidates never pass: the last candidate is not the last of the list.
    const auto run_behind = [&](const std::vector<float>& scores, std::int32_t behind) {
      const scene s = make_scene({scores});
      accepts a = s.fresh();
      backend->run(op::accept_factor{s.candidates.set(), s.score.data(), 1, a.data(), &behind});
      return a;
    };
    EXPECT_EQ(run_behind({0.9F, 0.95F, 0.1F}, 0), (accepts{1, 1, 1}));
    EXPECT_EQ(run_behind({0.9F, 0.95F, 0.1F}, 1), (accepts{1, 1, 0}));
    EXPECT_EQ(run_behind({0.9F, 0.95F, 0.99F}, 5), (accepts{1, 1, 1}));
    EXPECT_EQ(run_behind({0.9F, 0.95F, 0.99F}, 1), (accepts{1, 1, 1}));
    EXPECT_EQ(run_behind({0.01F}, 3), (accepts{1}));
    EXPECT_EQ(run_behind({}, 3), (accepts{}));
  }
}

TEST(decisions, sequential_by_hand) {
  test::candidates_fixture c;
  c.add({1, 8, 10, 11, 15, 17});  // block [8, 16)
  c.add({3});                     // block [8, 16): none inside
  const std::vector<std::int32_t> begin{8, 8};
  for (const backend* backend : backends) {
    accepts a(7, 9);
    const std::vector<std::int32_t> three{3, 3}, all{8, 8};
    backend->run(op::accept_sequential{c.set(), begin.data(), 8, three.data(), a.data()});
    EXPECT_EQ(a, (accepts{0, 1, 1, 0, 0, 0, 0}));  // 8, 9, 10; 9 is no candidate
    backend->run(op::accept_sequential{c.set(), begin.data(), 8, all.data(), a.data()});
    EXPECT_EQ(a, (accepts{0, 1, 1, 1, 1, 0, 0}));
  }
}

TEST(decisions, commit_writes_accepted_tokens) {
  test::candidates_fixture c;
  c.add({0, 2});
  c.add({1, 3});
  const std::vector<std::int32_t> token{11, 12, 13, 99};
  const accepts accept{1, 0, 1, 1};
  for (const backend* backend : backends) {
    for (const std::int32_t mask_id : {-1, 99}) {
      std::vector<std::int32_t> canvas(8, 99), committed{5, 0};
      std::vector<std::uint8_t> state(8, 0);
      backend->run(op::commit{.candidates = c.set(),
                              .token = token.data(),
                              .accept = accept.data(),
                              .mask_id = mask_id,
                              .canvas = make_view(canvas.data(), dtype::i32, {2, 4}),
                              .state = make_view(state.data(), dtype::u8, {2, 4}),
                              .counts = {.taken = committed.data()}});
      EXPECT_EQ(canvas, (std::vector<std::int32_t>{11, 99, 99, 99, 99, 13, 99, 99}));
      const bool by_id = mask_id == 99;
      EXPECT_EQ(state, (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 1, 0,
                                                  by_id ? std::uint8_t{0} : std::uint8_t{1}}));
      EXPECT_EQ(committed, (std::vector<std::int32_t>{6, by_id ? 1 : 2}));
    }
  }
}

// A mask can be taken or held, a decided position replaced or reopened; nothing else happens.
TEST(decisions, commit_carries_out_what_fits_the_state) {
  test::candidates_fixture c;
  c.add({0, 1, 2, 3, 4, 5, 6});
  const std::vector<std::int32_t> token{10, 11, 12, 13, 14, 15, 16};
  const accepts accept{decision_take,   decision_hold, decision_replace, decision_reopen,
                       decision_reopen, decision_take, decision_replace};
  for (const backend* backend : backends) {
    std::vector<std::int32_t> canvas{99, 99, 2, 3, 99, 5, 6}, held(7, -1);
    std::vector<std::uint8_t> state{0, 0, 1, 1, 0, 1, 2};
    std::int32_t taken = 0, replaced = 0, reopened = 0, refused = 0;
    backend->run(op::commit{.candidates = c.set(),
                            .token = token.data(),
                            .accept = accept.data(),
                            .mask_token = 99,
                            .canvas = make_view(canvas.data(), dtype::i32, {1, 7}),
                            .state = make_view(state.data(), dtype::u8, {1, 7}),
                            .held = make_view(held.data(), dtype::i32, {1, 7}),
                            .counts = {&taken, &replaced, &reopened, &refused}});
    EXPECT_EQ(canvas, (std::vector<std::int32_t>{10, 99, 12, 99, 99, 5, 6}));
    EXPECT_EQ(held, (std::vector<std::int32_t>{-1, 11, -1, -1, -1, -1, -1}));
    EXPECT_EQ(state, (std::vector<std::uint8_t>{1, 1, 1, 0, 0, 1, 2}));
    EXPECT_EQ((std::vector{taken, replaced, reopened, refused}), (std::vector{2, 1, 1, 3}));
  }
}

TEST(decisions, random_scores_depend_on_seed_step_and_position_only) {
  test::candidates_fixture c;
  c.add({4, 9});
  c.add({4, 9, 10});
  const std::vector<std::uint64_t> seed{7, 7};
  const std::vector<std::int32_t> step{2, 2};
  const noise_source noise{seed.data(), step.data()};
  for (const backend* backend : backends) {
    std::vector<float> score(5, test::nan);
    backend->run(op::uniform_scores{c.set(), noise, score.data()});
    EXPECT_EQ(score[0], score[2]);
    EXPECT_EQ(score[1], score[3]);
    EXPECT_NE(score[3], score[4]);
    for (const float u : score) EXPECT_TRUE(u > 0 && u < 1);
    EXPECT_EQ(score[0], static_cast<float>(uniform_open(stream_key(7, 2, 4), score_draw)));

    std::vector<float> noised{1, 2, 1, 2, 3};
    backend->run(op::gumbel_scores{c.set(), noise, 0.5F, noised.data()});
    EXPECT_NEAR(noised[0], 2 - std::log(-std::log(score[0])), 1e-5);
    EXPECT_EQ(noised[0], noised[2]);
  }
}

// Scores from a small set, so that ties are common, with infinities and NaN among them.
rc::Gen<std::vector<std::vector<float>>> ragged_scores() {
  const auto score = rc::gen::weightedOneOf<float>(
      {{8, rc::gen::map(rc::gen::inRange(-3, 12), [](int i) { return static_cast<float>(i) / 8; })},
       {1, rc::gen::element(-test::infinity, test::nan, -0.0F)}});
  return rc::gen::container<std::vector<std::vector<float>>>(
      rc::gen::container<std::vector<float>>(score));
}

// i is ahead of j when its score is larger, or equal and its index lower.
bool ahead(const std::vector<float>& score, std::size_t i, std::size_t j) {
  return score[i] > score[j] || (score[i] == score[j] && i < j);
}

// How many eligible candidates of i's own sequence are ahead of it; -1 when i is not eligible.
std::vector<int> ranks(const scene& s) {
  std::vector<int> rank(s.score.size(), -1);
  for (std::size_t q = 0; q + 1 < s.candidates.begin.size(); ++q) {
    const auto low = static_cast<std::size_t>(s.candidates.begin[q]);
    const auto high = static_cast<std::size_t>(s.candidates.begin[q + 1]);
    for (std::size_t i = low; i < high; ++i) {
      if (!(s.score[i] > -test::infinity)) continue;
      rank[i] = 0;
      for (std::size_t j = low; j < high; ++j) {
        if (s.score[j] > -test::infinity && ahead(s.score, j, i)) ++rank[i];
      }
    }
  }
  return rank;
}

void check(const std::string& what, const std::function<void()>& property) {
  EXPECT_TRUE(rc::check(what, property));
}

TEST(decisions, property_top_is_rank_below_quota) {
  check("accept_top", [] {
    const scene s = make_scene(*ragged_scores());
    const auto sequences = s.candidates.begin.size() - 1;
    const auto quota =
        *rc::gen::container<std::vector<std::int32_t>>(sequences, rc::gen::inRange(-1, 8));
    const auto rank = ranks(s);
    for (const backend* backend : backends) {
      accepts a = s.fresh();
      backend->run(op::accept_top{s.candidates.set(), s.score.data(), quota.data(), a.data()});
      for (std::size_t q = 0; q < sequences; ++q) {
        for (std::int32_t c = s.candidates.begin[q]; c < s.candidates.begin[q + 1]; ++c) {
          const auto i = static_cast<std::size_t>(c);
          RC_ASSERT(a[i] == (rank[i] >= 0 && rank[i] < quota[q] ? 1 : 0));
        }
      }
    }
  });
}

TEST(decisions, property_threshold_is_scores_and_the_best) {
  check("accept_threshold", [] {
    const scene s = make_scene(*ragged_scores());
    const float threshold = static_cast<float>(*rc::gen::inRange(-4, 13)) / 8;
    const bool strict = *rc::gen::arbitrary<bool>(), best = *rc::gen::arbitrary<bool>();
    const auto rank = ranks(s);
    for (const backend* backend : backends) {
      accepts a = s.fresh();
      backend->run(op::accept_threshold{s.candidates.set(), s.score.data(), threshold, strict, best,
                                        a.data()});
      for (std::size_t i = 0; i < s.score.size(); ++i) {
        const bool passes = strict ? s.score[i] > threshold : s.score[i] >= threshold;
        const bool want = rank[i] >= 0 && (passes || (best && rank[i] == 0));
        RC_ASSERT(a[i] == (want ? 1 : 0));
      }
    }
  });
}

TEST(decisions, property_factor_is_a_leading_run) {
  check("accept_factor", [] {
    const scene s = make_scene(*ragged_scores());
    const float factor = static_cast<float>(*rc::gen::inRange(1, 24)) / 8;
    const auto rank = ranks(s);
    for (const backend* backend : backends) {
      accepts a = s.fresh();
      backend->run(op::accept_factor{s.candidates.set(), s.score.data(), factor, a.data()});
      for (std::size_t q = 0; q + 1 < s.candidates.begin.size(); ++q) {
        const auto low = static_cast<std::size_t>(s.candidates.begin[q]);
        const auto high = static_cast<std::size_t>(s.candidates.begin[q + 1]);
        int m = 0, first_failure = -1;
        for (std::size_t i = low; i < high; ++i) m += rank[i] >= 0 ? 1 : 0;
        for (std::size_t i = low; i < high; ++i) {
          if (rank[i] < 0) continue;
          const double bar = rank[i] == 0 ? -1.0 : 1.0 - double{factor} / (rank[i] + 2);
          if (double{s.score[i]} < bar && (first_failure < 0 || rank[i] < first_failure)) {
            first_failure = rank[i];
          }
        }
        int taken = first_failure < 0 ? m - 1 : first_failure;
        if (taken == 0 || taken == m - 1) ++taken;
        for (std::size_t i = low; i < high; ++i) {
          RC_ASSERT(a[i] == (rank[i] >= 0 && rank[i] < taken ? 1 : 0));
        }
      }
    }
  });
}

}  // namespace
}  // namespace unmask
