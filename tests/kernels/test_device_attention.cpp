// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA attention kernels, emulated, against the reference.
#include "kernels/attention.h"
#include "kernels/float16.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "tests/kernels/support.h"

namespace unmask::test {
namespace {

struct device_shape {
  std::int64_t heads, kv_heads, dim;
};

// A ragged batch over a paged cache, with the keys by length or listed in random order.
struct device_case {
  std::mt19937 rng;
  rows_fixture rows;
  cache_fixture cache;
  std::vector<std::int32_t> length, list_begin{0}, list;
  std::vector<std::uint8_t> keep, applies;
  key_set keys;
  grid q;
  device_case(const device_shape& s, const std::vector<std::int32_t>& lengths, std::int32_t pages,
              mask_kind mask, bool listed, unsigned seed)
      : rng(seed),
        rows(rng, lengths, pages * kv_page_size),
        cache(rng, static_cast<std::int32_t>(lengths.size()), pages, s.kv_heads, s.dim),
        q({rows.set.rows, s.heads, s.dim}, 3) {
    q.randomize(rng, 2.0F);
    const std::int32_t capacity = pages * kv_page_size;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      length.push_back(capacity - static_cast<std::int32_t>(rng() % 60));
      std::vector<std::int32_t> slots(static_cast<std::size_t>(capacity));
      for (std::int32_t p = 0; p < capacity; ++p) slots[static_cast<std::size_t>(p)] = p;
      std::shuffle(slots.begin(), slots.end(), rng);
      slots.resize(rng() % static_cast<std::size_t>(capacity));
      list.insert(list.end(), slots.begin(), slots.end());
      list_begin.push_back(static_cast<std::int32_t>(list.size()));
    }
    keys.kv_length = length.data();
    keys.mask = mask;
    keys.block = 7;
    if (listed) {
      keys.key_begin = list_begin.data();
      keys.key_slot = list.data();
    }
  }
  std::int32_t total_keys() const {
    if (keys.key_begin != nullptr) return list_begin.back();
    std::int32_t n = 0;
    for (const std::int32_t l : length) n += l;
    return n;
  }
  void add_tiles(std::int32_t size, std::int32_t blocks) {
    const std::int64_t heads = q.view().shape[1];
    keep.resize(static_cast<std::size_t>(rows.set.sequences * heads * blocks * blocks));
    for (std::uint8_t& k : keep) k = rng() % 3 == 0;
    applies.assign(static_cast<std::size_t>(rows.set.sequences), 1);
    applies.back() = 0;
    keys.tiles = {keep.data(), applies.data(), blocks, size};
  }
};

void expect_matches_reference(const ops& device, const device_case& c, bool mass) {
  const std::int64_t heads = c.q.view().shape[1], dim = c.q.view().shape[2];
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  grid want({c.rows.set.rows, heads, dim}), got({c.rows.set.rows, heads, dim}, 1);
  std::vector<float> want_mass(static_cast<std::size_t>(c.total_keys()), 1.0F);
  std::vector<float> got_mass = want_mass;
  const tensor_view none;
  reference_ops().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, want,
                                    mass ? view_of(want_mass) : none});
  device.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, got,
                           mass ? view_of(got_mass) : none});
  device.synchronize();
  expect_close(got, want, 5e-6, "out");
  expect_close(got_mass, want_mass, 1e-5, "key_mass");
}

TEST(device_attention, matches_the_reference_for_every_mask_list_and_shape) {
  constexpr device_shape shapes[] = {{2, 2, 8},  {3, 3, 24},  {6, 2, 32}, {1, 1, 13},
                                     {4, 1, 64}, {8, 1, 128}, {2, 1, 160}};
  for_each_device([&](const ops& device) {
    unsigned seed = 1;
    for (const device_shape& s : shapes) {
      for (const mask_kind mask : {mask_kind::full, mask_kind::causal, mask_kind::block_causal}) {
        const bool listed = seed % 2 == 0;
        SCOPED_TRACE("shape with head dimension " + std::to_string(s.dim));
        expect_matches_reference(device, {s, {5, 0, 9, 1}, 2, mask, listed, seed++}, s.dim < 64);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST(device_attention, leaves_out_tiles) {
  for_each_device([&](const ops& device) {
    device_case c({4, 2, 16}, {20, 3, 6}, 2, mask_kind::full, false, 50);
    c.add_tiles(24, 6);
    expect_matches_reference(device, c, false);
  });
}

// Chunks in several blocks or one after the other: the same bits, and both right. Few rows over
// many keys are split; the many rows of a batch are not.
TEST(device_attention, rows_have_the_same_bits_alone_in_any_batch_and_split_or_not) {
  for_each_device([&](const ops& device) {
    for (const mask_kind mask : {mask_kind::full, mask_kind::causal}) {
      device_case c({4, 2, 16}, {3, 90, 2}, 18, mask, mask == mask_kind::full, 5);
      grid all({95, 4, 16}), one({1, 4, 16});
      device.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, all, {}});
      grid want({95, 4, 16});
      reference_ops().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, want, {}});
      device.synchronize();
      expect_close(all, want, 5e-6, "out");
      for (const std::int32_t r : {0, 2, 3, 50, 92, 94}) {
        const auto s = static_cast<std::size_t>(c.rows.sequence[static_cast<std::size_t>(r)]);
        const std::int32_t begin[2] = {0, 1}, sequence = 0;
        const std::int32_t position = c.rows.position[static_cast<std::size_t>(r)];
        const row_set set{1, 1, begin, &sequence, &position, nullptr};
        paged_kv kv = c.cache.kv;
        kv.page_table += static_cast<std::int32_t>(s) * kv.table_stride;
        key_set keys = c.keys;
        keys.kv_length += s;
        const std::int32_t list[2] = {0, c.list_begin[s + 1] - c.list_begin[s]};
        if (keys.key_begin != nullptr) {
          keys.key_slot += c.list_begin[s];
          keys.key_begin = list;
        }
        device.run(op::attention{set, c.q.view().slice(r, 1), kv, keys, 0.3F, one, {}});
        device.synchronize();
        ASSERT_TRUE(same_bits(one.row(0), all.row(r), 4 * 16)) << "row " << r;
      }
    }
  });
}

TEST(device_attention, rows_without_a_key_are_zero_and_nan_stays_visible) {
  for_each_device([&](const ops& device) {
    device_case c({2, 1, 16}, {4}, 1, mask_kind::causal, true, 3);
    c.list = {63, 62};
    c.list_begin = {0, 2};
    c.keys.key_slot = c.list.data();
    c.keys.key_begin = c.list_begin.data();
    c.rows.position = {0, 1, 2, 62};
    c.rows.set.position = c.rows.position.data();
    c.q.at(3, 5) = nan;
    grid out({4, 2, 16});
    std::vector<float> mass(2, 0.0F);
    device.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 1.0F, out, view_of(mass)});
    device.synchronize();
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t d = 0; d < 32; ++d) ASSERT_EQ(out.at(r, d), 0.0F);
    }
    EXPECT_TRUE(std::isnan(out.at(3, 0)) && std::isfinite(out.at(3, 16)));
    EXPECT_EQ(mass[0], 0.0F);
  });
}

TEST(device_attention, survives_large_scores) {
  for_each_device([&](const ops& device) {
    device_case c({1, 1, 16}, {9}, 4, mask_kind::full, false, 21);
    grid want({9, 1, 16}), got({9, 1, 16});
    reference_ops().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 6.0F, want, {}});
    device.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 6.0F, got, {}});
    device.synchronize();
    expect_close(got, want, 1e-4);
  });
}

// Keys and values as bfloat16. The rounded ones, as float32, are what the reference sees.
struct half_cache {
  std::vector<std::uint16_t> key, value;
  paged_kv kv;
  explicit half_cache(device_case& c) {
    kv = c.cache.kv;
    for (const auto& [from, to, side] : {std::tuple{&c.cache.keys, &key, &kv.keys},
                                         std::tuple{&c.cache.values, &value, &kv.values}}) {
      // 16-byte aligned, as allocate() gives: room in front is left out.
      to->resize(static_cast<std::size_t>(from->view().elements()) + 8);
      auto start = reinterpret_cast<std::uintptr_t>(to->data());
      auto* first = to->data() + (16 - start % 16) % 16 / 2;
      std::size_t n = 0;
      for (std::int64_t r = 0; r < from->rows(); ++r) {
        for (std::int64_t d = 0; d < from->columns(); ++d) {
          first[n++] = to_bf16(from->at(r, d));
          from->at(r, d) = from_bf16(to_bf16(from->at(r, d)));
        }
      }
      side->data = first;
      side->type = dtype::bf16;
      side->row_stride = from->columns();
    }
  }
};

// Root mean square of the difference over that of the result. Rounding the weights to bfloat16
// costs 2^-9 each, of both signs: some 2e-3.
double relative_error(const grid& got, const grid& want) {
  double difference = 0, size = 0;
  for (std::int64_t r = 0; r < want.rows(); ++r) {
    for (std::int64_t d = 0; d < want.columns(); ++d) {
      const double x = got.at(r, d) - want.at(r, d);
      difference += x * x;
      size += double{want.at(r, d)} * want.at(r, d);
    }
  }
  return std::sqrt(difference / size);
}

void round_queries(device_case& c) {
  for (std::int64_t r = 0; r < c.q.rows(); ++r) {
    for (std::int64_t d = 0; d < c.q.columns(); ++d) {
      c.q.at(r, d) = from_bf16(to_bf16(0.5F * c.q.at(r, d)));
    }
  }
}

TEST(device_attention, tensor_cores_match_the_reference) {
  struct tensor_case {
    device_shape shape;
    std::vector<std::int32_t> lengths;
    std::int32_t pages;
    mask_kind mask;
    bool listed;
  };
  // 16, 32, 64 and 128 packed rows per block; GQA 1, 2, 4, 7; two cases are split over several
  // blocks; masked tiles are skipped, masked in part and left alone.
  const std::vector<tensor_case> cases = {{{2, 2, 64}, {5, 0, 9, 1}, 2, mask_kind::full, false},
                                          {{4, 1, 64}, {9, 7}, 3, mask_kind::full, true},
                                          {{4, 1, 64}, {6, 3}, 9, mask_kind::full, false},
                                          {{4, 2, 64}, {30, 20}, 2, mask_kind::causal, false},
                                          {{4, 1, 64}, {20, 9}, 2, mask_kind::block_causal, true},
                                          {{7, 1, 128}, {11, 3}, 2, mask_kind::full, false},
                                          {{2, 1, 128}, {4, 6}, 2, mask_kind::causal, true},
                                          {{4, 2, 128}, {12}, 2, mask_kind::full, false},
                                          {{4, 1, 64}, {70, 33}, 5, mask_kind::block_causal, false},
                                          {{4, 1, 64}, {50, 40}, 3, mask_kind::full, true},
                                          {{4, 1, 128}, {40, 70}, 4, mask_kind::causal, false},
                                          {{2, 1, 64}, {3, 1}, 10, mask_kind::block_causal, false}};
  for_each_device([&](const ops& device) {
    unsigned seed = 100;
    for (const tensor_case& t : cases) {
      device_case c(t.shape, t.lengths, t.pages, t.mask, t.listed, seed++);
      half_cache half(c);
      round_queries(c);
      const float scale = 1.0F / std::sqrt(static_cast<float>(t.shape.dim));
      grid want({c.rows.set.rows, t.shape.heads, t.shape.dim});
      grid got({c.rows.set.rows, t.shape.heads, t.shape.dim}, 4);
      reference_ops().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, want, {}});
      device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, scale, got, {}});
      device.synchronize();
      EXPECT_LT(relative_error(got, want), 6e-3) << "case of seed " << seed - 1;
      // The mass of each key comes from the same scores, and adds to what is there.
      std::vector<float> mass(static_cast<std::size_t>(c.total_keys()), 0.25F), want_mass = mass;
      device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, scale, got, view_of(mass)});
      device.synchronize();
      EXPECT_LT(relative_error(got, want), 6e-3) << "case of seed " << seed - 1;
      reference_ops().run(
          op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, want, view_of(want_mass)});
      expect_close(mass, want_mass, 6e-3, "key mass");
    }
  });
}

// One long context among short ones is split, and the others are not.
TEST(device_attention, tensor_cores_split_the_longest) {
  for_each_device([&](const ops& device) {
    device_case c({4, 1, 64}, {9, 40, 3, 5}, 24, mask_kind::full, false, 7);
    half_cache half(c);
    round_queries(c);
    c.length = {1500, 70, 1, 640};
    grid want({c.rows.set.rows, 4, 64}), got({c.rows.set.rows, 4, 64});
    reference_ops().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.125F, want, {}});
    device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, 0.125F, got, {}});
    device.synchronize();
    EXPECT_LT(relative_error(got, want), 6e-3);
  });
}

// Tiles that no row sees are skipped, those that some see are masked; sizes that tiles of keys do not
// divide; sequences without a mask. And the mass of tiles, from the first slot on and from a later.
TEST(device_attention, tensor_cores_under_block_masks) {
  for_each_device([&](const ops& device) {
    unsigned seed = 300;
    for (const std::int32_t size : {8, 24, 64, 128}) {
      for (const device_shape& shape : {device_shape{2, 2, 64}, device_shape{4, 1, 128}}) {
        device_case c(shape, {70, 20, 30}, 4, mask_kind::full, false, seed++);
        half_cache half(c);
        round_queries(c);
        const std::int32_t blocks = (4 * kv_page_size + size - 1) / size;
        c.add_tiles(size, blocks);
        grid want({c.rows.set.rows, shape.heads, shape.dim});
        grid got({c.rows.set.rows, shape.heads, shape.dim}, 4);
        reference_ops().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.1F, want, {}});
        device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, 0.1F, got, {}});
        device.synchronize();
        EXPECT_LT(relative_error(got, want), 6e-3) << "block " << size;
        std::ranges::fill(c.length, 4 * kv_page_size);  // rows stand anywhere
        for (const std::int32_t from : {0, size}) {
          const std::vector<std::int32_t> first(3, from);
          grid want_mass({3, shape.heads, blocks, blocks}), mass({3, shape.heads, blocks, blocks});
          for (std::int64_t s = 0; s < 3; ++s) {
            std::fill_n(want_mass.row(s), want_mass.columns(), 0.0F);
            std::fill_n(mass.row(s), mass.columns(), 0.0F);
          }
          reference_ops().run(op::block_mass{c.rows.set, c.q, c.cache.kv, c.length.data(),
                                             first.data(), size, 0.1F, want_mass});
          device.run(op::block_mass{c.rows.set, c.q, half.kv, c.length.data(), first.data(), size,
                                    0.1F, mass});
          device.synchronize();
          EXPECT_LT(relative_error(mass, want_mass), 6e-3) << "block " << size << " from " << from;
        }
      }
    }
  });
}

}  // namespace
}  // namespace unmask::test
