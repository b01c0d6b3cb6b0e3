// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which of the library's algorithms for a product is taken.
#include "kernels/cuda/tuned_products.h"

#include <gtest/gtest.h>

namespace unmask::cuda {
namespace {

// y [320, 4096] of k 64 in bfloat16, by hand. Tiles of 128 columns and 256 rows: two of rows read W twice, 32 of
// columns x 32 times. In clusters of two across the columns 16 times; in clusters of two down the rows W once.
TEST(tuned_products, bytes_are_those_of_the_blocks_that_share_none) {
  const auto bytes = [](const product_tile& t) { return bytes_read(t, 320, 4096, 64, 2); };
  EXPECT_EQ(bytes({128, 256}), (4096.0 * 2 + 320 * 32) * 128);
  EXPECT_EQ(bytes({128, 256, 2, 1}), (4096.0 * 2 + 320 * 16) * 128);
  EXPECT_EQ(bytes({128, 256, 1, 2}), (4096.0 * 1 + 320 * 32) * 128);
  // Three parts of k: float32 sums, written and read.
  EXPECT_EQ(bytes({128, 256, 1, 1, 3}), (4096.0 * 2 + 320 * 32) * 128 + 3.0 * 8 * 320 * 4096);
  EXPECT_EQ(bytes({}), 0);
}

TEST(tuned_products, the_fewest_bytes_of_those_within_five_per_cent_of_the_fastest) {
  EXPECT_EQ(best_of({{1.04, 90}, {1.0, 100}, {1.06, 10}}), 0U);
  EXPECT_EQ(best_of({{1.04, 90}, {1.0, 100}, {1.05, 80}}), 2U);
  EXPECT_EQ(best_of({{1.0, 100}, {1.02, 100}}), 0U) << "as many bytes";
  EXPECT_EQ(best_of({{1.0, 100}, {1.04, 90}, {1.02, 90}}), 2U) << "the faster of two with as few";
  EXPECT_EQ(best_of({{1.0, 100}, {1.01, 0}}), 0U) << "unknown bytes are not few";
  EXPECT_EQ(best_of({{1.0, 0}, {1.01, 10}}), 0U) << "of which nobody knows whether there are fewer";
  EXPECT_EQ(best_of({{3, 5}}), 0U);
}

}  // namespace
}  // namespace unmask::cuda
