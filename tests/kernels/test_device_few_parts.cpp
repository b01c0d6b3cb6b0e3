// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Products of few rows into the residual stream (few_parts_kernels.h): against whole numbers, of which every sum
// is exact, against its definition, and against the product before.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/few_rows_tiles.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "tests/kernels/half_rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::half_rows;

struct product_shape {
  std::int64_t rows, columns, depth;
  std::string text() const {
    return std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(depth);
  }
};

// Columns of whole tiles that fill a card. Four parts of k: two tiles on the emulator's four multiprocessors.
std::int64_t filling_columns(const backend& device, int parts) {
  const std::int64_t places = cuda::multiprocessors_of(device.where() == target::cuda);
  return std::max<std::int64_t>(places / parts, 8 / parts) * cuda::few_parts_columns(parts);
}

// float32 rows further apart than they must; NaN, where nothing is added to them.
struct sum_rows {
  std::vector<float> values;
  tensor_view view;
  sum_rows(std::int64_t rows, std::int64_t columns)
      : values(static_cast<std::size_t>(rows * (columns + 4)), NAN) {
    view = make_view(values.data(), dtype::f32, {rows, columns});
    view.row_stride = columns + 4;
  }
  float& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * view.row_stride + c)];
  }
  // Bits, so that a NaN between the rows is itself.
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> all(values.size());
    std::memcpy(all.data(), values.data(), values.size() * sizeof(float));
    return all;
  }
};

struct product_case {
  product_shape of;
  half_rows x, w;
  std::vector<float> before;  // y
  product_case(const product_shape& s, unsigned seed, bool whole)
      : of(s), x(s.rows, s.depth), w(s.columns, s.depth) {
    std::mt19937 rng(seed);
    std::uniform_int_distribution<int> number(-2, 2);
    x.fill_normal(rng, 1);
    w.fill_normal(rng, 1 / std::sqrt(static_cast<float>(s.depth)));
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < s.rows * s.columns; ++i) {
      before.push_back(whole ? static_cast<float>(number(rng)) : normal(rng));
    }
    if (!whole) return;
    for (half_rows* h : {&x, &w}) {
      for (std::uint16_t& v : h->values) v = to_bf16(static_cast<float>(number(rng)));
    }
  }
  sum_rows run(const backend& on, bool adds, std::int64_t rows) const {
    sum_rows y(rows, of.columns);
    for (std::int64_t r = 0; adds && r < rows; ++r) {
      for (std::int64_t n = 0; n < of.columns; ++n) {
        y.at(r, n) = before[static_cast<std::size_t>(r * of.columns + n)];
      }
    }
    const packed_handle weight = on.pack(w.view, weight_format::bf16);
    on.run(op::linear{x.view.first(rows), *weight, {}, y.view, adds});
    on.synchronize();
    return y;
  }
  sum_rows run(const backend& on, bool adds) const { return run(on, adds, of.rows); }
  float added_to(std::int64_t r, std::int64_t n, bool adds) const {
    return adds ? before[static_cast<std::size_t>(r * of.columns + n)] : 0.0F;
  }
  // By whole numbers.
  double exact(std::int64_t r, std::int64_t n, bool adds) const {
    double sum = 0;
    for (std::int64_t k = 0; k < of.depth; ++k) sum += double{x.at(r, k)} * w.at(n, k);
    return sum + added_to(r, n, adds);
  }
  // As it is defined: parts of whole steps of k, each in the order of k, then one part after the other.
  float defined(std::int64_t r, std::int64_t n, bool adds) const {
    const int parts = cuda::few_parts(of.columns, of.depth);
    const std::int64_t steps = (of.depth + cuda::few_depth - 1) / cuda::few_depth;
    float all = 0;
    for (int part = 0; part < parts; ++part) {
      float sum = 0;
      const std::int64_t end = std::min(of.depth, steps * (part + 1) / parts * cuda::few_depth);
      for (std::int64_t k = steps * part / parts * cuda::few_depth; k < end; ++k) {
        sum += x.at(r, k) * w.at(n, k);
      }
      all = part == 0 ? sum : all + sum;
    }
    return adds ? all + added_to(r, n, adds) : all;
  }
};

cuda::choices with_newer(bool newer) {
  return {.graphs = false, .newer = newer, .left_out = {}};
}

// Columns that are looked at: all, or some of many and the last ones.
bool is_looked_at(std::int64_t n, std::int64_t columns) {
  return columns <= 1024 || n % 37 == 0 || n + 16 > columns;
}

std::size_t launches_of(const backend& on, const product_case& one) {
  cuda::emulator::begin_counting(false);
  (void)one.run(on, true);
  return cuda::emulator::end_counting().kernels.count("few_parts");
}

// Rows at both sides of the tiles' ends and of the groups that blocks add, a last tile of columns that is full,
// nearly so or one piece, k that ends with a step or within one.
TEST(few_parts, whole_numbers_are_exact) {
  test::for_each_device([&](const backend& device) {
    const backend& newer = test::with(with_newer(true), device);
    unsigned seed = 1;
    for (const std::int64_t rows : {1, 7, 8, 9, 16, 64, 65, 128, 191, 192}) {
      for (const int parts : {4, 8}) {
        const std::int64_t full = filling_columns(device, parts),
                           columns = full - (rows % 2 == 0 ? 0 : (rows % 4 == 1 ? 8 : 88));
        const std::int64_t depth = parts == 8
                                       ? std::max<std::int64_t>(512, 2 * columns) + rows % 3 * 8
                                       : 256 + rows % 5 * 8;
        const bool adds = rows != 9;
        const product_case one({rows, columns, depth}, seed++, true);
        SCOPED_TRACE(one.of.text());
        ASSERT_EQ(cuda::few_parts(columns, depth), parts);
        if (device.where() != target::cuda) {
          EXPECT_EQ(launches_of(newer, one), 1U);
        }
        sum_rows got = one.run(newer, adds);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t n = 0; n < columns; ++n) {
            if (!is_looked_at(n, columns)) continue;
            ASSERT_EQ(got.at(r, n), one.exact(r, n, adds)) << r << ", " << n;
          }
          for (std::int64_t gap = 0; gap < 4; ++gap)
            ASSERT_TRUE(std::isnan(got.at(r, columns + gap)));
        }
      }
    }
  });
}

// More steps than shared memory holds; the emulator multiplies in the order of the definition, whatever the order
// of blocks and warps.
TEST(few_parts, sums_are_those_of_the_definition) {
  test::for_each_device([&](const backend& device) {
    const std::int64_t four = 4 * filling_columns(device, 4), eight = filling_columns(device, 8);
    for (const product_shape& s : std::vector<product_shape>{{64, four - 8, 1864},
                                                             {70, four, 1600},
                                                             {64, eight, 2 * eight + 3080},
                                                             {192, eight - 8, 2 * eight + 2568}}) {
      if (device.where() == target::cuda && cuda::multiprocessors_of(true) > 8) continue;
      SCOPED_TRACE(s.text());
      const product_case one(s, 5, false);
      sum_rows got = one.run(test::with(with_newer(true), device), true);
      double difference = 0, size = 0;
      for (std::int64_t r = 0; r < s.rows; r += 3) {
        for (std::int64_t n = 0; n < s.columns; n += 7) {
          const float want = one.defined(r, n, true);
          if (device.where() != target::cuda) {
            ASSERT_EQ(got.at(r, n), want) << r << ", " << n;
          }
          difference += std::pow(double{got.at(r, n)} - want, 2);
          size += double{want} * want;
        }
      }
      EXPECT_LT(std::sqrt(difference / size), 1e-5);
    }
  });
}

// A row has the same bits alone and among others, whatever tile they fill; and in every run.
TEST(few_parts, a_row_has_its_bits_in_any_batch) {
  test::for_each_device([&](const backend& device) {
    const backend& newer = test::with(with_newer(true), device);
    for (const int parts : {4, 8}) {
      const std::int64_t columns = filling_columns(device, parts);
      const std::int64_t depth = parts == 8 ? 2 * columns + 24 : 264;
      const product_case all({190, columns, depth}, 9, false);
      const auto together = all.run(newer, true).bits();
      EXPECT_EQ(all.run(newer, true).bits(), together);
      for (const std::int64_t rows : {1, 33, 100}) {
        const auto some = all.run(newer, true, rows).bits();
        EXPECT_TRUE(std::equal(some.begin(), some.end(), together.begin())) << rows;
      }
    }
  });
}

// What it does not take goes to the library, with the same sums of whole numbers.
TEST(few_parts, other_products_are_the_library_s) {
  const backend& newer = cuda_emulated_backend(with_newer(true));
  const auto launched = [&](const product_shape& s) {
    const product_case one(s, 5, true);
    sum_rows got = one.run(newer, true);
    for (std::int64_t r = 0; r < s.rows; r += 16) {
      for (std::int64_t n = 0; n < s.columns; n += 5) {
        EXPECT_EQ(got.at(r, n), one.exact(r, n, true)) << s.text();
      }
    }
    return launches_of(newer, one);
  };
  EXPECT_EQ(launched({192, 256, 256}), 1U);
  EXPECT_EQ(launched({193, 256, 256}), 0U) << "rows";
  EXPECT_EQ(launched({3, 256, 248}), 0U) << "less than a step of k for each part";
  EXPECT_EQ(launched({3, 252, 256}), 0U) << "columns that are no whole pieces";
  EXPECT_EQ(launched({3, 256, 260}), 0U) << "k that is no whole pieces";
  EXPECT_EQ(launched({3, 1032, 256}), 1U) << "36 blocks fill nine waves of four";
  const product_case one({3, 256, 256}, 5, true);
  EXPECT_EQ(launches_of(cuda_emulated_backend(with_newer(false)), one), 0U);
  cuda::choices without = with_newer(true);
  without.left_out.insert({cuda::multiplied::few_rows, cuda::multiplier::newer});
  EXPECT_EQ(launches_of(cuda_emulated_backend(without), one), 0U);
}

TEST(few_parts, a_bias_and_bfloat16_results_are_the_library_s) {
  const backend& newer = cuda_emulated_backend(with_newer(true));
  const product_case one({3, 256, 256}, 5, true);
  const packed_handle weight = newer.pack(one.w.view, weight_format::bf16);
  half_rows narrow(3, 256);
  sum_rows y(3, 256), bias(1, 256);
  bias.values.assign(bias.values.size(), 3.0F);
  cuda::emulator::begin_counting(false);
  newer.run(op::linear{one.x.view, *weight, {}, narrow.view, false});
  newer.run(op::linear{one.x.view, *weight, make_view(bias.values.data(), dtype::f32, {256}),
                       y.view, false});
  newer.synchronize();
  EXPECT_EQ(cuda::emulator::end_counting().kernels.count("few_parts"), 0U);
  EXPECT_EQ(y.at(2, 7), one.exact(2, 7, false) + 3);
  EXPECT_EQ(narrow.at(2, 7), from_bf16(to_bf16(static_cast<float>(one.exact(2, 7, false)))));
}

// Gate and up, then down, twice: each of them may start before the launch before it has ended, also recorded.
TEST(few_parts, a_feed_forward_whose_launches_start_early) {
  test::for_each_device([&](const backend& device) {
    cuda::choices recorded = with_newer(true);
    recorded.graphs = true;
    const backend& newer = test::with(recorded, device);
    const std::int64_t places = cuda::multiprocessors_of(device.where() == target::cuda),
                       hidden = cuda::few_columns * places, width = filling_columns(device, 4) - 56,
                       rows = 70;
    std::mt19937 rng(3);
    half_rows x(rows, width), up(2 * hidden, width), down(width, hidden);
    x.fill_normal(rng, 1);
    up.fill_normal(rng, 1 / std::sqrt(static_cast<float>(width)));
    down.fill_normal(rng, 1 / std::sqrt(static_cast<float>(hidden)));
    const packed_handle up_weight = newer.pack(up.view, weight_format::bf16),
                        down_weight = newer.pack(down.view, weight_format::bf16);
    const tensor pair = newer.allocate(dtype::bf16, {rows, 2 * hidden}),
                 gated = newer.allocate(dtype::bf16, {rows, hidden}),
                 stream = newer.allocate(dtype::f32, {rows, width}),
                 input = newer.allocate(dtype::bf16, {rows, width});
    newer.write(input.view().data, x.values.data(), input.bytes());
    const auto chain = [&](bool waits) {
      for (int layer = 0; layer < 2; ++layer) {
        newer.run(op::gated_linear{input, *up_weight, pair, gated});
        if (waits) newer.synchronize();
        newer.run(op::linear{gated, *down_weight, {}, stream, layer > 0});
        if (waits) newer.synchronize();
      }
    };
    const auto result = [&] {
      std::vector<float> got(static_cast<std::size_t>(rows * width));
      newer.synchronize();
      newer.read(got.data(), stream.view().data, stream.bytes());
      return got;
    };
    chain(true);
    const std::vector<float> want = result();
    newer.clear(stream.view().data, stream.bytes());
    chain(false);
    EXPECT_EQ(result(), want);
    newer.clear(stream.view().data, stream.bytes());
    const auto work = newer.capture([&] { chain(false); });
    for (int turn = 0; turn < 2; ++turn) {
      newer.replay(*work);
      EXPECT_EQ(result(), want);
    }
  });
}

TEST(few_parts, parts_fill_a_card_or_the_library_multiplies) {
  EXPECT_EQ(cuda::few_parts(4096, 12288), 8);  // down of SDAR-8B and LLaDA-8B
  EXPECT_EQ(cuda::few_parts(4096, 4096), 4);   // output
  EXPECT_EQ(cuda::few_parts_blocks(4096, 8), 128);
  EXPECT_EQ(cuda::few_parts_blocks(4096, 4), 128);
  EXPECT_TRUE(cuda::few_parts_fill(4096, 12288, 132));
  EXPECT_TRUE(cuda::few_parts_fill(4096, 4096, 132));
  EXPECT_FALSE(cuda::few_parts_fill(6144, 4096, 132)) << "192 of 264: query, key and value";
  EXPECT_FALSE(cuda::few_parts_fill(3584, 18944, 132)) << "112: Dream-7B";
  EXPECT_FALSE(cuda::few_parts_fill(4096, 12288, 114)) << "128 of 228: an H100 with PCIe";
}

}  // namespace
}  // namespace unmask
