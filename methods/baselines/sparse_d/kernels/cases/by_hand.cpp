// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention under block masks, and the operations that choose the masks.
#include <gtest/gtest.h>

#include "kernels/attention.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;
using indices = std::vector<std::int32_t>;
using bytes = std::vector<std::uint8_t>;
const std::vector<const backend*> backends = unmask::test::host_backends();

tensor_view flags_view(bytes& b, std::initializer_list<std::int64_t> shape) {
  return make_view(b.data(), dtype::u8, shape);
}

// A ragged batch under random masks; `used` blocks of `size` per sequence, room for `blocks`.
struct masked_case {
  std::mt19937 rng;
  std::int64_t heads, dim;
  std::int32_t size, blocks;
  test::rows_fixture rows;
  test::cache_fixture cache;
  indices length;
  bytes keep, applies;
  key_set keys;
  grid q;
  masked_case(std::int64_t h, std::int64_t kv_heads, std::int64_t d, std::int32_t block,
              const indices& row_counts, bytes applied, unsigned seed)
      : rng(seed),
        heads(h),
        dim(d),
        size(block),
        blocks((3 * kv_page_size + block - 1) / block + 1),
        rows(rng, row_counts, 2 * kv_page_size),
        cache(rng, static_cast<std::int32_t>(row_counts.size()), 3, kv_heads, d),
        applies(std::move(applied)),
        q({rows.set.rows, h, d}, 3) {
    q.randomize(rng, 2.0F);
    for (std::size_t s = 0; s < row_counts.size(); ++s) {
      length.push_back(2 * kv_page_size + static_cast<std::int32_t>(rng() % kv_page_size));
    }
    keep.resize(row_counts.size() * static_cast<std::size_t>(h * blocks * blocks));
    for (std::uint8_t& k : keep) k = rng() % 3 == 0 ? 1 : 0;
    keys.kv_length = length.data();
    keys.tiles = {keep.data(), applies.data(), blocks, size};
  }
  std::uint8_t& flag(std::int32_t s, std::int64_t h, std::int64_t i, std::int64_t j) {
    return keep[static_cast<std::size_t>(((s * heads + h) * blocks + i) * blocks + j)];
  }
};

// The reference against the definition by removal: a row under a mask equals the row over a list of
// the slots that its head keeps, one head at a time.
TEST(block_mask, reference_equals_attention_over_the_kept_keys) {
  masked_case c(4, 2, 12, 24, {20, 9}, {1, 1}, 1);
  const backend& backend = reference_backend();
  grid got({29, 4, 12});
  backend.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, got, {}});
  for (std::int32_t r = 0; r < 29; ++r) {
    const std::int32_t s = c.rows.sequence[static_cast<std::size_t>(r)];
    const std::int32_t position = c.rows.position[static_cast<std::size_t>(r)];
    for (std::int64_t h = 0; h < 4; ++h) {
      indices slots;
      for (std::int32_t k = 0; k < c.length[static_cast<std::size_t>(s)]; ++k) {
        if (c.flag(s, h, position / 24, k / 24) != 0) slots.push_back(k);
      }
      const indices begin{0, 1}, list{0, static_cast<std::int32_t>(slots.size())};
      const std::int32_t zero = 0;
      const row_set one{1, 1, begin.data(), &zero, &position, nullptr};
      paged_kv kv = c.cache.kv;
      kv.page_table += s * kv.table_stride;
      key_set keys;
      keys.key_begin = list.data();
      keys.key_slot = slots.data();
      grid want({1, 4, 12});
      backend.run(op::attention{one, c.q.view().slice(r, 1), kv, keys, 0.3F, want, {}});
      ASSERT_TRUE(test::same_bits(want.row(0) + h * 12, got.row(r) + h * 12, 12)) << r << " " << h;
    }
  }
}

// Keys outside the kept blocks are not read: not-a-number there changes nothing.
TEST(block_mask, other_keys_are_never_read) {
  test::for_each_isa([&](const backend& on) {
    masked_case c(2, 1, 16, 16, {128}, {1}, 9);
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < c.blocks; ++i) {
        for (std::int64_t j = 0; j < c.blocks; ++j) c.flag(0, h, i, j) = j % 3 == 1;
      }
    }
    grid clean({128, 2, 16}), poisoned({128, 2, 16});
    on.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, clean, {}});
    for (std::int32_t slot = 0; slot < c.length[0]; ++slot) {
      if (slot / 16 % 3 == 1) continue;
      const std::int32_t page = c.cache.table[static_cast<std::size_t>(slot / kv_page_size)];
      for (std::int64_t d = 0; d < 16; ++d) {
        c.cache.keys.at(page, slot % kv_page_size * 16 + d) = test::nan;
        c.cache.values.at(page, slot % kv_page_size * 16 + d) = test::nan;
      }
    }
    on.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, poisoned, {}});
    for (std::int32_t r = 0; r < 128; ++r) {
      ASSERT_TRUE(test::same_bits(clean.row(r), poisoned.row(r), 32)) << r;
    }
  });
}

TEST(block_mask, keeping_every_block_gives_the_bits_of_dense_attention) {
  test::for_each_isa([&](const backend& on) {
    for (const std::int32_t size : {7, 32, 128}) {
      masked_case c(6, 2, 24, size, {70, 5}, {1, 1}, 11);
      std::fill(c.keep.begin(), c.keep.end(), std::uint8_t{1});
      grid dense({75, 6, 24}), all({75, 6, 24});
      on.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, all, {}});
      c.keys.tiles = {};
      on.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, dense, {}});
      for (std::int32_t r = 0; r < 75; ++r) {
        ASSERT_TRUE(test::same_bits(dense.row(r), all.row(r), 6 * 24)) << size << " row " << r;
      }
    }
  });
}

TEST(block_mask, a_head_that_keeps_nothing_gives_zeros) {
  masked_case c(2, 2, 8, 32, {3}, {1}, 6);
  std::fill(c.keep.begin(), c.keep.end(), std::uint8_t{0});
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
    grid out({3, 2, 8});
    backend->run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 1.0F, out, {}});
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t d = 0; d < 16; ++d) EXPECT_EQ(out.at(r, d), 0.0F);
    }
  }
}

TEST(block_mask, goes_with_neither_list_nor_key_mass) {
  masked_case c(2, 2, 8, 32, {3}, {1}, 6);
  std::vector<float> mass(static_cast<std::size_t>(c.length[0]), 0.0F);
  const indices begin{0, 1}, slot{0};
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
    grid out({3, 2, 8});
    EXPECT_THROW(backend->run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 1.0F, out,
                                            test::view_of(mass)}),
                 std::logic_error);
    key_set listed = c.keys;
    listed.key_begin = begin.data();
    listed.key_slot = slot.data();
    EXPECT_THROW(backend->run(op::attention{c.rows.set, c.q, c.cache.kv, listed, 1.0F, out, {}}),
                 std::logic_error);
  }
}

// One head of width 1, keys (0, ln 2, ln 3), one row with q = 1: weights (1, 2, 3) / 6. Blocks of
// 2: tiles hold (1 + 2) / 6 and 3 / 6, over a full tile of 4; from slot 2 on the last key has it
// all.
TEST(block_mass, by_hand) {
  for (const backend* backend : backends) {
    std::vector<float> storage(2 * kv_page_size, 0.0F);
    storage[1] = std::log(2.0F);
    storage[2] = std::log(3.0F);
    const tensor_view pages = make_view(storage.data(), dtype::f32, {2, kv_page_size, 1, 1});
    const std::int32_t table = 0, begin[2] = {0, 1}, zero = 0, position = 0, length = 3;
    const paged_kv cache{pages, pages, &table, 1};
    const row_set rows{1, 1, begin, &zero, &position, nullptr};
    grid q({1, 1, 1});
    q.at(0, 0) = 1;
    grid mass({1, 1, 3, 3});
    backend->run(op::block_mass{rows, q, cache, &length, &zero, 2, 1.0F, mass});
    EXPECT_NEAR(mass.at(0, 0), 3.0 / 6 / 4, 1e-7);
    EXPECT_NEAR(mass.at(0, 1), 3.0 / 6 / 4, 1e-7);
    EXPECT_EQ(mass.at(0, 3), 0.0F);                                       // no row in query block 1
    EXPECT_TRUE(std::isnan(mass.at(0, 2)) && std::isnan(mass.at(0, 6)));  // beyond the last block
    const std::int32_t from = 2;
    grid tail({1, 1, 3, 3});
    backend->run(op::block_mass{rows, q, cache, &length, &from, 2, 1.0F, tail});
    EXPECT_TRUE(std::isnan(tail.at(0, 0)));
    EXPECT_NEAR(tail.at(0, 1), 1.0 / 4, 1e-7);
  }
}

// The masses of the fast backend lead to the same pattern, for tiles that end inside a page, span
// several or are narrower than a vector, and for peaked and flat attention.
TEST(block_mass, the_pattern_is_that_of_the_reference) {
  test::for_each_isa([&](const backend& on) {
    unsigned seed = 41;
    for (const std::int32_t size : {3, 24, 32, 100, 128}) {
      for (const float scale : {0.05F, 0.4F, 1.0F}) {
        masked_case c(6, 2, 24, size, {128, 40, 17}, {1, 1, 1}, seed++);
        const indices zero{0, 0, 0};
        indices used, count;
        for (const std::int32_t length : c.length) {
          used.push_back((length + size - 1) / size);
          count.push_back(used.back() * 3 / 10 + 1);
        }
        const auto pattern = [&](const backend& backend) {
          grid mass({3, 6, c.blocks, c.blocks});
          bytes keep(c.keep.size(), 9);
          backend.run(op::block_mass{c.rows.set, c.q, c.cache.kv, c.length.data(), zero.data(),
                                     size, scale, mass});
          backend.run(op::keep_top_blocks{mass, used.data(), zero.data(), used.data(), count.data(),
                                          flags_view(keep, {3, 6, c.blocks, c.blocks})});
          return keep;
        };
        EXPECT_EQ(pattern(on), pattern(reference_backend())) << size << " " << scale;
      }
    }
  });
}

TEST(keep_top_blocks, by_hand) {
  // One head, 3 of 4 blocks in use; query block 0 has a tie of blocks 0 and 2.
  grid mass({1, 1, 4, 4});
  const std::vector<float> score{5, 1, 5, 1, 2, 3, 3, 2, 9};
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      mass.at(0, i * 4 + j) = score[static_cast<std::size_t>(i * 3 + j)];
    }
  }
  const std::int32_t used = 3, zero = 0, two = 2, one = 1, three = 3, four = 4;
  for (const backend* backend : backends) {
    bytes keep(16, 7);
    const tensor_view flags = flags_view(keep, {1, 1, 4, 4});
    // The best one, if it lies below block 2; then all of the range from 2 on.
    backend->run(op::keep_top_blocks{mass, &used, &zero, &two, &one, flags});
    EXPECT_EQ(keep, (bytes{1, 0, 7, 7, 0, 0, 7, 7, 0, 0, 7, 7, 7, 7, 7, 7}));
    backend->run(op::keep_top_blocks{mass, &used, &two, &three, &four, flags});
    EXPECT_EQ(keep, (bytes{1, 0, 1, 7, 0, 0, 1, 7, 0, 0, 1, 7, 7, 7, 7, 7}));
    // Nothing in use: left alone.
    backend->run(op::keep_top_blocks{mass, &zero, &zero, &zero, &one, flags});
    EXPECT_EQ(keep[0], 1);
  }
}

TEST(block_mask_keys, by_hand) {
  // Two heads, two blocks of 4 in use over 6 keys, room for 3.
  bytes keep(2 * 2 * 9, 7);
  const auto set = [&](int h, int i, int j, std::uint8_t to) {
    keep[static_cast<std::size_t>((h * 3 + i) * 3 + j)] = to;
  };
  set(0, 0, 0, 1), set(0, 0, 1, 0), set(0, 1, 0, 0), set(0, 1, 1, 1);
  set(1, 0, 0, 1), set(1, 0, 1, 1), set(1, 1, 0, 0), set(1, 1, 1, 0);
  const bytes applies{1, 0};
  const indices length{6, 6};
  for (const backend* backend : backends) {
    std::vector<float> out(6, -1.0F);
    backend->run(op::block_mask_keys{flags_view(keep, {2, 2, 3, 3}), applies.data(), 4,
                                     length.data(), make_view(out.data(), dtype::f32, {2, 3})});
    EXPECT_EQ(out, (std::vector<float>{(4 + 6) / 2.0F, (2 + 0) / 2.0F, -1, -1, -1, -1}));
  }
}

}  // namespace
}  // namespace unmask
