// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/gemm.h"
#include "kernels/cuda/library_gemm.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "tests/kernels/support.h"

namespace unmask::test {
namespace {

constexpr weight_format formats[] = {weight_format::f32, weight_format::bf16, weight_format::int8};

struct problem {
  std::int64_t rows, depth, features;
};
// Shapes that divide no tile, no panel, no block and no group; one is large enough for threads.
constexpr problem problems[] = {{1, 1, 1},     {3, 7, 5},      {8, 129, 47},   {9, 257, 49},
                                {17, 511, 97}, {33, 130, 193}, {65, 515, 101}, {130, 300, 500}};

// x W^T in double; bf16 weights rounded as they are stored, int8 ones not (see tolerance).
double product(const grid& x, const grid& w, std::int64_t r, std::int64_t n, weight_format format) {
  double sum = 0;
  for (std::int64_t k = 0; k < x.columns(); ++k) {
    const bool rounded = format == weight_format::bf16;
    const double b = rounded ? from_bf16(to_bf16(w.at(n, k))) : w.at(n, k);
    sum += x.at(r, k) * b;
  }
  return sum;
}

// What the format's rounding and fp32 accumulation may cost: |x|.|w| per unit of error.
double tolerance(const grid& x, const grid& w, std::int64_t r, std::int64_t n,
                 weight_format format) {
  double sum = 0, x_top = 0, w_top = 0, x_sum = 0, w_sum = 0;
  for (std::int64_t k = 0; k < x.columns(); ++k) {
    const double a = std::fabs(x.at(r, k)), b = std::fabs(w.at(n, k));
    sum += a * b;
    x_sum += a;
    w_sum += b;
    x_top = std::max(x_top, a);
    w_top = std::max(w_top, b);
  }
  double bound = 1e-6 * static_cast<double>(x.columns()) * sum / 10 + 1e-6;
  if (format == weight_format::int8) {
    // Each factor is off by at most half a step of top / 127 (a hair more in float arithmetic).
    const double dx = x_top / 254 * 1.001, dw = w_top / 254 * 1.001;
    bound += dx * w_sum + dw * x_sum + dx * dw * static_cast<double>(x.columns());
  }
  return bound;
}

class gemm : public ::testing::TestWithParam<weight_format> {};
INSTANTIATE_TEST_SUITE_P(formats, gemm, ::testing::ValuesIn(formats), [](const auto& i) {
  return std::string(i.param == weight_format::f32    ? "f32"
                     : i.param == weight_format::bf16 ? "bf16"
                                                      : "int8");
});

TEST_P(gemm, matches_double_on_every_isa) {
  const weight_format format = GetParam();
  for_each_isa([&](const backend& on) {
    for (const problem& p : problems) {
      std::mt19937 rng(7);
      grid x({p.rows, p.depth}, 3), w({p.features, p.depth}, 1), y({p.rows, p.features}, 2);
      x.randomize(rng);
      w.randomize(rng);
      std::vector<float> bias = random_vector(rng, p.features);
      const packed_handle packed = on.pack(w, format);
      cpu::linear(x, *packed, view_of(bias), y, false);
      for (std::int64_t r = 0; r < p.rows; ++r) {
        for (std::int64_t n = 0; n < p.features; ++n) {
          const double want = product(x, w, r, n, format) + bias[static_cast<std::size_t>(n)];
          const double difference = std::fabs(y.at(r, n) - want);
          ASSERT_TRUE(difference <= tolerance(x, w, r, n, format))
              << p.rows << "x" << p.depth << "x" << p.features << " at " << r << ", " << n << ": "
              << y.at(r, n) << " instead of " << want;
        }
        // The gap behind a row is not written.
        if (r + 1 < p.rows) {
          ASSERT_TRUE(std::isnan(y.row(r)[p.features]));
        }
      }
    }
  });
}

TEST_P(gemm, accumulate_adds_the_same_product) {
  for_each_isa([&](const backend& on) {
    std::mt19937 rng(8);
    grid x({21, 77}), w({103, 77}), fresh({21, 103}), sum({21, 103}), before({21, 103});
    x.randomize(rng);
    w.randomize(rng);
    before.randomize(rng);
    sum.copy(before);
    const packed_handle packed = on.pack(w, GetParam());
    cpu::linear(x, *packed, {}, fresh, false);
    cpu::linear(x, *packed, {}, sum, true);
    for (std::int64_t r = 0; r < 21; ++r) {
      for (std::int64_t n = 0; n < 103; ++n) {
        ASSERT_EQ(sum.at(r, n), before.at(r, n) + fresh.at(r, n));
      }
    }
  });
}

TEST_P(gemm, rows_have_the_same_bits_in_any_batch) {
  for_each_isa([&](const backend& on) {
    std::mt19937 rng(9);
    const std::int64_t rows = 201, depth = 771, features = 1001;
    grid x({rows, depth}), w({features, depth}), all({rows, features});
    x.randomize(rng);
    w.randomize(rng);
    const packed_handle packed = on.pack(w, GetParam());
    cpu::linear(x, *packed, {}, all, false);
    for (const std::int64_t batch : {1, 2, 3, 5, 7, 8, 11, 16, 24, 31, 64, 65, 129}) {
      const std::int64_t first = (batch * 13) % (rows - batch);
      grid part({batch, features});
      cpu::linear(x.view().slice(first, batch), *packed, {}, part, false);
      for (std::int64_t r = 0; r < batch; ++r) {
        ASSERT_TRUE(same_bits(part.row(r), all.row(first + r), features))
            << "row " << first + r << " in a batch of " << batch;
      }
    }
  });
}

TEST_P(gemm, columns_have_the_bits_of_the_whole) {
  for_each_isa([&](const backend& on) {
    std::mt19937 rng(10);
    const std::int64_t rows = 19, depth = 301, features = 331;
    grid x({rows, depth}, 5), w({features, depth}), all({rows, features});
    x.randomize(rng);
    w.randomize(rng);
    const packed_handle packed = on.pack(w, GetParam());
    cpu::linear(x, *packed, {}, all, false);
    const std::int64_t width = cpu::panel_width(*packed);
    cpu::prepared_rows prepared;
    prepared.prepare(x, *packed);
    for (std::int64_t n = 0; n < features; n += 2 * width) {
      const std::int64_t end = std::min(n + 2 * width, features);
      grid tile({rows, 2 * width}), again({rows, 2 * width});
      cpu::linear_columns(x, *packed, n, end, tile);
      cpu::linear_columns(prepared, *packed, n, end, again);
      for (std::int64_t r = 0; r < rows; ++r) {
        ASSERT_TRUE(same_bits(tile.row(r), all.row(r) + n, end - n));
        ASSERT_TRUE(same_bits(again.row(r), all.row(r) + n, end - n));
      }
    }
    grid tile({rows, 2 * width});
    EXPECT_THROW(cpu::linear_columns(x, *packed, 1, width, tile), std::logic_error);
  });
}

TEST_P(gemm, a_nan_stays_in_its_row_and_is_not_lost) {
  for_each_isa([&](const backend& on) {
    std::mt19937 rng(11);
    grid x({10, 67}), w({50, 67}), y({10, 50});
    x.randomize(rng);
    w.randomize(rng);
    x.at(4, 66) = nan;
    x.at(6, 1) = infinity;
    cpu::linear(x, *on.pack(w, GetParam()), {}, y, false);
    for (std::int64_t r = 0; r < 10; ++r) {
      for (std::int64_t n = 0; n < 50; ++n) {
        ASSERT_EQ(std::isfinite(y.at(r, n)), r != 4 && r != 6) << r << ", " << n;
      }
    }
  });
}

TEST(gemm_int8, sums_are_the_same_integers_on_every_isa) {
  // Products of integers that quantise to themselves: 127 in every row fixes the scale to 1.
  for_each_isa([&](const backend& on) {
    std::mt19937 rng(12);
    std::uniform_int_distribution<int> byte(-127, 127);
    grid x({5, 203}), w({61, 203}), y({5, 61});
    for (const grid* g : {&x, &w}) {
      for (std::int64_t r = 0; r < g->rows(); ++r) {
        for (std::int64_t c = 0; c < 203; ++c) g->at(r, c) = static_cast<float>(byte(rng));
        g->at(r, r % 203) = r % 2 == 0 ? 127.0F : -127.0F;
      }
    }
    // The extreme bytes side by side: a 16-bit pair sum would saturate.
    for (std::int64_t c = 0; c < 203; ++c) x.at(2, c) = w.at(7, c) = 127.0F;
    for (std::int64_t c = 0; c < 203; ++c) x.at(3, c) = -127.0F;
    cpu::linear(x, *on.pack(w, weight_format::int8), {}, y, false);
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t n = 0; n < 61; ++n) {
        ASSERT_EQ(y.at(r, n), product(x, w, r, n, weight_format::f32));
      }
    }
  });
}

TEST(gemm_pack, reads_half_precision_weights_exactly) {
  std::mt19937 rng(13);
  grid exact({20, 33}), x({4, 33}), want({4, 20}), got({4, 20});
  x.randomize(rng);
  std::vector<std::uint16_t> brain, half;
  for (std::int64_t n = 0; n < 20; ++n) {
    for (std::int64_t k = 0; k < 33; ++k) {
      exact.at(n, k) = static_cast<float>(static_cast<int>((n * 33 + k) % 127) - 63) / 32;
      brain.push_back(to_bf16(exact.at(n, k)));
      int exponent = 0;
      const float m = std::frexp(std::fabs(exact.at(n, k)), &exponent);  // m in [0.5, 1)
      std::uint16_t bits = 0;
      if (m > 0) {
        bits = static_cast<std::uint16_t>((exponent + 14) << 10 |
                                          static_cast<int>((m * 2 - 1) * 1024));
      }
      half.push_back(static_cast<std::uint16_t>(bits | (exact.at(n, k) < 0 ? 0x8000 : 0)));
    }
  }
  const backend& on = cpu_backend();
  for (const weight_format format : formats) {
    cpu::linear(x, *on.pack(exact, format), {}, want, false);
    for (const auto& [values, type] : {std::pair{&brain, dtype::bf16}, {&half, dtype::f16}}) {
      cpu::linear(x, *on.pack(make_view(values->data(), type, {20, 33}), format), {}, got, false);
      for (std::int64_t r = 0; r < 4; ++r) ASSERT_TRUE(same_bits(got.row(r), want.row(r), 20));
    }
  }
}

TEST(gemm_path, the_library_agrees_when_asked_for) {
  std::mt19937 rng(14);
  grid x({150, 200}, 8), w({300, 200}), own({150, 300}), library({150, 300});
  x.randomize(rng);
  w.randomize(rng);
  std::vector<float> bias = random_vector(rng, 300);
  const cpu::isa set = cpu::supported_isas().front();
  const cpu::backend& kernels = cpu::backend_with(set);
  ASSERT_EQ(kernels.path(), cpu::gemm_path::own);
  const packed_handle packed = kernels.pack(w, weight_format::f32);
  for (const auto path : {cpu::gemm_path::onednn, cpu::gemm_path::automatic}) {
    for (int call = 0; call < 8; ++call) {
      for (const bool accumulate : {false, true}) {
        own.randomize(rng);
        library.copy(own);
        kernels.run(op::linear{x, *packed, view_of(bias), own, accumulate});
        cpu::backend_with(set, path).run(
            op::linear{x, *packed, view_of(bias), library, accumulate});
        expect_close(library, own, 2e-5, "library");
      }
    }
  }
}

// A tensor core adds 16 products at a time and cuts what lies below the sum's last bit. Squares, so
// that nothing cancels: more than 1e-5 of the sum is lost, and all of it is allowed.
TEST(gemm_error, sums_that_are_cut_pass_and_sums_that_lack_a_step_do_not) {
  constexpr std::int64_t depth = 8192, step = 16;
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> draw(-1, 1);
  double exact = 0, last = 0;
  float sum = 0;
  for (std::int64_t k = 0; k < depth; k += step) {
    last = 0;
    for (std::int64_t i = 0; i < step; ++i) {
      const double x = from_bf16(to_bf16(draw(rng)));
      last += x * x;
    }
    exact += last;
    const double wanted = static_cast<double>(sum) + last;
    const auto nearest = static_cast<float>(wanted);
    sum = nearest > wanted ? std::nextafter(nearest, 0.0F) : nearest;
  }
  const double error = exact - static_cast<double>(sum);
  EXPECT_GT(error, 1e-5 * exact);
  EXPECT_LT(error, cuda::float_sum_error(depth, exact));
  EXPECT_GT(last, cuda::float_sum_error(depth, exact));
}

TEST(gemm_errors, shapes_and_names_are_checked) {
  grid x({2, 8}), w({4, 8}), y({2, 4}), wrong({2, 5});
  const packed_handle packed = cpu_backend().pack(w, weight_format::f32);
  EXPECT_THROW(cpu::linear(x, *packed, {}, wrong, false), std::logic_error);
  EXPECT_THROW(cpu::linear(wrong, *packed, {}, y, false), std::logic_error);
  EXPECT_THROW(cpu::parse_isa("sse9"), error);
  EXPECT_EQ(cpu::parse_isa("portable"), cpu::isa::portable);
  EXPECT_EQ(cpu::supported_isas().back(), cpu::isa::portable);
}

}  // namespace
}  // namespace unmask::test
