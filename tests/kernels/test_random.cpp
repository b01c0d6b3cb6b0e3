// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/float16.h"
#include "kernels/random.h"

namespace unmask {
namespace {

// Known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(random, philox_known_answers) {
  const auto expect = [](const philox4& r, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                         std::uint32_t d) {
    EXPECT_EQ(r.x[0], a);
    EXPECT_EQ(r.x[1], b);
    EXPECT_EQ(r.x[2], c);
    EXPECT_EQ(r.x[3], d);
  };
  expect(philox4x32(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect(philox4x32(~0ULL, ~0ULL, ~0ULL), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
  expect(philox4x32(0x299f31d0a4093822ULL, 0x0370734413198a2eULL, 0x85a308d3243f6a88ULL),
         0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(random, uniform_lies_strictly_between_zero_and_one) {
  double sum = 0, squares = 0;
  constexpr int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double u = uniform_open(42, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(u > 0 && u < 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.003);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.003);
  // The ends of the mapping: all bits set stays below one and the noise of it is finite.
  const double top = (static_cast<double>(~0ULL >> 12) + 0.5) * 0x1.0p-52;
  EXPECT_LT(top, 1.0);
  EXPECT_TRUE(std::isfinite(std::log(-std::log(top))));
}

TEST(float16, round_trips_and_rounding) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = from_bf16(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(from_bf16(to_bf16(f))));
    } else {
      ASSERT_EQ(to_bf16(f), h);
    }
  }
  EXPECT_EQ(from_bf16(to_bf16(1.0F + 0x1p-8F)), 1.0F);            // tie to even, down
  EXPECT_EQ(from_bf16(to_bf16(1.0F + 0x3p-8F)), 1.0F + 0x1p-6F);  // tie to even, up
  EXPECT_EQ(from_f16(0x3C00), 1.0F);
  EXPECT_EQ(from_f16(0xC000), -2.0F);
  EXPECT_EQ(from_f16(0x7BFF), 65504.0F);
  EXPECT_EQ(from_f16(0x0001), 0x1p-24F);
  EXPECT_EQ(from_f16(0x0400), 0x1p-14F);
  EXPECT_TRUE(std::isinf(from_f16(0x7C00)) && std::isnan(from_f16(0x7C01)));
}

}  // namespace
}  // namespace unmask
