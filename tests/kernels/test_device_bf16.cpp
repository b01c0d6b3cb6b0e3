// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Activations stored as bfloat16 (backend::activation_type): every operation that takes them does what
// it does with float32 and rounds the result once, and a product of bfloat16 rows is the product
// that rounds its float32 rows itself, bit for bit.
#include <numeric>

#include "harness/decode/kernels/features.h"
#include "kernels/attention.h"
#include "kernels/cuda/head_chunks.h"
#include "kernels/float16.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/rows.h"
#include "kernels/selection.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;

// bfloat16 elements, rows `gap` further apart than they must; 0xFFFF (a NaN) until written.
class half_grid {
 public:
  half_grid(std::vector<std::int64_t> shape, std::int64_t gap = 0, std::int64_t offset = 0) {
    std::int64_t columns = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) columns *= shape[d];
    values_.assign(static_cast<std::size_t>(shape[0] * (columns + gap) + offset), 0xFFFF);
    view_.data = values_.data() + offset;
    view_.type = dtype::bf16;
    view_.rank = static_cast<int>(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) view_.shape[d] = shape[d];
    view_.row_stride = columns + gap;
  }
  half_grid& operator=(half_grid&&) = delete;
  // The rounded values of `from`, which takes them over.
  half_grid& round(grid& from) {
    for (std::int64_t r = 0; r < from.rows(); ++r) {
      for (std::int64_t c = 0; c < from.columns(); ++c) {
        row(r)[c] = to_bf16(from.at(r, c));
        from.at(r, c) = from_bf16(row(r)[c]);
      }
    }
    return *this;
  }
  operator const tensor_view&() const { return view_; }
  std::uint16_t* row(std::int64_t r) const {
    return static_cast<std::uint16_t*>(view_.data) + r * view_.row_stride;
  }
  const tensor_view& view() const { return view_; }

 private:
  std::vector<std::uint16_t> values_;
  tensor_view view_;
};

void expect_rounded(const half_grid& got, const grid& want, const char* what) {
  for (std::int64_t r = 0; r < want.rows(); ++r) {
    for (std::int64_t c = 0; c < want.columns(); ++c) {
      ASSERT_EQ(got.row(r)[c], to_bf16(want.at(r, c))) << what << " at " << r << ", " << c;
    }
  }
}

// Widths, gaps and offsets that allow pairs of elements in one access, and others that do not.
struct place {
  std::int64_t width, gap, offset;
};
const std::vector<place> places{{128, 0, 0}, {514, 2, 0}, {128, 1, 0}, {33, 0, 0}, {64, 0, 1}};

TEST(device_bf16, norms_and_gates_round_once) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(11);
    for (const auto& [width, gap, offset] : places) {
      grid x({5, width}, 3), normed({5, width});
      x.randomize(rng, 2.0F);
      std::vector<float> weight = test::random_vector(rng, width);
      device.run(op::rms_norm{x, test::view_of(weight), 1e-5F, normed});
      half_grid half({5, width}, gap, offset);
      device.run(op::rms_norm{x, test::view_of(weight), 1e-5F, half});
      device.synchronize();
      expect_rounded(half, normed, "rms_norm");

      grid pair({5, 2 * width}), gated({5, width});
      pair.randomize(rng, 3.0F);
      half_grid half_pair({5, 2 * width}, gap, offset), half_gated({5, width}, gap, offset);
      half_pair.round(pair);
      device.run(op::silu_mul{pair, gated});
      device.run(op::silu_mul{half_pair, half_gated});
      device.synchronize();
      expect_rounded(half_gated, gated, "silu_mul");
    }
  });
}

// bfloat16: activations are rounded too, so the tolerance is that of both factors' rounding.
TEST(device_bf16, products_are_those_of_rounded_operands) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(8);
    grid x({5, 70}), rounded({5, 70}), w({33, 70}), y({5, 33}), want({5, 33});
    x.randomize(rng);
    w.randomize(rng);
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t k = 0; k < 70; ++k) rounded.at(r, k) = from_bf16(to_bf16(x.at(r, k)));
    }
    reference_backend().run(
        op::linear{rounded, *reference_backend().pack(w, weight_format::bf16), {}, want, false});
    const packed_handle packed = device.pack(w, weight_format::bf16);
    EXPECT_EQ(packed->bytes, 33U * 70 * 2);
    device.run(op::linear{x, *packed, {}, y, false});
    device.synchronize();
    test::expect_close(y, want, 2e-5, "bf16");
  });
}

TEST(device_bf16, products_refuse_what_they_cannot_do) {
  grid x({2, 8}), w({4, 8}), wrong({2, 5});
  const backend& device = cuda_emulated_backend();
  EXPECT_EQ(device.name(), "cuda-emulated");
  const packed_handle packed = device.pack(w, weight_format::f32);
  EXPECT_THROW(device.run(op::linear{x, *packed, {}, wrong, false}), std::logic_error);
  const packed_handle foreign = reference_backend().pack(w, weight_format::f32);
  EXPECT_THROW(device.run(op::linear{x, *foreign, {}, wrong, false}), std::logic_error);
}

TEST(device_bf16, products_take_and_give_it) {
  test::for_each_device([&](const backend& device) {
    if (device.activation_type(weight_format::bf16) != dtype::bf16) {
      GTEST_SKIP() << "UNMASK_CUDA_GEMM=own";
    }
    EXPECT_EQ(device.activation_type(weight_format::f32), dtype::f32);
    std::mt19937 rng(12);
    constexpr std::int64_t n = 24, k = 40;
    grid w({n, k});
    w.randomize(rng);
    const packed_handle weight = device.pack(w, weight_format::bf16);
    for (const std::int64_t gap : {0, 8}) {
      grid x({7, k}), want({7, n}), got({7, n});
      x.randomize(rng);
      device.run(op::linear{x, *weight, {}, want, false});
      device.synchronize();
      half_grid half({7, k}, gap), result({7, n});
      half.round(x);  // the product did the same to x
      device.run(op::linear{half, *weight, {}, got, false});
      device.run(op::linear{half, *weight, {}, result, false});
      device.synchronize();
      for (std::int64_t r = 0; r < 7; ++r) {
        EXPECT_TRUE(test::same_bits(got.row(r), want.row(r), n));
      }
      expect_rounded(result, want, "linear");
    }
    // A bias of the results' type is added before they are rounded; another is refused.
    grid in({2, k}), wide_y({2, n}), bias({1, n}), none({2, n});
    in.randomize(rng);
    bias.randomize(rng);
    half_grid x({2, k}), y({2, n}), half_bias({1, n});
    x.round(in);
    half_bias.round(bias);
    const tensor_view wide_bias = make_view(bias.row(0), dtype::f32, {n});
    device.run(op::linear{x, *weight, wide_bias, wide_y, false});
    device.run(op::linear{x, *weight, make_view(half_bias.row(0), dtype::bf16, {n}), y, false});
    device.run(op::linear{x, *weight, {}, none, false});
    device.synchronize();
    expect_rounded(y, wide_y, "linear with a bias");
    EXPECT_NEAR(wide_y.at(1, 3), none.at(1, 3) + bias.at(0, 3), 1e-5);
    EXPECT_THROW(device.run(op::linear{x, *weight, wide_bias, y, false}), std::logic_error);
    const packed_handle exact = device.pack(w, weight_format::f32);
    grid wide({2, n});
    EXPECT_THROW(device.run(op::linear{x, *exact, {}, wide, false}), std::logic_error);
  });
}

// The library chooses an algorithm by the address of the bias too, so one that was tuned with a bias at a
// multiple of 16 bytes is none for a bias that is not: the GPU in software refuses it there.
TEST(device_bf16, tuned_products_are_kept_by_the_alignment_of_their_bias) {
  test::for_each_device([&](const backend& device) {
    if (device.activation_type(weight_format::bf16) != dtype::bf16) {
      GTEST_SKIP() << "UNMASK_CUDA_GEMM=own";
    }
    std::mt19937 rng(31);
    constexpr std::int64_t n = 56, k = 48;  // which no other test multiplies
    grid w({n, k}), in({3, k}), bias({1, n + 8}), want({3, n});
    w.randomize(rng);
    in.randomize(rng);
    bias.randomize(rng);
    const packed_handle weight = device.pack(w, weight_format::bf16);
    half_grid x({3, k}), half_bias({1, n + 8});
    x.round(in);
    half_bias.round(bias);
    for (const std::int64_t from : {8, 1, 2, 4}) {
      half_grid y({3, n});
      device.run(
          op::linear{x, *weight, make_view(half_bias.row(0) + from, dtype::bf16, {n}), y, false});
      device.run(
          op::linear{x, *weight, make_view(bias.row(0) + from, dtype::f32, {n}), want, false});
      device.synchronize();
      for (std::int64_t r = 0; r < 3; ++r) {
        for (std::int64_t c = 0; c < n; ++c) {  // another algorithm may sum in another order
          ASSERT_NEAR(from_bf16(y.row(r)[c]), want.at(r, c),
                      1e-4 + 0x1p-7 * std::fabs(want.at(r, c)))
              << from << ", " << r << ", " << c;
        }
      }
    }
  });
}

// Keys in bfloat16 with dimension 64 take tensor cores, float32 the exact kernel; few sequences
// with many keys are split and merged, many are not.
TEST(device_bf16, attention_rounds_its_result) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(13);
    constexpr std::int64_t heads = 4, kv_heads = 2;
    for (const auto& [dim, tensor] :
         {std::pair<std::int64_t, bool>{64, true}, {128, true}, {24, false}}) {
      for (const std::int32_t keys : {40, 700}) {
        const test::rows_fixture rows(rng, {3, 2}, keys);
        test::cache_fixture cache(rng, 2, (keys + kv_page_size - 1) / kv_page_size, kv_heads, dim);
        paged_kv kv = cache.kv;
        half_grid half_keys({cache.keys.rows(), kv_page_size, kv_heads, dim}),
            half_values({cache.keys.rows(), kv_page_size, kv_heads, dim});
        if (tensor) {
          kv.keys = half_keys.round(cache.keys);
          kv.values = half_values.round(cache.values);
        }
        grid q({5, heads, dim}), want({5, heads, dim});
        q.randomize(rng);
        half_grid got({5, heads, dim}), odd({5, heads, dim}, 1);
        const std::vector<std::int32_t> length(2, keys);
        key_set set;
        set.kv_length = length.data();
        device.run(op::attention{rows.set, q, kv, set, 0.2F, want, {}});
        device.run(op::attention{rows.set, q, kv, set, 0.2F, got, {}});
        device.synchronize();
        expect_rounded(got, want, "attention");
        // Queries of bfloat16, inside wider rows as a projection leaves them: the same bits, of the
        // mass of the keys too.
        half_grid half_q({5, heads, dim}, 16);
        half_q.round(q);
        std::vector<float> mass(2 * static_cast<std::size_t>(keys)), half_mass = mass;
        device.run(op::attention{rows.set, q, kv, set, 0.2F, want, test::view_of(mass)});
        device.run(op::attention{rows.set, half_q, kv, set, 0.2F, got, test::view_of(half_mass)});
        device.synchronize();
        expect_rounded(got, want, "attention of bfloat16 queries");
        EXPECT_EQ(half_mass, mass);
        if (tensor) continue;  // an odd stride there means the exact kernel: other last bits
        device.run(op::attention{rows.set, q, kv, set, 0.2F, odd, {}});
        device.synchronize();
        expect_rounded(odd, want, "attention with an odd stride");
      }
    }
  });
}

// Q and K rounded to bfloat16 rank as the official implementations rank, which are bfloat16
// throughout: nearly the reference's importance of the rounded operands; and of the unrounded ones a
// score s = scale q . k moves by e <= scale sum |q k| (2^-8 + 2^-18) at most, so that each share of a
// softmax, and their sum, changes by a factor of e^(2 e) at most.
TEST(device_bf16, importance_of_rounded_queries_and_keys) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(17);
    constexpr std::int64_t heads = 4, kv_heads = 2;
    // Tiles of pairs, scores in shared memory, scores computed anew; and heads that tiles do not take.
    for (const auto& [n, dim, gap] :
         {std::tuple<std::int32_t, std::int64_t, std::int64_t>{32, 64, 0},
          {90, 16, 8},
          {350, 8, 0},
          {20, 10, 1}}) {
      const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
      grid q({n, heads, dim}), k({n, kv_heads, dim});
      q.randomize(rng);
      k.randomize(rng);
      std::vector<std::int32_t> begin{0, n / 4, n}, index(static_cast<std::size_t>(n));
      std::iota(index.rbegin(), index.rend(), 0);
      const auto ask = [&](const backend& on, const tensor_view& of_q, const tensor_view& of_k) {
        std::vector<float> out(static_cast<std::size_t>(n));
        on.run(op::importance{2, begin.data(), index.data(), of_q, of_k, scale, out.data()});
        on.synchronize();
        return out;
      };
      double most = 0;
      for (std::int32_t i = 0; i < n; ++i) {
        for (std::int64_t at = 0; at < std::int64_t{n} * heads; ++at) {
          double sum = 0;
          for (std::int64_t d = 0; d < dim; ++d) {
            sum += std::abs(double{q.at(i, at % heads * dim + d)} *
                            k.at(at / heads, at % heads / (heads / kv_heads) * dim + d));
          }
          most = std::max(most, sum);
        }
      }
      const double bound = std::expm1(2 * scale * most * (0x1p-8 + 0x1p-18));
      const std::vector<float> exact = ask(reference_backend(), q, k);
      half_grid half_q({n, heads, dim}, gap), half_k({n, kv_heads, dim}, gap);
      half_q.round(q);
      half_k.round(k);
      const std::vector<float> got = ask(device, half_q, half_k);
      EXPECT_EQ(got, ask(device, q, k)) << n;
      test::expect_close(got, ask(reference_backend(), q, k), 1e-6, "importance");
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_LE(std::abs(got[i] - exact[i]), bound * exact[i] + 1e-6) << n << " at " << i;
      }
      EXPECT_NE(got, exact);
    }
  });
}

// What else reads bfloat16 rows of a projection does to them what it does to float32 rows of the same
// numbers: rotation, the cache, means and distances; a value in a bfloat16 page is a copy.
TEST(device_bf16, rows_of_a_projection) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(18);
    for (const std::int64_t dim : {10, 64, 128}) {
      constexpr std::int64_t heads = 2, count = 5;
      grid x({count, heads, dim}), other({count, heads, dim}), mean({1, heads, dim}),
          want({1, heads, dim});
      x.randomize(rng);
      other.randomize(rng);
      half_grid half({count, heads, dim}, 8);
      half.round(x);
      const test::rows_fixture rows(rng, {count}, 60);
      device.run(op::mean_rows{rows.set, half, mean});
      device.run(op::mean_rows{rows.set, x, want});
      std::vector<float> apart(count), want_apart(count);
      device.run(op::row_distance{half, other, apart.data()});
      device.run(op::row_distance{x, other, want_apart.data()});
      device.synchronize();
      EXPECT_TRUE(test::same_bits(mean.row(0), want.row(0), heads * dim));
      EXPECT_EQ(apart, want_apart);
      for (const dtype type : {dtype::f32, dtype::bf16}) {
        const auto room = static_cast<std::size_t>(kv_page_size * heads * dim);
        std::vector<float> pages(2 * room);
        std::vector<std::int32_t> table{0};
        paged_kv kv;
        kv.keys = make_view(pages.data(), type, {1, kv_page_size, heads, dim});
        kv.values = make_view(pages.data() + room, type, {1, kv_page_size, heads, dim});
        kv.page_table = table.data();
        kv.table_stride = 1;
        device.run(op::kv_write{rows.set, half, half, kv});
        device.synchronize();
        for (std::int64_t r = 0; r < count; ++r) {
          const std::int64_t at = rows.set.position[r] * heads * dim;
          for (std::int64_t d = 0; d < heads * dim; ++d) {
            if (type == dtype::f32) {
              ASSERT_EQ(kv.keys.as<float>()[at + d], x.at(r, d));
            } else {
              ASSERT_EQ(static_cast<const std::uint16_t*>(kv.values.data)[at + d], half.row(r)[d]);
            }
          }
        }
      }
      const rope_params rope{static_cast<std::int32_t>(dim) / 2 / 2 * 2, 10000.0F};
      std::vector<float> weight = test::random_vector(rng, dim);
      for (const tensor_view& norm : {tensor_view{}, test::view_of(weight)}) {
        grid rotated({count, heads, dim});
        rotated.copy(x);
        half.round(x);
        device.run(op::head_norm_rope{rotated, norm, 1e-6F, rope, rows.set.position});
        device.run(op::head_norm_rope{half, norm, 1e-6F, rope, rows.set.position});
        device.synchronize();
        expect_rounded(half, rotated, "head_norm_rope");
      }
    }
  });
}

// The head of more than one chunk of the vocabulary: rows are gathered and rounded once for all.
TEST(device_bf16, the_head_sees_rounded_rows_in_every_chunk) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(15);
    constexpr std::int64_t vocabulary = 17000, width = 8;
    grid x({6, width}), w({vocabulary, width});
    x.randomize(rng);
    w.randomize(rng);
    half_grid rounded({6, width});
    test::candidates_fixture c;
    c.add({3, 9});
    c.add({1});
    c.row = {5, 0, 3};
    std::vector<std::int32_t> want(3), got(3);
    std::vector<float> want_p(3), got_p(3);
    const auto ask = [&](const backend& backend, std::vector<std::int32_t>& token,
                         std::vector<float>& probability) {
      confidence_out out;
      out.token = token.data();
      out.probability = probability.data();
      backend.run(op::confidence{x, *backend.pack(w, weight_format::bf16), c.set(), {}, out});
      backend.synchronize();
    };
    ask(device, got, got_p);
    rounded.round(x);
    ask(reference_backend(), want, want_p);
    EXPECT_EQ(got, want);
    test::expect_close(got_p, want_p, 1e-4, "probability");
  });
}

// More candidates than one group of them: a row's results do not depend on which it is in.
// Candidates drawn with Gumbel noise from logits of rounded or quantised weights: the reference's.
TEST(device_bf16, the_head_draws_with_noise) {
  test::for_each_device([&](const backend& device) {
    for (const weight_format format : {weight_format::bf16, weight_format::int8}) {
      std::mt19937 rng(15);
      constexpr std::int64_t vocabulary = 17000, width = 8;
      grid x({6, width}), w({vocabulary, width});
      x.randomize(rng);
      half_grid({6, width}).round(x);  // x holds the rounded values
      w.randomize(rng);
      test::candidates_fixture c;
      c.add({3, 9});
      c.add({1});
      c.row = {5, 0, 3};
      const std::vector<std::uint64_t> seeds{11, 12};
      const std::vector<std::int32_t> steps{3, 4};
      std::vector<std::int32_t> want(3), got(3);
      std::vector<float> want_p(3), got_p(3);
      const auto ask = [&](const backend& by, std::vector<std::int32_t>& token,
                           std::vector<float>& probability) {
        confidence_out out;
        out.token = token.data();
        out.probability = probability.data();
        confidence_params params;
        params.gumbel_temperature = 0.7F;
        params.noise = {seeds.data(), steps.data()};
        by.run(op::confidence{x, *by.pack(w, format), c.set(), params, out});
        by.synchronize();
      };
      ask(device, got, got_p);
      ask(reference_backend(), want, want_p);
      EXPECT_EQ(got, want);
      test::expect_close(got_p, want_p, format == weight_format::bf16 ? 1e-4 : 1e-2, "probability");
    }
  });
}

TEST(device_bf16, the_head_takes_candidates_in_groups) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(16);
    constexpr std::int64_t vocabulary = 300, width = 8, rows = cuda::head_group + 30, period = 29;
    grid x({rows, width}), w({vocabulary, width});
    x.randomize(rng);
    w.randomize(rng);
    test::candidates_fixture c;
    c.add(std::vector<std::int32_t>(rows, 1));
    for (std::int64_t r = period; r < rows; ++r) std::copy_n(x.row(r % period), width, x.row(r));
    std::vector<std::int32_t> token(rows, -1);
    std::vector<float> probability(rows), entropy(rows);
    confidence_out out;
    out.token = token.data();
    out.probability = probability.data();
    out.negative_entropy = entropy.data();
    device.run(op::confidence{x, *device.pack(w, weight_format::bf16), c.set(), {}, out});
    device.synchronize();
    for (std::size_t r = period; r < rows; ++r) {
      ASSERT_EQ(token[r], token[r % period]) << r;
      ASSERT_EQ(probability[r], probability[r % period]) << r;
      ASSERT_EQ(entropy[r], entropy[r % period]) << r;
    }
  });
}

TEST(device_bf16, head_chunks_fill_waves_of_tiles) {
  for (const std::int64_t rows : {64, 200, 400, 547, 1093, 2185, 4369}) {
    std::int64_t taken = 0;
    for (std::int64_t row = 0; row < rows; row += cuda::head_group) {
      const cuda::head_chunk part = cuda::head_chunk_of(rows - row, 151936, true, 132);
      ASSERT_EQ(part.rows, std::min(cuda::head_group, rows - row));
      ASSERT_TRUE(part.columns > 0 && part.columns % cuda::head_slice == 0);
      EXPECT_LE(part.rows * part.columns * 4, cuda::head_chunk_bytes);
      for (std::int64_t first = 0; first < 151936; first += part.columns) {
        taken += cuda::head_wave_area(part.rows, std::min(part.columns, 151936 - first), 132);
      }
    }
    if (rows <= 128) continue;  // they only read weights
    // A slice at a time, 547 candidates fill 51 % of their waves, three slices 86 %.
    const double filled = static_cast<double>(rows) * 151936 / 132 / static_cast<double>(taken);
    EXPECT_GT(filled, 0.89) << rows;
  }
  EXPECT_EQ(cuda::head_chunk_of(4369, 151936, false, 132).rows, 4369);
  EXPECT_EQ(cuda::head_chunk_of(4, 1000, true, 132).columns, 1000);
}

TEST(device_bf16, experts_take_it) {
  test::for_each_device([&](const backend& device) {
    if (device.activation_type(weight_format::bf16) != dtype::bf16) {
      GTEST_SKIP() << "UNMASK_CUDA_GEMM=own";
    }
    std::mt19937 rng(14);
    constexpr std::int32_t experts = 4, each = 2;
    // Widths that tensor cores take, and one that only the exact tile does.
    for (const std::int64_t width : {std::int64_t{32}, std::int64_t{20}}) {
      constexpr std::int32_t hidden = 16;
      moe_experts weights;
      weights.hidden = hidden;
      for (int e = 0; e < experts; ++e) {
        grid gate_up({2 * hidden, width}), down({width, hidden});
        gate_up.randomize(rng, 0.3F);
        down.randomize(rng, 0.3F);
        weights.gate_up.push_back(device.pack(gate_up, weight_format::bf16));
        weights.down.push_back(device.pack(down, weight_format::bf16));
      }
      grid router_weight({experts, width});
      router_weight.randomize(rng);
      moe_router router;
      router.experts = experts;
      router.experts_per_token = each;
      router.weight = router_weight;
      router.parts = pack_router(device, router_weight, weight_format::bf16);
      grid x({9, width}), y({9, width}), half_y({9, width});
      x.randomize(rng);
      half_grid half({9, width});
      half.round(x);
      y.randomize(rng);
      half_y.copy(y);
      const auto run = [&](const tensor_view& input, const tensor_view& out) {
        std::vector<std::int32_t> expert(9 * each, -1);
        grid weight({9, each});
        const tensor_view chosen = make_view(expert.data(), dtype::i32, {9, each});
        device.run(op::moe_route{input, router, chosen, weight});
        device.run(op::moe_feed_forward{input, chosen, weight, weights, out});
        device.synchronize();
        return expert;
      };
      EXPECT_EQ(run(half, half_y), run(x, y));
      // The router takes bfloat16 rows to tensor cores where they come in whole pieces of 16 bytes.
      for (std::int64_t r = 0; r < 9; ++r) {
        for (std::int64_t d = 0; d < width; ++d) {
          EXPECT_TRUE(test::close(half_y.at(r, d), y.at(r, d), width % 8 == 0 ? 1e-4 : 0.0));
        }
      }
    }
  });
}

// The router's matrix goes to tensor cores in two bfloat16 parts, so its logits are almost those of
// float32: the same experts, and weights that differ by the 2^-17 that the parts leave out.
TEST(device_bf16, the_router_chooses_as_the_reference_does) {
  test::for_each_device([&](const backend& device) {
    if (device.activation_type(weight_format::bf16) != dtype::bf16) {
      GTEST_SKIP() << "UNMASK_CUDA_GEMM=own";
    }
    std::mt19937 rng(15);
    constexpr std::int64_t width = 48, rows = 21, each = 6;  // five and the shared one
    for (const bool sigmoid : {true, false}) {
      moe_router router;
      router.experts = 24;
      router.experts_per_token = each - 1;
      router.shared = 1;
      router.groups = sigmoid ? 4 : 1;
      router.groups_kept = sigmoid ? 2 : 1;
      router.sigmoid = sigmoid;
      router.scaling = 1.7F;
      grid weight({24, width});
      weight.randomize(rng, 0.3F);
      router.weight = weight;
      router.parts = pack_router(device, weight, weight_format::bf16);
      std::vector<std::int32_t> sequence(rows, 0);
      sequence[3] = -1;
      router.sequence = sequence.data();
      grid x({rows, width});
      x.randomize(rng);
      half_grid half({rows, width});
      half.round(x);
      std::vector<std::int32_t> want(rows * each), got(rows * each), one(each);
      grid want_weight({rows, each}), got_weight({rows, each}), one_weight({1, each});
      const auto as_view = [](std::vector<std::int32_t>& v, std::int64_t r) {
        return make_view(v.data(), dtype::i32, {r, each});
      };
      reference_backend().run(op::moe_route{x, router, as_view(want, rows), want_weight});
      device.run(op::moe_route{half, router, as_view(got, rows), got_weight});
      device.synchronize();
      EXPECT_EQ(got, want);
      EXPECT_EQ(got[3 * each], -1);
      EXPECT_EQ(got[3 * each + 5], -1);
      EXPECT_EQ(got[each + 5], 24);
      EXPECT_EQ(got_weight.at(1, 5), 1.0F);
      test::expect_close(got_weight, want_weight, 1e-4, "router weight");
      moe_router alone = router;
      alone.sequence = nullptr;
      device.run(op::moe_route{half.view().slice(7, 1), alone, as_view(one, 1), one_weight});
      device.synchronize();
      EXPECT_TRUE(test::same_bits(one_weight.row(0), got_weight.row(7), each));
    }
  });
}

}  // namespace
}  // namespace unmask
