// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The fused kernel between projection and attention, emulated, has the bits of the single ones.
#include <cstring>

#include "harness/decode/kernels/features.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "methods/sparse_dllm/kernels/eviction.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::expect_close;
using test::grid;

// One pass over the rows against the three operations that it stands for: q, k and the cache.
TEST(device_core, rotates_and_stores_as_the_single_operations_do) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(21);
    for (const auto& [dim, rotary, rows_of] : {std::tuple<int, int, dtype>{48, 48, dtype::f32},
                                               {10, 6, dtype::f32},
                                               {64, 64, dtype::f32},
                                               {128, 64, dtype::f32},
                                               {10, 6, dtype::bf16},
                                               {64, 64, dtype::bf16},
                                               {128, 128, dtype::bf16}}) {
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
          std::vector<float> qkv = test::random_vector(rng, count * width);
          if (rows_of == dtype::bf16) {  // in the first half of the memory
            std::vector<std::uint16_t> half(qkv.size());
            std::ranges::transform(qkv, half.begin(), to_bf16);
            std::memcpy(qkv.data(), half.data(), half.size() * sizeof half[0]);
          }
          std::vector<float> other = qkv;
          std::vector<float> weights = test::random_vector(rng, 2 * dim);
          const auto part = [&](std::vector<float>& all, std::int64_t first,
                                std::int64_t heads_of) {
            tensor_view v = make_view(reinterpret_cast<std::byte*>(all.data()) +
                                          static_cast<std::size_t>(first * dim) * size_of(rows_of),
                                      rows_of, {count, heads_of, dim});
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

}  // namespace
}  // namespace unmask
