// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Gate and up of few rows in one launch (few_rows_kernels.h): against the product and the kernel that gates,
// and against sums in float64.
#include <cmath>

#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/few_rows_tiles.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "tests/kernels/half_rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::half_rows;

struct gated_shape {
  std::int64_t rows, hidden, depth;
};

// Operands of random numbers, and what float64 makes of them; gate and up are rounded, as the pair is.
struct gated_case {
  gated_shape of;
  half_rows x, w, pair;
  std::vector<double> want;
  explicit gated_case(const gated_shape& c, unsigned seed)
      : of(c), x(c.rows, c.depth), w(2 * c.hidden, c.depth), pair(c.rows, 2 * c.hidden) {
    std::mt19937 rng(seed);
    x.fill_normal(rng, 1);
    w.fill_normal(rng, 1 / std::sqrt(static_cast<float>(c.depth)));
    const auto product = [&](std::int64_t r, std::int64_t n) {
      double sum = 0;
      for (std::int64_t k = 0; k < c.depth; ++k) sum += double{x.at(r, k)} * w.at(n, k);
      return double{from_bf16(to_bf16(static_cast<float>(sum)))};
    };
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t n = 0; n < c.hidden; ++n) {
        const double g = product(r, n);
        want.push_back(g / (1 + std::exp(-g)) * product(r, c.hidden + n));
      }
    }
  }
  void run(const backend& on, const packed_matrix& weight, half_rows& out) const {
    on.run(op::gated_linear{x.view, weight, pair.view, out.view});
    on.synchronize();
  }
  double error(const half_rows& out) const {
    double difference = 0, size = 0;
    for (std::int64_t r = 0; r < of.rows; ++r) {
      for (std::int64_t n = 0; n < of.hidden; ++n) {
        const double v = want[static_cast<std::size_t>(r * of.hidden + n)];
        difference += (out.at(r, n) - v) * (out.at(r, n) - v);
        size += v * v;
      }
    }
    return std::sqrt(difference / size);
  }
};

cuda::choices with_newer(bool newer) {
  return {.graphs = false, .newer = newer, .left_out = {}};
}

// Rows at both sides of each tile's end, a last tile of columns that is full, nearly so or one piece, k of less
// than a step, of whole steps and of a part, and more steps than shared memory holds.
TEST(gated_linear, few_rows_in_one_launch) {
  test::for_each_device([&](const backend& device) {
    const bool card = device.where() == target::cuda;
    const std::int64_t full = std::int64_t{cuda::few_columns} * cuda::multiprocessors_of(card);
    unsigned seed = 1;
    for (const gated_shape& c : std::vector<gated_shape>{{1, full - 88, 8},
                                                         {64, full, 448},
                                                         {65, full - 8, 72},
                                                         {192, full, 320},
                                                         {191, full - 88, 64}}) {
      SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.hidden) + " x " +
                   std::to_string(c.depth));
      const gated_case one(c, seed++);
      const packed_handle weight = device.pack(one.w.view, weight_format::bf16);
      half_rows got(c.rows, c.hidden, 8), before(c.rows, c.hidden, 8);
      if (!card) cuda::emulator::begin_counting(false);
      one.run(test::with(with_newer(true), device), *weight, got);
      if (!card) {
        EXPECT_EQ(cuda::emulator::end_counting().kernels.count("few_rows"), 1U);
      }
      EXPECT_LT(one.error(got), 3e-3);
      for (std::int64_t r = 0; r < c.rows; ++r) {
        for (std::int64_t gap = 0; gap < 8; ++gap) {
          ASSERT_EQ(got.values[static_cast<std::size_t>(r * (c.hidden + 8) + c.hidden + gap)],
                    0xFFFF);
        }
      }
      if (card) continue;  // cuBLASLt sums in an order of its own
      one.run(test::with(with_newer(false), device), *weight, before);
      EXPECT_EQ(got.values, before.values);
    }
  });
}

// A row has the same bits alone and among others, whatever tile they fill.
TEST(gated_linear, a_row_has_its_bits_in_any_batch) {
  test::for_each_device([&](const backend& device) {
    const std::int64_t hidden =
        std::int64_t{cuda::few_columns} * cuda::multiprocessors_of(device.where() == target::cuda);
    const gated_case all({190, hidden, 136}, 9);
    const packed_handle weight = device.pack(all.w.view, weight_format::bf16);
    const backend& newer = test::with(with_newer(true), device);
    half_rows together(190, hidden);
    all.run(newer, *weight, together);
    for (const std::int64_t rows : {1, 100}) {
      half_rows some(rows, hidden);
      newer.run(
          op::gated_linear{all.x.view.first(rows), *weight, all.pair.view.first(rows), some.view});
      newer.synchronize();
      EXPECT_TRUE(std::equal(some.values.begin(), some.values.end(), together.values.begin()));
    }
  });
}

// Rows and widths that it does not take go to the product and the kernel that gates.
TEST(gated_linear, what_it_does_not_take_is_computed_in_two_launches) {
  const backend& newer = cuda_emulated_backend(with_newer(true));
  for (const gated_shape& c :
       std::vector<gated_shape>{{193, 384, 8},    // rows
                                {3, 385 * 8, 8},  // 33 blocks do fill nine waves of four
                                {3, 392, 8},      // five blocks do not fill two
                                {3, 380, 8},      // columns that are no whole pieces
                                {3, 384, 12}}) {  // k that is no whole pieces
    const gated_case one(c, 5);
    const packed_handle weight = newer.pack(one.w.view, weight_format::bf16);
    half_rows got(c.rows, c.hidden);
    cuda::emulator::begin_counting(false);
    one.run(newer, *weight, got);
    const auto launched = cuda::emulator::end_counting().kernels;
    EXPECT_EQ(launched.count("few_rows"), c.hidden == 385 * 8 ? 1U : 0U) << c.hidden;
    EXPECT_EQ(launched.count("silu_mul"), c.hidden == 385 * 8 ? 0U : 1U) << c.hidden;
    EXPECT_LT(one.error(got), 3e-3);
  }
  const gated_case one({3, 384, 8}, 5);
  const packed_handle weight = newer.pack(one.w.view, weight_format::bf16);
  half_rows narrow(3, 376);
  EXPECT_THROW(one.run(newer, *weight, narrow), std::logic_error);
}

// 85 % of the multiprocessors in all waves.
TEST(gated_linear, tiles_fill_a_card_or_the_library_multiplies) {
  EXPECT_TRUE(cuda::few_rows_fill(12288, 132));   // 128 blocks: SDAR-8B and LLaDA-8B on an H100
  EXPECT_FALSE(cuda::few_rows_fill(18944, 132));  // 198 of 264: Dream-7B
  EXPECT_FALSE(cuda::few_rows_fill(12288, 114));  // 128 of 228: an H100 with PCIe
  EXPECT_TRUE(cuda::few_rows_fill(85 * 96, 100));
  EXPECT_FALSE(cuda::few_rows_fill(84 * 96, 100));
}

}  // namespace
}  // namespace unmask
