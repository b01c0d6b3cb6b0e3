// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/kernels/features.h"
#include "kernels/model_core.h"
#include "kernels/rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;

const std::vector<const backend*> backends = unmask::test::host_backends();

TEST(rows, gather_and_scatter_are_inverse) {
  std::mt19937 rng(31);
  for (const backend* backend : backends) {
    grid from({6, 5}, 3), picked({4, 5}, 1), back({6, 5}, 2);
    from.randomize(rng);
    const std::vector<std::int32_t> index{5, 0, 3, 1};
    backend->run(op::gather_rows{from, index.data(), picked});
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(test::same_bits(picked.row(i), from.row(index[static_cast<std::size_t>(i)]), 5));
    }
    backend->run(op::scatter_rows{picked, index.data(), back});
    for (const std::int32_t r : index) {
      EXPECT_TRUE(test::same_bits(back.row(r), from.row(r), 5));
    }
    EXPECT_TRUE(std::isnan(back.at(2, 0)) && std::isnan(back.at(4, 4)));

    // Bytes and 64-bit keys travel the same way; a width that differs is a mistake.
    std::vector<std::uint8_t> bytes{1, 2, 3, 4, 5, 6}, taken(4, 99);
    const std::vector<std::int32_t> two{2, 0};
    backend->run(op::gather_rows{make_view(bytes.data(), dtype::u8, {3, 2}), two.data(),
                                 make_view(taken.data(), dtype::u8, {2, 2})});
    EXPECT_EQ(taken, (std::vector<std::uint8_t>{5, 6, 1, 2}));
    EXPECT_THROW(backend->run(op::gather_rows{from, index.data(), grid({4, 4})}), std::logic_error);
  }
}

TEST(rows, compact_lists_positions) {
  std::vector<std::uint8_t> flags{1, 0, 1, 1, 0,  //
                                  0, 0, 0, 0, 0,  //
                                  1, 1, 1, 1, 1};
  const std::vector<std::int32_t> first{0, 0, 2}, last{4, 5, 4};
  for (const backend* backend : backends) {
    std::vector<std::int32_t> begin(4, -7), position(15, -7), sequence(15, -7);
    const tensor_view view = make_view(flags.data(), dtype::u8, {3, 5});
    EXPECT_EQ(backend->run(op::compact{3, view, 1, first.data(), last.data(), begin.data(),
                                       position.data(), sequence.data()}),
              5);
    EXPECT_EQ(begin, (std::vector<std::int32_t>{0, 3, 3, 5}));
    position.resize(5);
    sequence.resize(5);
    EXPECT_EQ(position, (std::vector<std::int32_t>{0, 2, 3, 2, 3}));
    EXPECT_EQ(sequence, (std::vector<std::int32_t>{0, 0, 0, 2, 2}));
    position.assign(15, -7);
    sequence.assign(15, -7);
    EXPECT_EQ(backend->run(op::compact{3, tensor_view{}, 1, first.data(), last.data(), begin.data(),
                                       position.data(), sequence.data()}),
              11);
    EXPECT_EQ(begin, (std::vector<std::int32_t>{0, 4, 9, 11}));
    EXPECT_EQ(position[9], 2);
  }
}

TEST(rows, candidates_need_their_predicting_row) {
  // Sequence 0 computes 2, 3, 5; sequence 1 computes 0, 1. Masked: 0: {3, 4, 6}; 1: {0, 1, 2}.
  const std::vector<std::int32_t> begin{0, 3, 5}, sequence{0, 0, 0, 1, 1}, position{2, 3, 5, 0, 1};
  const row_set rows{2, 5, begin.data(), sequence.data(), position.data(), nullptr};
  std::vector<std::uint8_t> state{1, 1, 1, 0, 0, 1, 0, 1,  //
                                  0, 0, 0, 1, 1, 1, 1, 1};
  const tensor_view view = make_view(state.data(), dtype::u8, {2, 8});
  const std::vector<std::int32_t> first{0, 0}, last{8, 8};
  std::vector<std::int32_t> canvas(16);
  for (std::int32_t i = 0; i < 16; ++i) canvas[static_cast<std::size_t>(i)] = 100 + i;
  for (const backend* backend : backends) {
    const auto run = [&](std::int32_t shift, const std::vector<std::int32_t>& low) {
      std::vector<std::int32_t> b(3, -7), p(8, -7), r(8, -7);
      const auto n = backend->run(op::find_candidates{
          rows, view, one_state(0), low.data(), last.data(), shift, b.data(), p.data(), r.data()});
      p.resize(static_cast<std::size_t>(n));
      r.resize(static_cast<std::size_t>(n));
      return std::tuple{b, p, r};
    };
    using v = std::vector<std::int32_t>;
    EXPECT_EQ(run(0, first), (std::tuple{v{0, 1, 3}, v{3, 0, 1}, v{1, 3, 4}}));
    EXPECT_EQ(run(1, first), (std::tuple{v{0, 3, 5}, v{3, 4, 6, 1, 2}, v{0, 1, 2, 3, 4}}));
    EXPECT_EQ(run(1, {4, 2}), (std::tuple{v{0, 2, 3}, v{4, 6, 2}, v{1, 2, 4}}));
    std::vector<std::int32_t> token(5, -7);
    backend->run(
        op::gather_tokens{rows, make_view(canvas.data(), dtype::i32, {2, 8}), token.data()});
    EXPECT_EQ(token, (v{102, 103, 105, 108, 109}));
  }
}

TEST(rows, means_and_similarities) {
  grid x({3, 2}), mean({2, 2});  // two rows of sequence 0, one of sequence 1
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 2; ++c) x.at(r, c) = static_cast<float>(r * 2 + c);
  }
  const std::vector<std::int32_t> begin{0, 2, 3}, sequence{0, 0, 1}, position{0, 1, 0};
  reference_backend().run(
      op::mean_rows{{2, 3, begin.data(), sequence.data(), position.data(), nullptr}, x, mean});
  EXPECT_EQ(mean.at(0, 0), 1);
  EXPECT_EQ(mean.at(1, 1), 5);

  grid p({1, 2}), q({1, 2});  // (1, 0) and (3, 4): cosine 3/5
  p.at(0, 0) = 1;
  p.at(0, 1) = 0;
  q.at(0, 0) = 3;
  q.at(0, 1) = 4;
  float distance = test::nan;
  reference_backend().run(op::row_distance{p, q, &distance});
  EXPECT_FLOAT_EQ(distance, 0.4F);
  reference_backend().run(op::row_distance{p, p, &distance});
  EXPECT_EQ(distance, 0.0F);
  grid zero({1, 2});
  zero.at(0, 0) = zero.at(0, 1) = 0;
  reference_backend().run(op::row_distance{p, zero, &distance});
  EXPECT_EQ(distance, 1.0F);
  // (1, t): 1 - 1 / sqrt(1 + t^2), small and exact where a float32 cosine would be 1 - a few ulps.
  q.at(0, 0) = 1;
  q.at(0, 1) = 0.0088F;
  const double t = static_cast<double>(0.0088F);
  for (const backend* backend : backends) {
    backend->run(op::row_distance{p, q, &distance});
    const double apart = 1 - 1 / std::sqrt(1 + t * t);
    EXPECT_NEAR(distance, apart, 1e-11);
    backend->run(op::row_distance{p, q, &distance, static_cast<float>(apart * 1.01)});
    EXPECT_EQ(distance, 0.0F);
    backend->run(op::row_distance{p, q, &distance, static_cast<float>(apart * 0.99)});
    EXPECT_NEAR(distance, apart, 1e-11);
  }
}

// What kv_write stores kv_read returns, on each side alone or both, into strided rows.
TEST(rows, kv_read_returns_what_kv_write_stored) {
  std::mt19937 rng(61);
  const test::rows_fixture rows(rng, {30, 0, 11}, 2 * kv_page_size);
  for (const backend* backend : backends) {
    test::cache_fixture cache(rng, 3, 2, 2, 5);
    test::grid k({41, 2, 5}, 3), v({41, 2, 5}, 1), got_k({41, 2, 5}, 2), got_v({41, 2, 5});
    k.randomize(rng);
    v.randomize(rng);
    test::grid old_v({41, 2, 5});
    backend->run(op::kv_read{rows.set, cache.kv, {}, old_v, false});
    backend->run(op::kv_write{rows.set, k, {}, cache.kv});
    backend->run(op::kv_read{rows.set, cache.kv, got_k, got_v, false});
    test::expect_close(got_k, k, 0, "keys");
    test::expect_close(got_v, old_v, 0, "values were not written");
    backend->run(op::kv_write{rows.set, {}, v, cache.kv});
    backend->run(op::kv_read{rows.set, cache.kv, got_k, got_v, true});
    for (std::int64_t r = 0; r < 41; ++r) {
      for (std::int64_t c = 0; c < 10; ++c) {
        ASSERT_EQ(got_k.at(r, c), 2 * k.at(r, c));
        ASSERT_EQ(got_v.at(r, c), old_v.at(r, c) + v.at(r, c));
      }
    }
  }
}

TEST(rows, find_rows_finds_each_row_or_throws) {
  std::mt19937 rng(62);
  const test::rows_fixture all(rng, {40, 3, 0, 20}, 64);
  std::vector<std::int32_t> begin{0}, sequence, position, want;
  for (std::int32_t s = 0; s < 4; ++s) {
    for (std::int32_t r = all.begin[static_cast<std::size_t>(s)];
         r < all.begin[static_cast<std::size_t>(s) + 1]; r += 3) {
      sequence.push_back(s);
      position.push_back(all.position[static_cast<std::size_t>(r)]);
      want.push_back(r);
    }
    begin.push_back(static_cast<std::int32_t>(want.size()));
  }
  const row_set some{4,
                     static_cast<std::int32_t>(want.size()),
                     begin.data(),
                     sequence.data(),
                     position.data(),
                     nullptr};
  for (const backend* backend : backends) {
    std::vector<std::int32_t> index(want.size(), -7);
    backend->run(op::find_rows{all.set, some, index.data()});
    EXPECT_EQ(index, want);
    std::vector<std::int32_t> beyond = position;
    beyond.back() = 64;
    const row_set wrong{4, some.rows, begin.data(), sequence.data(), beyond.data(), nullptr};
    EXPECT_THROW((backend->run(op::find_rows{all.set, wrong, index.data()}),
                  backend->synchronize()),  // a kernel's fault is known behind the next wait
                 std::logic_error);
  }
}

// Highest first, ties to the lowest index, not-a-number last; positions not listed keep their flag.
TEST(rows, mark_top_by_hand) {
  const std::vector<std::int32_t> begin{0, 4, 4, 7}, sequence{0, 0, 0, 0, 2, 2, 2};
  const std::vector<std::int32_t> position{1, 2, 4, 5, 0, 1, 2}, count{2, 3, 5};
  const std::vector<float> score{-0.5F, 1.0F, -0.5F, test::nan, 3, 2, 1};
  const row_set some{3, 7, begin.data(), sequence.data(), position.data(), nullptr};
  for (const backend* backend : backends) {
    std::vector<std::uint8_t> flags(18, 7);
    const tensor_view view = make_view(flags.data(), dtype::u8, {3, 6});
    backend->run(op::mark_top{some, score.data(), count.data(), view});
    EXPECT_EQ(flags,
              (std::vector<std::uint8_t>{7, 1, 1, 7, 0, 0, 7, 7, 7, 7, 7, 7, 1, 1, 1, 7, 7, 7}));
    const std::vector<std::int32_t> none{0, 0, 0}, all{4, 0, 3};
    backend->run(op::mark_top{some, score.data(), none.data(), view});
    EXPECT_EQ(std::count(flags.begin(), flags.end(), 0), 7);
    backend->run(op::mark_top{some, score.data(), all.data(), view});
    EXPECT_EQ(std::count(flags.begin(), flags.end(), 1), 7);
  }
}

}  // namespace
}  // namespace unmask
