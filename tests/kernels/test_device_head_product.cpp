// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The head's product whose logits stay in registers (head_product_kernels.h): against whole numbers, of which every
// logit is exact, against logits that candidates pick, and against the product and the fold before.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/head_tiles.h"
#include "kernels/float16.h"
#include "kernels/head.h"
#include "tests/kernels/cut_heads.h"
#include "tests/kernels/half_rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::half_rows;

struct head_shape {
  std::int64_t candidates, tokens, width;
  std::string text() const {
    return std::to_string(candidates) + " x " + std::to_string(tokens) + " x " +
           std::to_string(width);
  }
};

struct answers {
  std::vector<std::int32_t> token;
  std::vector<float> probability, residual, margin, gap;
  explicit answers(std::size_t n)
      : token(n, -77), probability(n, NAN), residual(n, NAN), margin(n, NAN), gap(n, NAN) {}
  confidence_out out(bool seconds) {
    confidence_out o;
    o.token = token.data();
    o.probability = probability.data();
    o.residual = residual.data();
    if (seconds) o.margin = margin.data();
    if (seconds) o.top2_logit_gap = gap.data();
    return o;
  }
  // Bits of all that is said of candidate i.
  std::vector<std::uint32_t> bits(std::size_t i) const {
    std::vector<std::uint32_t> all{static_cast<std::uint32_t>(token[i])};
    for (const float x : {probability[i], residual[i], margin[i], gap[i]}) {
      std::uint32_t word = 0;
      std::memcpy(&word, &x, sizeof word);
      all.push_back(word);
    }
    return all;
  }
};

struct head_case {
  head_shape of;
  half_rows x, w;
  std::vector<std::int32_t> banned;
  float temperature = 1;
  explicit head_case(const head_shape& s) : of(s), x(s.candidates, s.width), w(s.tokens, s.width) {}
  static head_case of_whole_numbers(const head_shape& s, unsigned seed) {
    head_case one(s);
    std::mt19937 rng(seed);
    std::uniform_int_distribution<int> number(-2, 2);
    for (half_rows* h : {&one.x, &one.w}) {
      for (std::uint16_t& v : h->values) v = to_bf16(static_cast<float>(number(rng)));
    }
    return one;
  }
  static head_case of_normals(const head_shape& s, unsigned seed) {
    head_case one(s);
    std::mt19937 rng(seed);
    one.x.fill_normal(rng, 1);
    one.w.fill_normal(rng, 3 / std::sqrt(static_cast<float>(s.width)));
    return one;
  }
  answers ask(const backend& on, const packed_matrix& head, const std::vector<std::int32_t>& rows,
              bool seconds) const {
    answers said(rows.size());
    test::candidates_fixture c;
    c.add(rows);
    c.row = rows;
    confidence_params params;
    params.temperature = temperature;
    params.banned = banned.data();
    params.banned_count = static_cast<std::int32_t>(banned.size());
    on.run(op::confidence{x.view, head, c.set(), params, said.out(seconds)});
    on.synchronize();
    return said;
  }
  answers ask(const backend& on, const std::vector<std::int32_t>& rows, bool seconds) const {
    return ask(on, *on.pack(w.view, weight_format::bf16), rows, seconds);
  }
  std::vector<std::int32_t> every_row() const {
    std::vector<std::int32_t> all(static_cast<std::size_t>(of.candidates));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  answers ask(const backend& on, bool seconds) const { return ask(on, every_row(), seconds); }
  double logit(std::int64_t candidate, std::int64_t token) const {
    if (std::ranges::count(banned, token) > 0) return -INFINITY;
    double sum = 0;
    for (std::int64_t k = 0; k < of.width; ++k) sum += double{x.at(candidate, k)} * w.at(token, k);
    return sum;
  }

  // By exact logits, in float64.
  void expect(const answers& got, bool seconds) const {
    for (std::int64_t c = 0; c < of.candidates; ++c) {
      SCOPED_TRACE("candidate " + std::to_string(c));
      std::vector<double> z;
      for (std::int64_t v = 0; v < of.tokens; ++v) z.push_back(logit(c, v));
      const auto best = static_cast<std::size_t>(std::ranges::max_element(z) - z.begin());
      double rest = 0, second = -INFINITY;
      for (std::size_t v = 0; v < z.size(); ++v) {
        if (v == best) continue;
        rest += std::exp((z[v] - z[best]) / temperature);
        second = std::max(second, z[v]);
      }
      const auto at = static_cast<std::size_t>(c);
      ASSERT_EQ(got.token[at], static_cast<std::int32_t>(best));
      ASSERT_NEAR(got.probability[at] * (1 + rest), 1, 6e-6);
      // Exponents of 2 reach some hundred, whose last bits are 1e-5 of a weight.
      ASSERT_NEAR(got.residual[at], rest / (1 + rest), 1e-5 * rest / (1 + rest));
      if (!seconds) continue;
      ASSERT_NEAR(got.margin[at], (1 - std::exp((second - z[best]) / temperature)) / (1 + rest),
                  3e-6);
      ASSERT_EQ(got.gap[at], static_cast<float>(z[best] - second));
    }
  }
};

cuda::choices with_newer(bool newer) {
  return {.graphs = false, .newer = newer, .left_out = {}};
}

// The launches of a question by this name.
template <class Ask>
std::size_t launches_of(const char* name, const Ask& ask) {
  cuda::emulator::begin_counting(false);
  ask();
  const auto kernels = cuda::emulator::end_counting().kernels;
  const auto found = kernels.find(name);
  return found == kernels.end() ? 0 : found->second.launches;
}
std::size_t launches_of(const backend& on, const head_case& one) {
  return launches_of("head_product", [&] { (void)one.ask(on, true); });
}

// Candidates at both sides of the ends of warps, warpgroups, copies and tiles; tokens at both sides of the end of
// a tile, of a cluster's tiles and of the last cluster; k that ends with a step or within one, and more steps than
// stages. Whole numbers are often equal: the first of the largest is the token. Some tokens are banned.
TEST(folded_product, whole_numbers_are_the_definition) {
  const std::vector<head_shape> shapes = {{129, 1, 8},    {191, 2, 136},  {192, 191, 64},
                                          {193, 192, 72}, {255, 193, 8},  {256, 383, 64},
                                          {436, 384, 24}, {511, 385, 16}, {512, 777, 328}};
  test::for_each_device([&](const backend& device) {
    const backend& newer = test::with(with_newer(true), device);
    unsigned seed = 1;
    for (const head_shape& s : shapes) {
      SCOPED_TRACE(s.text());
      head_case one = head_case::of_whole_numbers(s, seed++);
      one.temperature = 2;
      const auto last = static_cast<std::int32_t>(s.tokens) - 1;
      if (s.tokens > 8) one.banned = {last, 0, 7, last - 1};
      if (device.where() != target::cuda) {
        EXPECT_EQ(launches_of(newer, one), 1U);
      }
      // Without another token the gap is infinite.
      const bool seconds = s.tokens > 1 && s.candidates != 255;
      one.expect(one.ask(newer, seconds), seconds);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

// Candidates pick columns of the head, which are their logits: random; ties within a lane, between lanes and between
// tiles; a certain token; the best is banned; the best is the last token, in a tile that is not full; the second best
// beside the best, in another tile, and as high.
TEST(folded_product, folds_are_the_definition) {
  constexpr std::int32_t tokens = 3 * 192 + 77, candidates = 136, banned = 500;
  head_case one({candidates, tokens, candidates});
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 3);
  for (std::uint16_t& v : one.w.values) v = to_bf16(normal(rng));
  const auto logit = [&](std::int32_t token, std::int32_t candidate, float z) {
    one.w.values[static_cast<std::size_t>(token * candidates + candidate)] = to_bf16(z);
  };
  for (std::int32_t c = 0; c < candidates; ++c) {
    for (std::int32_t k = 0; k < candidates; ++k) {
      one.x.values[static_cast<std::size_t>(c * candidates + k)] = to_bf16(c == k ? 1.0F : 0.0F);
    }
  }
  for (const std::int32_t of_warp : {0, 64, 120}) {
    const auto at = [of_warp](std::int32_t candidate) { return of_warp + candidate; };
    for (const std::int32_t token : {410, 17, 18, 25, 600}) logit(token, at(1), 30);
    logit(3, at(2), 35);
    logit(banned, at(3), 99);
    logit(tokens - 1, at(4), 40);
    for (const std::int32_t token : {192, 191}) logit(token, at(5), 31);
    logit(301, at(6), 31);
    logit(300, at(6), 29);
    logit(100, at(7), 31);
    logit(400, at(7), 30);
    logit(banned, at(8), 33);
    logit(banned + 1, at(8), 31);
    logit(banned - 1, at(8), 28);
    for (const std::int32_t token : {64, 72}) logit(token, at(9), 30);
  }
  one.banned = {banned};
  one.temperature = 0.5F;
  test::for_each_device([&](const backend& device) {
    const backend& newer = test::with(with_newer(true), device);
    for (const bool seconds : {false, true}) one.expect(one.ask(newer, seconds), seconds);
  });
}

// A row has the same bits among few and many candidates, wherever it is among them, in every run, and whatever the
// order of the emulator's blocks.
TEST(folded_product, a_row_has_its_bits_in_any_batch) {
  const head_case one = head_case::of_normals({512, 401, 72}, 9);
  std::optional<answers> first;  // on the emulator
  test::for_each_device([&](const backend& device) {
    const backend& newer = test::with(with_newer(true), device);
    const answers together = one.ask(newer, true), again = one.ask(newer, true);
    const bool emulated = device.where() != target::cuda;
    if (emulated && !first) first = together;
    std::vector<std::int32_t> rows = one.every_row();
    std::ranges::reverse(rows);
    for (const std::size_t count : {512, 440, 256, 129}) {
      rows.resize(count);
      const answers some = one.ask(newer, rows, true);
      for (std::size_t i = 0; i < count; ++i) {
        const auto row = static_cast<std::size_t>(rows[i]);
        ASSERT_EQ(some.bits(i), together.bits(row)) << count << " candidates, row " << row;
        ASSERT_EQ(again.bits(row), together.bits(row)) << row;
        ASSERT_TRUE(!emulated || first->bits(row) == together.bits(row)) << "schedules, " << row;
      }
    }
  });
}

// Sums in another order than the kernels before have them.
TEST(folded_product, normals_are_as_before) {
  const head_case one = head_case::of_normals({300 - 44, 1000, 520}, 11);
  test::for_each_device([&](const backend& device) {
    const answers got = one.ask(test::with(with_newer(true), device), true),
                  want = one.ask(test::with(with_newer(false), device), true);
    for (std::size_t i = 0; i < got.token.size(); ++i) {
      if (want.gap[i] > 1e-4F) {
        ASSERT_EQ(got.token[i], want.token[i]) << i;
      }
      ASSERT_NEAR(got.probability[i], want.probability[i], 1e-4F * want.probability[i]) << i;
      ASSERT_NEAR(got.residual[i], want.residual[i], 1e-4F * want.residual[i]) << i;
      ASSERT_NEAR(got.gap[i], want.gap[i], 1e-4F) << i;
    }
  });
}

TEST(folded_product, nan_never_wins_and_always_shows) {
  head_case one = head_case::of_whole_numbers({129, 400, 8}, 3);
  for (std::int64_t k = 0; k < 8; ++k) one.w.values[static_cast<std::size_t>(390 * 8 + k)] = 0x7FC0;
  head_case none = head_case::of_whole_numbers({129, 3, 8}, 3);
  none.banned = {0, 1, 2};
  test::for_each_device([&](const backend& device) {
    const backend &newer = test::with(with_newer(true), device),
                  &before = test::with(with_newer(false), device);
    for (const head_case* c : {&one, &none}) {
      const answers got = c->ask(newer, false), want = c->ask(before, false);
      EXPECT_EQ(got.token, want.token);
      for (const float p : got.probability) ASSERT_TRUE(std::isnan(p));
    }
  });
}

// Pieces of a head, one of them of one token: tokens, gaps and bits of what the whole says in the same tiles.
TEST(folded_product, of_pieces_says_what_the_whole_one_says) {
  head_case one = head_case::of_whole_numbers({130, 970, 40}, 5);
  one.banned = {3, 399, 400, 969};
  test::for_each_device([&](const backend& device) {
    const backend& newer = test::with(with_newer(true), device);
    const auto whole = newer.pack(one.w.view, weight_format::bf16);
    const auto cut =
        test::head_in_pieces(newer, one.w.view, {0, 399, 400, 970}, 0, 3, weight_format::bf16);
    const answers want = one.ask(newer, *whole, one.every_row(), true);
    const auto ask = [&] { return one.ask(newer, *cut, one.every_row(), true); };
    const answers got = ask();
    EXPECT_EQ(got.token, want.token);
    EXPECT_EQ(got.gap, want.gap);
    test::expect_close(got.probability, want.probability, 1e-5, "probability");
    test::expect_close(got.residual, want.residual, 1e-5, "residual");
    if (device.where() != target::cuda) {
      EXPECT_EQ(launches_of("head_product", [&] { (void)ask(); }), 3U);
    }
  });
}

// What it does not take: the library's product and a fold of chunks.
TEST(folded_product, other_questions_are_the_library_s) {
  const backend& newer = cuda_emulated_backend(with_newer(true));
  const auto launches = [&](const backend& on, const head_shape& s) {
    return launches_of(on, head_case::of_whole_numbers(s, 7));
  };
  EXPECT_EQ(launches(newer, {129, 200, 8}), 1U);
  EXPECT_EQ(launches(newer, {128, 200, 8}), 0U) << "candidates that only read weights";
  EXPECT_EQ(launches(newer, {257, 200, 8}), 0U) << "candidates that fill half of two tiles";
  EXPECT_EQ(launches(newer, {129, 200, 12}), 0U) << "k that is no whole pieces";
  EXPECT_EQ(launches(cuda_emulated_backend(with_newer(false)), {129, 200, 8}), 0U);
  cuda::choices without = with_newer(true);
  without.left_out.insert({cuda::multiplied::head_product, cuda::multiplier::newer});
  EXPECT_EQ(launches(cuda_emulated_backend(without), {129, 200, 8}), 0U);
  cuda::choices plain = with_newer(true);
  plain.wgmma = false;
  EXPECT_EQ(launches(cuda_emulated_backend(plain), {129, 200, 8}), 0U);
}

// Noise and entropy need the logits.
TEST(folded_product, what_needs_logits_has_them) {
  const backend& newer = cuda_emulated_backend(with_newer(true));
  const head_case one = head_case::of_whole_numbers({129, 200, 8}, 7);
  const packed_handle head = newer.pack(one.w.view, weight_format::bf16);
  test::candidates_fixture c;
  c.add(one.every_row());
  const std::uint64_t seed = 5;
  const std::int32_t step = 3;
  std::vector<float> entropy(129);
  const auto launched = [&](float noise, bool entropies) {
    return launches_of("head_product", [&] {
      answers said(129);
      confidence_params params;
      params.gumbel_temperature = noise;
      params.noise = {&seed, &step};
      confidence_out out = said.out(false);
      if (entropies) out.negative_entropy = entropy.data();
      newer.run(op::confidence{one.x.view, *head, c.set(), params, out});
      newer.synchronize();
    });
  };
  EXPECT_EQ(launched(0, false), 1U);
  EXPECT_EQ(launched(1, false), 0U);
  EXPECT_EQ(launched(0, true), 0U);
}

TEST(folded_product, candidates_fill_tiles_or_the_library_multiplies) {
  for (const std::int64_t taken : {129, 192, 256, 436, 512, 653, 768, 1024, 4369, 8192}) {
    EXPECT_TRUE(cuda::head_tiles_pay(taken)) << taken;
  }
  for (const std::int64_t left : {1, 32, 64, 128, 257, 320, 435, 513, 600, 652}) {
    EXPECT_FALSE(cuda::head_tiles_pay(left)) << left;
  }
  // SDAR-8B on an H100: twelve whole waves of 66 clusters.
  EXPECT_EQ(cuda::head_tile_items(512, 151936), 12 * 66);
}

}  // namespace
}  // namespace unmask
