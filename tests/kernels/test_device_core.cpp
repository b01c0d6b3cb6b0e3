// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA kernels of the model core, emulated, against the reference.
#include "harness/decode/kernels/features.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "methods/sparse_dllm/kernels/eviction.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::expect_close;
using test::grid;

TEST(device_core, rms_norm_and_silu_match_the_reference_and_the_batch) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(2);
    for (const std::int64_t width : {1, 3, 33, 100, 128, 515}) {
      grid x({5, width}, 7);
      x.randomize(rng, 2.0F);
      std::vector<float> weight = test::random_vector(rng, width);
      grid want({5, width}), got({5, width}, 5);
      reference_ops().run(op::rms_norm{x, test::view_of(weight), 1e-5F, want});
      device.run(op::rms_norm{x, test::view_of(weight), 1e-5F, got});
      device.synchronize();
      expect_close(got, want, 2e-6, "rms_norm");
      grid one({1, width});
      device.run(op::rms_norm{x.view().slice(3, 1), test::view_of(weight), 1e-5F, one});
      device.synchronize();
      EXPECT_TRUE(test::same_bits(one.row(0), got.row(3), width));
      device.run(op::rms_norm{x, test::view_of(weight), 1e-5F, x});  // in place
      device.synchronize();
      expect_close(x, want, 2e-6, "rms_norm in place");

      grid gate_up({5, 2 * width}, 1), product({5, width}), expected({5, width});
      gate_up.randomize(rng, 4.0F);
      gate_up.at(0, 0) = -200;
      gate_up.at(1, 0) = 200;
      reference_ops().run(op::silu_mul{gate_up, expected});
      device.run(op::silu_mul{gate_up, product});
      device.synchronize();
      expect_close(product, expected, 1e-6, "silu_mul");
    }
  });
}

TEST(device_core, embed_reads_every_float_type) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(1);
    const std::vector<std::int32_t> token{4, 0, 6, 6, 1, 7};
    std::vector<float> table = test::random_vector(rng, 7 * 19);
    std::vector<std::uint16_t> half;
    for (const float f : table) half.push_back(to_bf16(f));
    for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
      void* data = type == dtype::f32 ? static_cast<void*>(table.data()) : half.data();
      const tensor_view view = make_view(data, type, {7, 19});
      grid want({5, 19}, 3), got({6, 19}, 2);
      reference_ops().run(op::embed{token.data(), view, want});
      device.run(op::embed{token.data(), view, got});
      device.synchronize();
      for (std::int64_t r = 0; r < 5; ++r) {
        EXPECT_TRUE(test::same_bits(got.row(r), want.row(r), 19));
      }
      EXPECT_TRUE(std::isnan(got.at(5, 0)));  // token 7 is not in the table
    }
  });
}

TEST(device_core, rope_matches_the_reference) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(4);
    const std::vector<std::int32_t> position{0, 1, 77, 1023, 1024, 30001};
    for (const auto& [dim, rotary] :
         {std::pair<int, int>{48, 48}, {64, 32}, {24, 24}, {10, 6}, {128, 128}}) {
      for (const bool norm : {false, true}) {
        grid want({6, 3, dim}, 11), got({6, 3, dim}, 11);
        want.randomize(rng);
        got.copy(want);
        std::vector<float> weight = test::random_vector(rng, dim);
        const tensor_view view = norm ? test::view_of(weight) : tensor_view{};
        const rope_params rope{rotary, 500000.0F};
        reference_ops().run(op::head_norm_rope{want, view, 1e-6F, rope, position.data()});
        device.run(op::head_norm_rope{got, view, 1e-6F, rope, position.data()});
        device.synchronize();
        expect_close(got, want, 3e-6, "rope");
      }
    }
  });
}

TEST(device_core, cache_rows_go_where_the_reference_puts_them) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(5);
    const test::rows_fixture rows(rng, {5, 0, 9}, 150);
    for (const bool slots : {false, true}) {
      test::cache_fixture a(rng, 3, 3, 2, 12), b(rng, 3, 3, 2, 12);
      grid k({14, 2, 12}, 5), v({14, 2, 12}, 9);
      k.randomize(rng);
      v.randomize(rng);
      row_set set = rows.set;
      std::vector<std::int32_t> slot;
      for (const std::int32_t p : rows.position) slot.push_back(149 - p);
      if (slots) set.slot = slot.data();
      b.keys.copy(a.keys);
      b.values.copy(a.values);
      b.table = a.table;
      b.kv.page_table = b.table.data();
      reference_ops().run(op::kv_write{set, k, v, a.kv});
      device.run(op::kv_write{set, k, v, b.kv});
      device.run(op::kv_write{set, {}, {}, b.kv});  // nothing
      device.synchronize();
      for (std::int64_t p = 0; p < a.keys.rows(); ++p) {
        ASSERT_TRUE(test::same_bits(a.keys.row(p), b.keys.row(p), a.keys.columns()));
        ASSERT_TRUE(test::same_bits(a.values.row(p), b.values.row(p), a.values.columns()));
      }
      grid k_want({14, 2, 12}), v_want({14, 2, 12}), k_got({14, 2, 12}, 3), v_got({14, 2, 12}, 1);
      for (grid* g : {&k_want, &v_want}) g->randomize(rng);
      k_got.copy(k_want);
      v_got.copy(v_want);
      reference_ops().run(op::kv_read{set, a.kv, k_want, v_want, true});
      device.run(op::kv_read{set, b.kv, k_got, v_got, true});
      device.synchronize();
      for (std::int64_t r = 0; r < 14; ++r) {
        ASSERT_TRUE(test::same_bits(k_got.row(r), k_want.row(r), 24));
        ASSERT_TRUE(test::same_bits(v_got.row(r), v_want.row(r), 24));
      }
    }
  });
}

// One pass over the rows against the three operations that it stands for: q, k and the cache.
TEST(device_core, rotates_and_stores_as_the_single_operations_do) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(21);
    for (const auto& sizes : {std::pair<int, int>{48, 48}, {10, 6}, {64, 64}}) {
      const int dim = sizes.first, rotary = sizes.second;
      for (const bool norm : {false, true}) {
        for (const std::int32_t count : {1, 9}) {
          constexpr std::int64_t heads = 4, kv_heads = 2;
          const auto n = static_cast<std::size_t>(count);
          std::vector<std::int32_t> begin{0, count}, sequence(n, 0), position(n), slot(n),
              table{2, 0, 1};
          for (std::size_t r = 0; r < n; ++r) {
            position[r] = static_cast<std::int32_t>(r * 17);
            slot[r] = static_cast<std::int32_t>(r * 11 + 3);
          }
          sequence.back() = count > 1 ? -1 : 0;  // nobody's
          const std::int64_t width = (heads + 2 * kv_heads) * dim;
          std::vector<float> qkv = test::random_vector(rng, count * width), other = qkv;
          std::vector<float> weights = test::random_vector(rng, 2 * dim);
          const auto part = [&](std::vector<float>& all, std::int64_t first,
                                std::int64_t heads_of) {
            tensor_view v = make_view(all.data() + first * dim, dtype::f32, {count, heads_of, dim});
            v.row_stride = width;
            return v;
          };
          const auto weight = [&](int which) {
            return norm ? make_view(weights.data() + which * dim, dtype::f32, {dim})
                        : tensor_view{};
          };
          const rope_params rope{rotary, 10000.0F};
          for (const dtype type : {dtype::f32, dtype::bf16}) {
            const auto room = static_cast<std::size_t>(3 * kv_page_size * kv_heads * dim);
            std::vector<float> pages[4];
            const auto cache = [&](int which) {
              paged_kv kv;
              for (int side = 0; side < 2; ++side) {
                pages[which + side].assign(room, 0.5F);
                (side == 0 ? kv.keys : kv.values) =
                    make_view(pages[which + side].data(), type, {3, kv_page_size, kv_heads, dim});
              }
              kv.page_table = table.data();
              kv.table_stride = 3;
              return kv;
            };
            for (const bool slots : {false, true}) {
              const row_set rows{1,
                                 count,
                                 begin.data(),
                                 sequence.data(),
                                 position.data(),
                                 slots ? slot.data() : nullptr};
              const paged_kv want = cache(0), got = cache(2);
              std::vector<float> a = qkv, b = other;
              device.run(
                  op::head_norm_rope{part(a, 0, heads), weight(0), 1e-6F, rope, position.data()});
              device.run(op::head_norm_rope{part(a, heads, kv_heads), weight(1), 1e-6F, rope,
                                            position.data()});
              device.run(op::kv_write{rows, part(a, heads, kv_heads),
                                      part(a, heads + kv_heads, kv_heads), want});
              device.run(op::rotate_and_store{rows, part(b, 0, heads), part(b, heads, kv_heads),
                                              part(b, heads + kv_heads, kv_heads), weight(0),
                                              weight(1), 1e-6F, rope, got});
              device.synchronize();
              EXPECT_EQ(a, b);
              EXPECT_EQ(pages[0], pages[2]);
              EXPECT_EQ(pages[1], pages[3]);
              EXPECT_NE(pages[0], std::vector<float>(room, 0.5F));
            }
          }
        }
      }
    }
  });
}

TEST(device_core, kv_copy_compacts_slots) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(6);
    test::cache_fixture from(rng, 3, 3, 2, 12), want(rng, 3, 2, 2, 12), got(rng, 3, 2, 2, 12);
    got.keys.copy(want.keys);
    got.values.copy(want.values);
    got.table = want.table;
    got.kv.page_table = got.table.data();
    std::vector<std::int32_t> begin{0, 70, 70, 75}, slot;
    for (int i = 0; i < 75; ++i) slot.push_back((i * 37) % 192);
    reference_ops().run(op::kv_copy{3, begin.data(), slot.data(), from.kv, want.kv});
    device.run(op::kv_copy{3, begin.data(), slot.data(), from.kv, got.kv});
    device.synchronize();
    for (std::int64_t p = 0; p < want.keys.rows(); ++p) {
      ASSERT_TRUE(test::same_bits(want.keys.row(p), got.keys.row(p), want.keys.columns()));
      ASSERT_TRUE(test::same_bits(want.values.row(p), got.values.row(p), want.values.columns()));
    }
  });
}

}  // namespace
}  // namespace unmask
