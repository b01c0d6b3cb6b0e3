// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of attention under every mask, list and tile (operation_test.h says what follows from them).
#include "kernels/attention.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

struct seen {
  std::int64_t heads, kv_heads, dim;
  mask_kind mask;
  bool listed;
  std::int32_t tiles = 0;  // positions of a tile; 0: no tiles
  int pages = 2;
  bool mass = true;
  dtype type = dtype::f32;
  float scale = 1;
};
const std::vector<seen> attended{{2, 2, 8, mask_kind::full, false},
                                 {3, 3, 24, mask_kind::causal, true},
                                 {6, 2, 32, mask_kind::block_causal, false},
                                 {1, 1, 13, mask_kind::causal, false},
                                 {4, 1, 64, mask_kind::full, true, 0, 2, false},
                                 {8, 1, 128, mask_kind::block_causal, true, 0, 2, false},
                                 {2, 1, 160, mask_kind::full, false, 0, 2, false},
                                 // Heads of pictures' towers.
                                 {2, 2, 72, mask_kind::full, false},
                                 {4, 2, 80, mask_kind::full, true, 0, 2, false},
                                 {4, 2, 16, mask_kind::full, false, 24, 2, false},
                                 {3, 3, 20, mask_kind::full, false, 5, 1, false},
                                 {6, 2, 20, mask_kind::full, false, 100, 2, false},
                                 {4, 2, 16, mask_kind::full, true, 0, 18, false},
                                 // Scores far apart, and rows on tensor cores.
                                 {1, 1, 16, mask_kind::full, false, 0, 4, false, dtype::f32, 24},
                                 {4, 1, 64, mask_kind::causal, false, 0, 3, false, dtype::bf16},
                                 {4, 2, 128, mask_kind::full, true, 0, 9, false, dtype::bf16}};

const auto attention = for_each_of(attended, [](const seen& a) {
  return declared(
      [=](operands& at, const batch& b) {
        const std::int32_t capacity = a.pages * kv_page_size;
        const auto rows = [&](int s) { return a.pages > 2 && s == 12 ? 90 : few(s); };
        const ragged r(at, b, rows, capacity);
        key_set keys;
        const auto length = each<std::int64_t>(
            b, [&](int s) { return a.pages > 2 && s % 2 == 1 ? s : capacity - s * 7 % 60; });
        keys.kv_length = at.in(indices(length.begin(), length.end()));
        keys.mask = a.mask;
        keys.block = 7;
        counts seen_by = length;
        if (a.listed) {
          seen_by.clear();
          const auto slots = joined<std::int32_t>(b, [&](int s) {
            indices all(static_cast<std::size_t>(capacity));
            for (std::int32_t p = 0; p < capacity; ++p) all[static_cast<std::size_t>(p)] = p;
            std::mt19937 rng = rng_of(s, 40);
            std::shuffle(all.begin(), all.end(), rng);
            all.resize(static_cast<std::size_t>(s == 1 ? 0 : draw(rng, 1, capacity)));
            seen_by.push_back(static_cast<std::int64_t>(all.size()));
            return all;
          });
          keys.key_begin = at.in(begins_of(seen_by));
          keys.key_slot = at.in(slots);
        }
        if (a.tiles > 0) {
          const std::int32_t blocks = (capacity + a.tiles - 1) / a.tiles + 1;
          const auto keep = joined<std::uint8_t>(b, [&](int s) {
            std::mt19937 rng = rng_of(s, 41);
            bytes k(static_cast<std::size_t>(a.heads * blocks * blocks));
            for (std::uint8_t& x : k) x = rng() % 3 == 0;
            return k;
          });
          const auto applies = each<std::uint8_t>(b, [](int s) { return s % 4 != 1; });
          keys.tiles = {at.in(keep), at.in(applies), blocks, a.tiles};
        }
        const auto ones = std::vector<float>(static_cast<std::size_t>(total(seen_by)), 1.0F);
        const tensor_view mass =
            a.mass ? make_view(at.inout(seen_by, ones), dtype::f32, {total(seen_by)})
                   : tensor_view{};
        return op::attention{r.set,
                             at.normal(b, r.rows, {a.heads, a.dim}, 1, 3, 2),
                             at.cache(b, a.pages, a.kv_heads, a.dim, 30, a.type),
                             keys,
                             a.scale / std::sqrt(static_cast<float>(a.dim)),
                             at.out_rows<float>(r.rows, {a.heads, a.dim}, 1),
                             mass};
      },
      a.type == dtype::bf16 ? 2e-2
      : a.scale > 1         ? 1e-4
                            : 1e-5);
});

}  // namespace
}  // namespace unmask::test
