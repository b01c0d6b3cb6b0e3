// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The fused LM head and token sampling.
#include <omp.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/cuda/device/traffic.h"
#include "kernels/float16.h"
#include "kernels/head.h"
#include "kernels/noise.h"
#include "tests/kernels/cut_heads.h"
#include "tests/rank_threads.h"

namespace unmask {
namespace {

using test::grid;

struct told {
  std::vector<std::int32_t> token;
  std::vector<float> probability, margin, negative_entropy, gap;
  explicit told(std::int32_t n)
      : token(static_cast<std::size_t>(n), -77),
        probability(static_cast<std::size_t>(n), test::nan),
        margin(probability),
        negative_entropy(probability),
        gap(probability) {}
  confidence_out out() {
    return {token.data(), probability.data(), margin.data(), negative_entropy.data(), gap.data()};
  }
  bool same(std::size_t i, const told& other, std::size_t j) const {
    return token[i] == other.token[j] &&
           test::same_bits(&probability[i], &other.probability[j], 1) &&
           test::same_bits(&margin[i], &other.margin[j], 1) &&
           test::same_bits(&negative_entropy[i], &other.negative_entropy[j], 1) &&
           test::same_bits(&gap[i], &other.gap[j], 1);
  }
};

// The head is the identity, so the logits are x itself.
packed_handle identity(const backend& backend, std::int64_t n) {
  std::vector<float> w(static_cast<std::size_t>(n * n), 0.0F);
  for (std::int64_t i = 0; i < n; ++i) w[static_cast<std::size_t>(i * n + i)] = 1;
  return backend.pack(make_view(w.data(), dtype::f32, {n, n}), weight_format::f32);
}

// Logits (ln 1, ln 2, ln 4, ln 1): p = (1, 2, 4, 1) / 8. Temperature 2: p ~ (1, sqrt 2, 2, 1).
TEST(head, confidence_by_hand) {
  grid x({3, 4});
  for (std::int64_t r = 0; r < 3; ++r) {
    x.at(r, 0) = x.at(r, 3) = 0;
    x.at(r, 1) = std::log(2.0F);
    x.at(r, 2) = std::log(4.0F);
  }
  x.at(2, 0) = x.at(2, 2);  // row 2: a tie between 0 and 2
  test::candidates_fixture c;
  c.add({3, 9});
  c.row = {1, 2};
  const auto check = [&](const backend& backend) {
    const auto head = identity(backend, 4);
    confidence_params params;
    told t(2);
    backend.run(op::confidence{x, *head, c.set(), params, t.out()});
    EXPECT_EQ(t.token, (std::vector<std::int32_t>{2, 0}));
    EXPECT_NEAR(t.probability[0], 0.5, 1e-6);
    EXPECT_NEAR(t.margin[0], 0.25, 1e-6);
    EXPECT_NEAR(t.negative_entropy[0], -1.75 * std::log(2.0), 1e-6);
    EXPECT_NEAR(t.gap[0], std::log(2.0), 1e-6);
    EXPECT_NEAR(t.probability[1], 4.0 / 11, 1e-6);
    EXPECT_EQ(t.margin[1], 0.0F);
    EXPECT_EQ(t.gap[1], 0.0F);

    params.temperature = 2;
    backend.run(op::confidence{x, *head, c.set(), params, t.out()});
    EXPECT_NEAR(t.probability[0], 2 / (4 + std::sqrt(2.0)), 1e-6);
    EXPECT_NEAR(t.gap[0], std::log(2.0), 1e-6);  // the gap is that of the logits themselves

    params.temperature = 1;
    const std::int32_t banned[2] = {2, 0};
    params.banned = banned;
    params.banned_count = 2;
    backend.run(op::confidence{x, *head, c.set(), params, t.out()});
    EXPECT_EQ(t.token, (std::vector<std::int32_t>{1, 1}));
    EXPECT_NEAR(t.probability[0], 2.0 / 3, 1e-6);
    EXPECT_NEAR(t.margin[0], 1.0 / 3, 1e-6);
    params.temperature = 0;
    EXPECT_THROW(backend.run(op::confidence{x, *head, c.set(), params, t.out()}), std::logic_error);
  };
  check(reference_backend());
  test::for_each_isa(check);
}

// Both folds of a chunk against float64. The candidates pick columns of the head, which are their logits:
// random; ties; a certain token; the best is banned; the best is in the last slice, which is not full; a tie
// between lanes; the second best beside the best, in another pair of loads of its lane, again beside it but banned, and
// as high in the other load of the pair.
TEST(head, folds_are_the_definition_over_several_slices) {
  constexpr std::int32_t candidates = 10, vocabulary = 3 * 2048 + 777, banned = 5000;
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> w(static_cast<std::size_t>(vocabulary) * candidates);
  const auto logit = [&](std::int32_t token, std::int32_t candidate) -> float& {
    return w[static_cast<std::size_t>(token * candidates + candidate)];
  };
  for (float& x : w) x = from_bf16(to_bf16(normal(rng)));
  logit(4100, 1) = logit(17, 1) = logit(18, 1) = 30;
  logit(3, 2) = 35;
  logit(banned, 3) = 99;
  logit(vocabulary - 1, 4) = 40;
  logit(700, 5) = logit(40, 5) = 30;
  logit(901, 6) = 31;
  logit(900, 6) = 29;
  logit(1024, 7) = 31;
  logit(1024 + 5 * 128, 7) = 30;
  logit(banned, 8) = 33;
  logit(banned + 1, 8) = 31;
  logit(banned + 2, 8) = 28;
  logit(1024, 9) = logit(1024 + 128, 9) = 30;
  grid x({candidates, candidates});
  for (std::int32_t c = 0; c < candidates; ++c) {
    for (std::int32_t k = 0; k < candidates; ++k) x.at(c, k) = c == k ? 1.0F : 0.0F;
  }
  test::candidates_fixture c;
  c.add({1, 2, 4, 8, 16, 32, 64, 128, 256, 512});
  const auto check = [&](const backend& backend, bool seconds) {
    const auto head = backend.pack(make_view(w.data(), dtype::f32, {vocabulary, candidates}),
                                   weight_format::bf16);
    told t(candidates);
    std::vector<float> residual(candidates, test::nan);
    confidence_out out = t.out();
    out.negative_entropy = nullptr;
    out.residual = residual.data();
    if (!seconds) out.margin = out.top2_logit_gap = nullptr;
    confidence_params params;
    params.temperature = 0.5F;
    params.banned = &banned;
    params.banned_count = 1;
    backend.run(op::confidence{x, *head, c.set(), params, out});
    told lonely(1);
    test::candidates_fixture one;
    one.add({4});
    one.row = {2};
    confidence_out alone;
    alone.token = lonely.token.data();
    alone.probability = lonely.probability.data();
    backend.run(op::confidence{x, *head, one.set(), params, alone});
    backend.synchronize();
    EXPECT_EQ(lonely.token[0], t.token[2]);
    EXPECT_TRUE(test::same_bits(&lonely.probability[0], &t.probability[2], 1)) << "alone or not";
    for (std::int32_t i = 0; i < candidates; ++i) {
      SCOPED_TRACE(i);
      const auto at = static_cast<std::size_t>(i);
      const auto z = [&](std::int32_t v) { return v == banned ? -1e30 : double{logit(v, i)}; };
      std::int32_t best = 0;
      for (std::int32_t v = 1; v < vocabulary; ++v) best = z(v) > z(best) ? v : best;
      double rest = 0, second = -1e30;
      for (std::int32_t v = 0; v < vocabulary; ++v) {
        if (v == best) continue;
        rest += std::exp(2 * (z(v) - z(best)));
        second = std::max(second, z(v));
      }
      EXPECT_EQ(t.token[at], best);
      EXPECT_NEAR(t.probability[at], 1 / (1 + rest), 3e-6);
      // Exponents of 2 reach 115, whose last bit is 7.6e-6: a base is rounded by half of it, which is 2.6e-6 of
      // each weight, and the scale by as much.
      EXPECT_NEAR(residual[at] / (rest / (1 + rest)), 1, 6e-6);
      if (!seconds) continue;
      EXPECT_NEAR(t.margin[at], (1 - std::exp(2 * (second - z(best)))) / (1 + rest), 3e-6);
      EXPECT_EQ(t.gap[at], static_cast<float>(z(best) - second));
    }
  };
  test::for_each_device([&](const backend& device) {
    for (const bool newer : {false, true}) {
      SCOPED_TRACE(newer ? "newer" : "before");
      cuda::choices choices = cuda::choices_of_environment(/*graphs=*/false);
      choices.newer = newer;
      const bool emulated = device.where() != target::cuda;
      if (emulated) cuda::emulator::begin_counting(false);
      check(test::with(choices, device), true);
      if (newer) check(test::with(choices, device), false);
      if (!emulated) continue;
      const auto launched = cuda::emulator::end_counting().kernels;
      EXPECT_EQ(launched.contains("head_fold"), newer);
      EXPECT_EQ(launched.contains("head_chunk"), !newer);
    }
  });
}

// A candidate's bits from both folds of a chunk: alone and among others, wherever it is among them, and whatever the
// order of the emulator's blocks. Candidates pick columns of the head, so that no product has a part in it.
TEST(head, a_fold_has_its_bits_in_any_batch) {
  constexpr std::int32_t candidates = 90, vocabulary = 2 * 2048 + 333;
  std::mt19937 rng(29);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> w(static_cast<std::size_t>(vocabulary) * candidates);
  for (float& z : w) z = from_bf16(to_bf16(normal(rng)));
  grid x({candidates, candidates});
  for (std::int32_t c = 0; c < candidates; ++c) {
    for (std::int32_t k = 0; k < candidates; ++k) x.at(c, k) = c == k ? 1.0F : 0.0F;
  }
  const auto ask = [&](const backend& on, const std::vector<std::int32_t>& rows) {
    const auto head =
        on.pack(make_view(w.data(), dtype::f32, {vocabulary, candidates}), weight_format::bf16);
    told t(static_cast<std::int32_t>(rows.size()));
    test::candidates_fixture c;
    c.add(rows);
    c.row = rows;
    confidence_out out = t.out();
    out.negative_entropy = nullptr;
    on.run(op::confidence{x, *head, c.set(), {}, out});
    on.synchronize();
    return t;
  };
  std::optional<told> first[2];  // on the emulator, by both folds
  test::for_each_device([&](const backend& device) {
    const bool emulated = device.where() != target::cuda;
    for (const bool newer : {false, true}) {
      SCOPED_TRACE(newer ? "newer" : "before");
      cuda::choices choices = cuda::choices_of_environment(/*graphs=*/false);
      choices.newer = newer;
      const backend& on = test::with(choices, device);
      std::vector<std::int32_t> rows(candidates);
      std::iota(rows.begin(), rows.end(), 0);
      if (emulated) cuda::emulator::begin_counting(false);
      const told all = ask(on, rows);
      if (emulated) {
        EXPECT_EQ(cuda::emulator::end_counting().kernels.contains("head_fold"), newer);
      }
      std::optional<told>& before = first[newer ? 1 : 0];
      if (emulated && !before) before = all;
      std::ranges::reverse(rows);
      for (const std::size_t count : {90, 33, 8, 1}) {
        rows.resize(count);
        const told some = ask(on, rows);
        for (std::size_t i = 0; i < count; ++i) {
          const auto row = static_cast<std::size_t>(rows[i]);
          ASSERT_TRUE(some.same(i, all, row)) << count << " candidates, row " << row;
          ASSERT_TRUE(!emulated || before->same(row, all, row)) << "schedules, row " << row;
        }
      }
    }
  });
}

// Ties go to the lowest token. Where float32 probabilities round to 1, the residual still says which
// token is surer.
TEST(head, ties_go_to_the_lowest_and_near_certain_tokens_keep_their_order) {
  grid x({4, 4});
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t v = 0; v < 4; ++v) x.at(r, v) = 0;
  }
  const float high[3] = {20, 26, 23};
  for (std::int64_t r = 0; r < 3; ++r) x.at(r, 1) = high[r];
  test::candidates_fixture c;
  c.add({3, 5, 9, 11});
  const auto check = [&](const backend& backend, double tolerance) {
    confidence_params params;
    params.accumulate_double = true;
    told t(4);
    std::vector<float> residual(4);
    confidence_out out = t.out();
    out.residual = residual.data();
    backend.run(op::confidence{x, *identity(backend, 4), c.set(), params, out});
    backend.synchronize();
    EXPECT_EQ(t.token, (std::vector<std::int32_t>{1, 1, 1, 0}));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(t.probability[i], 1.0F);
      const double rest = 3 * std::exp(-double{high[i]});
      EXPECT_NEAR(residual[i], rest, tolerance * rest) << backend.name();
    }
    EXPECT_EQ(t.probability[3], 0.25F);
    EXPECT_EQ(t.margin[3], 0.0F);
    params.temperature = 0;
    EXPECT_THROW(backend.run(op::confidence{x, *identity(backend, 4), c.set(), params, out}),
                 std::logic_error);
  };
  check(reference_backend(), 1e-6);
  check(cpu_backend(), 1e-4);
  test::for_each_device([&](const backend& device) { check(device, 1e-6); });
}

// Best and second best planted in the same chunk, the same segment and far apart, in both orders.
TEST(head, confidence_finds_the_two_largest_anywhere) {
  std::mt19937 rng(26);
  constexpr std::int32_t vocabulary = 60011;
  const std::vector<float> noise = test::random_vector(rng, vocabulary, 0.1F);
  test::candidates_fixture c;
  c.add({0});
  grid x({1, 1});
  x.at(0, 0) = 1;
  test::for_each_isa([&](const backend& on) {
    for (const std::int32_t first : {0, 47, 700, 31000, vocabulary - 1}) {
      for (const std::int32_t distance : {1, 16, 385, 500, 800, 1300, 20000}) {
        const std::int32_t other =
            first + distance < vocabulary ? first + distance : first - distance;
        for (const bool swap : {false, true}) {
          std::vector<float> w = noise;
          w[static_cast<std::size_t>(swap ? other : first)] = 5;
          w[static_cast<std::size_t>(swap ? first : other)] = 4;
          const auto head =
              on.pack(make_view(w.data(), dtype::f32, {vocabulary, 1}), weight_format::f32);
          told t(1);
          on.run(op::confidence{x, *head, c.set(), {}, t.out()});
          ASSERT_EQ(t.token[0], swap ? other : first);
          ASSERT_EQ(t.gap[0], 1.0F) << first << " and " << other;
          ASSERT_TRUE(test::close(t.margin[0] / t.probability[0], 1 - std::exp(-1.0), 1e-5));
        }
        std::vector<float> tie = noise;
        tie[static_cast<std::size_t>(first)] = tie[static_cast<std::size_t>(other)] = 5;
        const auto head =
            on.pack(make_view(tie.data(), dtype::f32, {vocabulary, 1}), weight_format::f32);
        told t(1);
        on.run(op::confidence{x, *head, c.set(), {}, t.out()});
        ASSERT_EQ(t.token[0], std::min(first, other));
        ASSERT_EQ(t.gap[0], 0.0F);
      }
    }
  });
}

// With more rows than one tile and any number of threads, each row as if it were alone.
TEST(head, confidence_is_batch_invariant) {
  std::mt19937 rng(23);
  test::for_each_isa([&](const backend& on) {
    const std::int64_t vocabulary = 2500, width = 61;
    std::vector<float> w = test::random_vector(rng, vocabulary * width, 0.5F);
    const auto head =
        on.pack(make_view(w.data(), dtype::f32, {vocabulary, width}), weight_format::f32);
    grid x({150, width});
    x.randomize(rng);
    std::vector<std::uint64_t> seed{5, 6};
    std::vector<std::int32_t> step{3, 0};
    for (const float noise : {0.0F, 0.8F}) {
      confidence_params params;
      params.gumbel_temperature = noise;
      params.noise = {seed.data(), step.data()};
      test::candidates_fixture c;
      std::vector<std::int32_t> first, second;
      for (std::int32_t p = 0; p < 70; ++p) first.push_back(p);
      for (std::int32_t p = 0; p < 80; ++p) second.push_back(2 * p);
      c.add(first);
      c.add(second);
      told all(150), again(150);
      on.run(op::confidence{x, *head, c.set(), params, all.out()});
      const int threads = omp_get_max_threads();
      omp_set_num_threads(3);
      on.run(op::confidence{x, *head, c.set(), params, again.out()});
      omp_set_num_threads(threads);
      for (std::size_t i = 0; i < 150; i += 7) {
        ASSERT_TRUE(again.same(i, all, i)) << i;
        test::candidates_fixture alone;
        if (i >= 70) alone.add({});
        alone.add({c.position[i]});
        alone.row = {static_cast<std::int32_t>(i)};
        told one(1);
        on.run(op::confidence{x, *head, alone.set(), params, one.out()});
        ASSERT_TRUE(one.same(0, all, i)) << i;
      }
    }
  });
}

// The drawn token is the definition's arg-max over the noised logits, and its frequencies follow
// the softmax.
TEST(head, gumbel_noise_is_the_definition) {
  std::mt19937 rng(24);
  const std::vector<std::uint64_t> seed{0x123456789abcdefULL};
  test::for_each_isa([&](const backend& on) {
    for (const std::int64_t vocabulary : {5, 47, 3001, 60011}) {
      const std::int64_t width = vocabulary > 10000 ? 5 : 17;
      std::vector<float> w = test::random_vector(rng, vocabulary * width, 0.5F);
      const auto head =
          on.pack(make_view(w.data(), dtype::f32, {vocabulary, width}), weight_format::f32);
      grid x({40, width}), logits({40, vocabulary});
      x.randomize(rng);
      test::candidates_fixture c;
      std::vector<std::int32_t> positions;
      for (std::int32_t p = 0; p < 40; ++p) positions.push_back(p + 100);
      c.add(positions);
      on.run(op::logits{x, *head, c.row.data(), logits});
      for (const float t : {0.01F, 1.0F, 3.0F}) {
        const std::int32_t step = 9;
        const std::int32_t banned = 2;
        confidence_params params;
        params.gumbel_temperature = t;
        params.noise = {seed.data(), &step};
        params.banned = &banned;
        params.banned_count = 1;
        told got(40);
        on.run(op::confidence{x, *head, c.set(), params, got.out()});
        for (std::int32_t i = 0; i < 40; ++i) {
          const std::uint64_t key = noise_key(c.set(), params.noise, 0, i);
          std::int32_t best = -1;
          double largest = -INFINITY;
          for (std::int32_t v = 0; v < vocabulary; ++v) {
            if (v == banned) continue;
            const double u = uniform_open(key, static_cast<std::uint64_t>(v));
            const double z = logits.at(i, v) - double{t} * std::log(-std::log(u));
            if (z > largest) {
              largest = z;
              best = v;
            }
          }
          ASSERT_EQ(got.token[static_cast<std::size_t>(i)], best) << "row " << i << " t " << t;
        }
      }
    }
  });
}

TEST(head, gumbel_draws_follow_the_softmax) {
  // Logits (ln 1, ln 2, ln 3, ln 4): p = 0.1 .. 0.4.
  grid x({1, 4});
  for (int v = 0; v < 4; ++v) x.at(0, v) = std::log(static_cast<float>(v + 1));
  const auto head = identity(cpu_backend(), 4);
  test::candidates_fixture c;
  c.add({17});
  std::vector<int> count(4, 0);
  constexpr int draws = 20000;
  for (std::int32_t step = 0; step < draws; ++step) {
    const std::uint64_t seed = 99;
    confidence_params params;
    params.gumbel_temperature = 1;
    params.noise = {&seed, &step};
    told t(1);
    cpu_backend().run(op::confidence{x, *head, c.set(), params, t.out()});
    ++count[static_cast<std::size_t>(t.token[0])];
    ASSERT_TRUE(test::close(t.probability[0], 0.1 * (t.token[0] + 1), 1e-6));
  }
  for (int v = 0; v < 4; ++v) {
    EXPECT_NEAR(static_cast<double>(count[static_cast<std::size_t>(v)]) / draws, 0.1 * (v + 1),
                0.015);
  }
}

TEST(head, nan_never_wins_and_always_shows) {
  const auto check = [](const backend& backend) {
    std::vector<float> w(40, 1.0F);  // a NaN input makes every logit NaN
    const auto ones = backend.pack(make_view(w.data(), dtype::f32, {40, 1}), weight_format::f32);
    grid x({1, 1}), y({1, 4}), one_is_nan({4, 4});
    x.at(0, 0) = test::nan;
    test::candidates_fixture c;
    c.add({0});
    told t(1), u(1);
    backend.run(op::confidence{x, *ones, c.set(), {}, t.out()});
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t v = 0; v < 4; ++v) one_is_nan.at(r, v) = r == v ? 1 : 0;
      y.at(0, r) = static_cast<float>(r);
    }
    one_is_nan.at(3, 3) = test::nan;  // the weights of token 3 alone
    const auto head = backend.pack(one_is_nan, weight_format::f32);
    backend.run(op::confidence{y, *head, c.set(), {}, u.out()});
    backend.synchronize();
    EXPECT_EQ(t.token[0], 0);
    EXPECT_EQ(u.token[0], 2);
    EXPECT_TRUE(std::isnan(t.probability[0]) && std::isnan(u.probability[0]));
  };
  test::for_each_isa(check);
  test::for_each_device(check);
}

// ---- sample ----

TEST(head, sample_by_hand) {
  // p = (0.1, 0.2, 0.3, 0.4) in the order 3, 2, 1, 0; cumulative before: 0, 0.4, 0.7, 0.9.
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
    const auto run = [&](float temperature, float top_p, std::int32_t top_k, told& t,
                         bool original = false) {
      grid logits({1, 4});
      for (int v = 0; v < 4; ++v) logits.at(0, v) = std::log(static_cast<float>(v + 1));
      test::candidates_fixture c;
      c.add({4});
      const std::uint64_t seed = 1;
      const std::int32_t step = 0;
      backend->run(op::sample{
          c.set(), logits, {temperature, top_p, top_k, {&seed, &step}, original}, t.out()});
    };
    told t(1);
    run(0, 1, 0, t);
    EXPECT_EQ(t.token[0], 3);
    EXPECT_NEAR(t.probability[0], 0.4, 1e-6);
    EXPECT_NEAR(t.margin[0], 0.1, 1e-6);
    EXPECT_NEAR(t.gap[0], std::log(4.0 / 3), 1e-6);
    run(0, 0.5F, 0, t);  // tokens 3 and 2 are kept: before token 1 lies 0.7
    EXPECT_NEAR(t.probability[0], 4.0 / 7, 1e-6);
    EXPECT_NEAR(t.margin[0], 1.0 / 7, 1e-6);
    run(0, 0.0F, 0, t);  // the best is always kept
    EXPECT_NEAR(t.probability[0], 1.0, 1e-6);
    EXPECT_NEAR(t.negative_entropy[0], 0.0, 1e-6);
    run(0, 0.95F, 3, t);
    EXPECT_NEAR(t.probability[0], 4.0 / 9, 1e-6);
    run(0.5F, 1, 2, t);  // p ~ (9, 16)
    EXPECT_TRUE(t.token[0] == 2 || t.token[0] == 3);
    EXPECT_NEAR(t.probability[0], t.token[0] == 3 ? 16.0 / 25 : 9.0 / 25, 1e-6);
    const std::int32_t drawn = t.token[0];
    run(0.5F, 1, 2, t, true);  // the same draw, of which the logits as given are asked
    EXPECT_EQ(t.token[0], drawn);
    EXPECT_NEAR(t.probability[0], drawn == 3 ? 0.4 : 0.3, 1e-6);
    EXPECT_NEAR(t.margin[0], 0.1, 1e-6);
    double entropy = 0;
    for (const double q : {0.1, 0.2, 0.3, 0.4}) entropy += q * std::log(q);
    EXPECT_NEAR(t.negative_entropy[0], entropy, 1e-6);
  }
}

// Tokens, gaps of logits and logits are those of the whole head, whatever the pieces; sums of
// probabilities are added in another order.
void expect_of_pieces(const backend& on, double tolerance) {
  const test::head_question question(on);
  const auto whole = on.pack(question.weights(), weight_format::f32);
  const auto cut = test::head_in_pieces(on, question.weights(), test::uneven_edges, 0, 4);
  EXPECT_EQ(cut->out_features, whole->out_features);
  EXPECT_EQ(question.logits(*cut), question.logits(*whole));
  for (const bool entropy : {false, true}) {
    for (const float noise : {0.0F, 0.8F}) {
      SCOPED_TRACE(noise);
      const auto want = question.ask(*whole, noise, entropy),
                 got = question.ask(*cut, noise, entropy);
      EXPECT_EQ(got.tokens(), want.tokens());
      EXPECT_EQ(got.number(3), want.number(3));
      for (const std::size_t i : {0, 1, 2, 4}) {
        test::expect_close(got.number(i), want.number(i), tolerance, "number");
      }
      if (noise == 0) {
        EXPECT_EQ(got.tokens().front(), 3);
      }
    }
  }
}
TEST(head, of_pieces_says_what_the_whole_one_says) {
  expect_of_pieces(reference_backend(), 0);
  test::for_each_isa([](const backend& on) { expect_of_pieces(on, 1e-5); });
  test::for_each_device([](const backend& on) { expect_of_pieces(on, 1e-5); });
}

// Ranks have the bits of one process that has all pieces, however many each of them holds.
TEST(head, of_ranks_has_the_bits_of_the_pieces) {
  for (const backend* on : {&reference_backend(), &cpu_backend()}) {
    const test::head_question question(*on);
    const auto all = test::head_in_pieces(*on, question.weights(), test::uneven_edges, 0, 4);
    for (const std::size_t each : {1, 2}) {
      const int ranks = 4 / static_cast<int>(each);
      const auto body = [&](rank_group& group) {
        const auto mine = test::head_in_pieces(*on, question.weights(), test::uneven_edges,
                                               each * static_cast<std::size_t>(group.rank()), each);
        for (const float noise : {0.0F, 0.8F}) {
          const auto got = question.ask(*mine, noise, true), want = question.ask(*all, noise, true);
          EXPECT_EQ(got.tokens(), want.tokens());
          EXPECT_EQ(got.all_numbers(), want.all_numbers());
        }
        EXPECT_EQ(question.logits(*mine), question.logits(*all));
        // Two questions and the logits: what each rank has of four pieces comes to all. With logits goes a sum of
        // each row, in a state it has a place.
        const bool states = on->where() == target::cpu;
        const std::uint64_t state = states ? 48 : 1359 * sizeof(float);
        const std::uint64_t sent =
            test::head_question::rows *
            (each * (2 * state + 1359 * sizeof(float)) + (states ? 1 : 3) * sizeof(std::uint32_t));
        EXPECT_EQ(group.traffic().bytes, sent * static_cast<std::uint64_t>(ranks - 1));
      };
      for (const test::transport_kind by : test::every_transport) {
        EXPECT_EQ(test::on_ranks(ranks, body, 60, by),
                  std::vector<std::string>(static_cast<std::size_t>(ranks)))
            << test::transport_name(by);
      }
    }
  }
}

// A rank that read another row is noted on all ranks, whether states or whole logits travel.
TEST(head, of_ranks_that_read_other_rows_is_noted) {
  const std::vector<std::int32_t> edges = {0, 700, 701, 2500};
  for (const backend* on : {&reference_backend(), &cpu_backend()}) {
    for (const bool logits : {false, true}) {
      const auto threw = test::on_ranks(3, [&](rank_group& group) {
        test::head_question question(*on);
        const auto mine = test::head_in_pieces(*on, question.weights(), edges,
                                               static_cast<std::size_t>(group.rank()), 1);
        const auto ask = [&] {
          if (logits) question.logits(*mine);
          if (!logits) question.ask(*mine, 0, true);
        };
        ask();
        EXPECT_EQ(group.difference(), 0);
        if (group.rank() == 2) question.change(5);
        ask();
        EXPECT_EQ(group.difference(), 2);
      });
      EXPECT_EQ(threw, std::vector<std::string>(3));
    }
  }
}

TEST(head, of_pieces_needs_the_ranks_of_the_others) {
  const test::head_question question(cpu_backend());
  const auto half =
      test::head_in_pieces(cpu_backend(), question.weights(), test::uneven_edges, 0, 2);
  EXPECT_THROW(question.ask(*half, 0, false), std::logic_error);
  EXPECT_THROW(test::head_in_pieces(cpu_backend(), question.weights(), {0, 9}, 1, 1),
               std::logic_error);
}

}  // namespace
}  // namespace unmask
