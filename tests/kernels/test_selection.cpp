// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "kernels/selection.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;
using indices = std::vector<std::int32_t>;
const std::vector<const backend*> backends = unmask::test::host_backends();

TEST(selection, top_indices_by_hand) {
  const indices begin{0, 5, 5, 8}, out_begin{0, 3, 3, 6};
  const std::vector<float> score{1, 3, -0.0F, 3, 0.0F, test::nan, -test::infinity, 2};
  for (const backend* backend : backends) {
    indices out(6, -7);
    backend->run(op::top_indices{3, begin.data(), score.data(), out_begin.data(), out.data()});
    EXPECT_EQ(out, (indices{1, 3, 0, 2, 1, 0}));  // NaN last, even after -infinity
    const indices four{0, 4, 4, 4};
    backend->run(op::top_indices{3, begin.data(), score.data(), four.data(), out.data()});
    EXPECT_EQ(out[3], 2);  // -0 ties with +0: the lower index
    const indices too_many{0, 6, 6, 6};
    EXPECT_THROW(
        (backend->run(op::top_indices{3, begin.data(), score.data(), too_many.data(), out.data()}),
         backend->synchronize()),
        std::logic_error);
  }
}

TEST(selection, property_top_indices_is_a_stable_sort) {
  EXPECT_TRUE(rc::check("top_indices", [] {
    const auto levels = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-5, 5));
    std::vector<float> score;
    for (const int l : levels) score.push_back(static_cast<float>(l) / 4);
    const auto m = static_cast<std::int32_t>(score.size());
    const std::int32_t n = *rc::gen::inRange(0, m + 1);
    indices want(score.size());
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](std::int32_t a, std::int32_t b) {
      return score[static_cast<std::size_t>(a)] > score[static_cast<std::size_t>(b)];
    });
    want.resize(static_cast<std::size_t>(n));
    const indices begin{0, m}, out_begin{0, n};
    for (const backend* backend : backends) {
      indices out(static_cast<std::size_t>(n), -7);
      backend->run(op::top_indices{1, begin.data(), score.data(), out_begin.data(), out.data()});
      RC_ASSERT(out == want);
    }
  }));
}

// A slot has the score that it has among all, listed or not.
TEST(selection, key_scores_of_listed_slots) {
  std::mt19937 rng(41);
  const auto check = [&](const backend& backend) {
    for (const std::int64_t dim : {5, 24, 64, 128}) {
      test::cache_fixture cache(rng, 3, 3, 2, dim);
      grid q({3, 6, dim}, 4);
      q.randomize(rng);
      const indices length{130, 0, 65};
      key_set keys;
      keys.kv_length = length.data();
      std::vector<float> all(195, test::nan), listed(8, test::nan);
      backend.run(op::key_scores{q, cache.kv, keys, all.data()});
      const indices begin{0, 4, 5, 8}, slot{129, 3, 70, 3, 191, 0, 64, 1};
      keys.key_begin = begin.data();
      keys.key_slot = slot.data();
      backend.run(op::key_scores{q, cache.kv, keys, listed.data()});
      backend.synchronize();
      EXPECT_TRUE(test::same_bits(&listed[0], &all[129], 1));
      EXPECT_TRUE(test::same_bits(&listed[2], &all[70], 1));
      EXPECT_TRUE(test::same_bits(&listed[6], &all[130 + 64], 1));
    }
  };
  check(reference_backend());
  test::for_each_isa(check);
  test::for_each_device(check);
}

// One head of width 1, rows with q = (1, 2), k = (0, ln 2): scores q k. Pooling over two keys gives
// both the larger one, so every softmax is (1/2, 1/2) and the importance (1, 1).
// Three keys k = (0, 0, c): row i pools to (0, m, m), m = max(0, q_i c).
TEST(selection, importance_by_hand) {
  const indices begin{0, 2, 2, 5}, index{0, 1, 2, 3, 4};
  for (const backend* backend : backends) {
    grid q({5, 1, 1}), k({5, 1, 1});
    const std::vector<float> qs{1, 2, 1, 1, 2}, ks{0, std::log(2.0F), 0, 0, std::log(3.0F)};
    for (std::int64_t r = 0; r < 5; ++r) {
      q.at(r, 0) = qs[static_cast<std::size_t>(r)];
      k.at(r, 0) = ks[static_cast<std::size_t>(r)];
    }
    std::vector<float> out(5, test::nan);
    backend->run(op::importance{3, begin.data(), index.data(), q, k, 1.0F, out.data()});
    // q = 1: (1, 3, 3) / 7 twice; q = 2: (1, 9, 9) / 19.
    const float first = static_cast<float>(2.0 / 7 + 1.0 / 19);
    const float rest = static_cast<float>(6.0 / 7 + 9.0 / 19);
    test::expect_close(out, {1, 1, first, rest, rest}, 1e-6);
  }
}

}  // namespace
}  // namespace unmask
