// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The operations that several methods decide by: operands (operation_test.h says what follows from
// them), and cases by hand.
#include <algorithm>
#include <cmath>

#include "methods/parts/kernels/acceptance.h"
#include "methods/parts/kernels/block_acceptance.h"
#include "methods/parts/kernels/block_means.h"
#include "methods/parts/kernels/entropy_bound.h"
#include "methods/parts/kernels/history.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto factors = for_each_of<float>({0, 0.25F, 1, 20, 9 * 64}, [](float factor) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    // Of some batches masks are behind.
    const std::int32_t* behind =
        factor == 1 ? of_each(at, b, [](int q) { return q % 3; }) : nullptr;
    return op::accept_factor{s.candidates, s.score, factor, at.out<std::uint8_t>(s.n), behind};
  });
});
const auto sequential = for_each_of<int>({1, 4, 32, 64, 300}, [](int block) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_sequential{s.candidates, of_each(at, b, [](int q) { return q * 7 % 60; }),
                                 block, of_each(at, b, [](int q) { return q * 9 - 1; }),
                                 at.out<std::uint8_t>(s.n)};
  });
});
const declared gumbel(
    [](operands& at, const batch& b) {
      const scene s(at, b);
      std::size_t i = 0;
      const auto score = joined<float>(b, [&](int q) { return tied(q, s.n[i++], 1, false); });
      return op::gumbel_scores{s.candidates, noise(at, b), 0.3F, at.inout(s.n, score)};
    },
    1.2e-7);  // the last bit at most
// No bound, one that a few pass, one that all pass; both sums; one token at least, or three.
const auto bounded = for_each_of(numbers(12), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    std::size_t k = 0;
    const auto entropy = joined<float>(b, [&](int q) { return tied(q, s.n[k++], 3, false); });
    const float bounds[] = {0, 2.5F, infinity};
    return op::accept_entropy_bound{
        s.candidates,   s.score,       at.in(entropy),           bounds[i % 3],
        i / 3 % 2 == 0, i < 6 ? 1 : 3, at.out<std::uint8_t>(s.n)};
  });
});
// Places that hold a distribution of their position, or of another one; counts of both kinds.
const declared compared(
    [](operands& at, const batch& b) {
      const scene s(at, b, some_of_them, false);
      const counts one = same(b, 1);
      const auto owners = joined<std::int32_t>(b, [](int q) {
        indices all(static_cast<std::size_t>(remembered));
        for (int p = 0; p < remembered; ++p) all[static_cast<std::size_t>(p)] = p % 3 == q ? -1 : p;
        return all;
      });
      const auto still = random_numbers<std::int32_t>(b, same(b, remembered), 4, 0, 3);
      const auto scale = joined<float>(b, [](int) {
        std::vector<float> all;
        for (int p = 0; p < remembered; ++p) all.insert(all.end(), {2.5F, 1e-8F});
        return all;
      });
      return op::compare_distributions{
          .candidates = s.candidates,
          .logits = at.normal(b, s.n, {7}, 1),
          .origin = of_each(at, b, [](int) { return 0; }),
          .fresh = of_each(at, b, [](int q) { return q == 4 ? 1 : 0; }),
          .epsilon = 1e-12,
          .limit = 0.7F,
          .history = 2,
          .still_before = 1,
          .owner = at.out_rows(one, {remembered}, 0, owners),
          .still = at.out_rows(one, {remembered}, 0, still),
          .kept = at.out_rows(one, {remembered, 7}, 0, positive(b, remembered * 7, 6)),
          .scale = at.out_rows(one, {remembered, 2}, 0, scale),
          .token = at.out<std::int32_t>(s.n),
          .probability = at.out<float>(s.n),
          .doubt = at.out<float>(s.n),
          .moved = at.out<float>(s.n),
          .settled = at.out<std::uint8_t>(s.n)};
    },
    1e-6);
// The three choices, with both comparisons and, in the last three, with nobody ready.
const auto settlements = for_each_of(numbers(9), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    std::size_t k = 0, m = 0;
    const auto confidence = joined<float>(b, [&](int q) { return tied(q, s.n[k++], 3, false); });
    const auto moved = joined<float>(b, [&](int q) { return tied(q, s.n[m++], 4, false); });
    return op::accept_settled{.candidates = s.candidates,
                              .last = of_each(at, b, [](int q) { return q == 5 ? 90 : 1000; }),
                              .allowed = of_each(at, b, [](int q) { return q == 3 ? 0 : 1; }),
                              .probability = at.in(confidence),
                              .doubt = s.score,
                              .moved = at.in(moved),
                              .settled = at.in(random_numbers<std::uint8_t>(b, s.n, 5, 0, 1)),
                              .threshold = i < 6 ? 0.5F : 5,
                              .strict = i < 3,
                              .choice = static_cast<op::ready_choice>(i % 3),
                              .quota = of_each(
                                  at, b, [](int q) { return q * 2; }),
                              .at_most = i < 8 ? 9 : 1,
                              .accept = at.out<std::uint8_t>(s.n)};
  });
});
// Blocks and sinks before the position from which on everything is seen.
const auto contexts = for_each_of<bool>({false, true}, [](bool sinks) {
  return declared([=](operands& at, const batch& b) {
    constexpr int block = 32;
    const auto seen_from = [](int s) { return s * 17 + 5; };
    const counts blocks = each<std::int64_t>(b, [&](int s) { return seen_from(s) / block / 2; });
    const auto chosen = joined<std::int32_t>(b, [&](int s) {
      indices all;
      for (int k = 0; k < seen_from(s) / block / 2; ++k) all.push_back(2 * k + s % 2);
      return all;
    });
    counts segments;  // every second one is left out
    for (const int s : b) segments.insert(segments.end(), {s % 5, 0});
    const auto sink = joined<std::int32_t>(b, [&](int s) {
      indices all;
      for (int k = 0; k < s % 5; ++k) all.push_back(k);
      return all;
    });
    return op::mark_context{static_cast<std::int32_t>(b.size()),
                            of_each(at, b, [](int s) { return 230 + s * 13; }),
                            of_each(at, b, seen_from),
                            block,
                            at.in(begins_of(blocks)),
                            at.in(chosen),
                            sinks ? at.in(begins_of(segments)) : nullptr,
                            sinks ? at.in(sink) : nullptr,
                            at.out_rows<std::uint8_t>(same(b, 1), {400})};
  });
});
const auto block_means = for_each_of(numbers(8), [](int i) {
  return declared(
      [=](operands& at, const batch& b) {
        const std::int32_t block =
            std::vector<int>{1, 32, 64, 100}[static_cast<std::size_t>(i / 2)];
        const auto length = [](int s) { return s == 12 ? 900 : s * 37 % 160; };
        const bool some = i % 2 == 1;  // a refresh of two, which may lie beyond the end
        const counts n = each<std::int64_t>(b, [&](int s) -> std::int64_t {
          const std::int64_t all = (length(s) + block - 1) / block;
          return some ? std::min<std::int64_t>(all, 2) : all;
        });
        return op::block_mean_keys{static_cast<std::int32_t>(b.size()),
                                   at.cache(b, 15, 2, 9, 30, i < 4 ? dtype::f32 : dtype::bf16),
                                   of_each(at, b, length),
                                   block,
                                   at.in(begins_of(n)),
                                   at.out_rows<float>(n, {2, 9}, 3),
                                   some ? of_each(at, b, [](int s) { return s % 2; }) : nullptr};
      },
      1e-7);
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

// Entropies 0.5, 2 and 0.125 in the order of their scores. The first two without their largest are
// 0.5, all three 0.625; those before the third are 2.5.
TEST(histories, entropy_bound_by_hand) {
  const auto c = candidates_at({{3, 4, 5}, {}, {0}});
  const std::vector<float> score{0.9F, 0.7F, 0.8F, nan};
  const std::vector<float> entropy{-0.5F, -0.125F, -2.0F, 0.0F};
  for (const backend* backend : backends) {
    const auto under = [&](float bound, bool without_largest, std::int32_t minimum) {
      bytes a(4, 9);
      backend->run(op::accept_entropy_bound{c.set(), score.data(), entropy.data(), bound,
                                            without_largest, minimum, a.data()});
      return a;
    };
    EXPECT_EQ(under(0, true, 1), (bytes{1, 0, 0, 0}));
    EXPECT_EQ(under(0.5F, true, 1), (bytes{1, 0, 1, 0}));
    EXPECT_EQ(under(0.5F, false, 1), (bytes{1, 0, 1, 0}));
    EXPECT_EQ(under(0.625F, true, 1), (bytes{1, 1, 1, 0}));
    EXPECT_EQ(under(0.625F, false, 1), (bytes{1, 0, 1, 0}));
    EXPECT_EQ(under(2.5F, false, 1), (bytes{1, 1, 1, 0}));
    EXPECT_EQ(under(0, true, 2), (bytes{1, 0, 1, 0}));
    EXPECT_EQ(under(0, true, 7), (bytes{1, 1, 1, 0}));
  }
}

// (1/2, 1/2) against nothing; (3/4, 1/4) against it, 3/4 ln 3/2 + 1/4 ln 1/2; then the same again.
TEST(histories, movement_by_hand) {
  const auto c = candidates_at({{6}});
  for (const backend* backend : backends) {
    indices origin{5}, fresh{1}, owner(4, 6), still(4, 0), token(1);
    std::vector<float> kept(8, 3), scale(8, 3), probability(1), doubt(1), moved(1), logits{0, 0};
    bytes settled(1, 9);
    op::compare_distributions args{.candidates = c.set(),
                                   .logits = matrix_over(logits, 2),
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
  const bytes settled{1, 1, 0, 0};
  for (const backend* backend : backends) {
    const auto of = [&](op::ready_choice choice, float threshold, std::int32_t last,
                        std::int32_t allowed) {
      bytes a(4, 9);
      const indices end{last}, may{allowed}, quota{2};
      backend->run(op::accept_settled{c.set(), end.data(), may.data(), probability.data(),
                                      doubt.data(), moved.data(), settled.data(), threshold, false,
                                      choice, quota.data(), 1, a.data()});
      return a;
    };
    EXPECT_EQ(of(op::ready_choice::all, 0.5F, 4, 1), (bytes{1, 1, 0, 0}));
    EXPECT_EQ(of(op::ready_choice::surest, 0.5F, 4, 1), (bytes{1, 0, 0, 0}));
    EXPECT_EQ(of(op::ready_choice::stillest, 0.5F, 4, 1), (bytes{0, 1, 0, 0}));
    EXPECT_EQ(of(op::ready_choice::all, 0.9F, 4, 1), (bytes{1, 0, 0, 0}));
    // Nobody is ready: one of the quota's two, among those that take part.
    EXPECT_EQ(of(op::ready_choice::all, 0.99F, 4, 1), (bytes{0, 0, 0, 1}));
    EXPECT_EQ(of(op::ready_choice::all, 0.5F, 3, 0), (bytes{1, 0, 0, 0}));
  }
}

TEST(selection, the_mean_of_the_last_block_is_of_what_is_there) {
  std::mt19937 rng(42);
  cache_fixture cache(rng, 3, 2, 2, 9);
  const indices length{100, 0, 64}, begin{0, 4, 4, 6};
  grid mean({6, 2, 9});
  reference_backend().run(op::block_mean_keys{3, cache.kv, length.data(), 32, begin.data(), mean});
  double sum = 0;  // the last block of sequence 0 has the slots 96 .. 99
  const std::int32_t page = cache.table[1];
  for (int slot = 96; slot < 100; ++slot) sum += cache.keys.at(page, (slot - 64) * 18 + 10);
  EXPECT_NEAR(mean.at(3, 10), sum / 4, 1e-6);
}

}  // namespace
}  // namespace unmask::test
