// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/attention.h"

#include "tests/kernels/support.h"

namespace unmask::test {
namespace {

struct shape {
  std::int64_t heads, kv_heads, dim;
};
constexpr shape shapes[] = {{2, 2, 8},  {4, 1, 16}, {3, 3, 24},  {6, 2, 32},
                            {2, 1, 64}, {5, 5, 20}, {8, 2, 128}, {1, 1, 13}};

// One ragged batch: keys by length or by list, and a mask.
struct attention_case {
  std::mt19937 rng;
  rows_fixture rows;
  cache_fixture cache;
  std::vector<std::int32_t> length, list_begin{0}, list;
  key_set keys;
  grid q;
  attention_case(const shape& s, const std::vector<std::int32_t>& lengths, std::int32_t pages,
                 mask_kind mask, bool listed, unsigned seed)
      : rng(seed),
        rows(rng, lengths, pages * kv_page_size),
        cache(rng, static_cast<std::int32_t>(lengths.size()), pages, s.kv_heads, s.dim),
        q({rows.set.rows, s.heads, s.dim}, 3) {
    q.randomize(rng, 2.0F);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int32_t capacity = pages * kv_page_size;
      length.push_back(capacity - static_cast<std::int32_t>(rng() % 100));
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
};

// The definition, in double, one row and head at a time.
void definition(const attention_case& c, float scale, const grid& out, std::vector<double>& mass) {
  const std::int64_t heads = c.q.view().shape[1], dim = c.q.view().shape[2];
  const std::int64_t kv_heads = c.cache.kv.keys.shape[2];
  std::int32_t first = 0;
  for (std::int32_t s = 0; s < c.rows.set.sequences; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const bool listed = c.keys.key_begin != nullptr;
    const std::int32_t count = listed ? c.list_begin[i + 1] - c.list_begin[i] : c.length[i];
    for (std::int32_t r = c.rows.begin[i]; r < c.rows.begin[i + 1]; ++r) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t kv_head = h / (heads / kv_heads);
        std::vector<double> weight(static_cast<std::size_t>(count), 0.0);
        std::vector<std::int64_t> place(static_cast<std::size_t>(count));
        double sum = 0;
        for (std::int32_t j = 0; j < count; ++j) {
          const auto k = static_cast<std::size_t>(j);
          const std::int32_t slot = listed ? c.list[static_cast<std::size_t>(first + j)] : j;
          const std::int32_t page = c.cache.table[static_cast<std::size_t>(
              s * c.cache.kv.table_stride + slot / kv_page_size)];
          place[k] =
              ((std::int64_t{page} * kv_page_size + slot % kv_page_size) * kv_heads + kv_head) *
              dim;
          const std::int32_t p = c.rows.position[static_cast<std::size_t>(r)];
          const bool admitted =
              c.keys.mask == mask_kind::full ||
              (c.keys.mask == mask_kind::causal ? slot <= p
                                                : slot / c.keys.block <= p / c.keys.block);
          if (!admitted) continue;
          double dot = 0;
          for (std::int64_t d = 0; d < dim; ++d) {
            dot += static_cast<double>(c.q.row(r)[h * dim + d]) *
                   c.cache.kv.keys.as<float>()[place[k] + d];
          }
          sum += weight[k] = std::exp(dot * scale);
        }
        for (std::int64_t d = 0; d < dim; ++d) {
          double value = 0;
          for (std::int32_t j = 0; j < count; ++j) {
            const auto k = static_cast<std::size_t>(j);
            value += weight[k] * c.cache.kv.values.as<float>()[place[k] + d];
          }
          out.row(r)[h * dim + d] = sum > 0 ? static_cast<float>(value / sum) : 0.0F;
        }
        for (std::int32_t j = 0; j < count && sum > 0; ++j) {
          mass[static_cast<std::size_t>(first + j)] += weight[static_cast<std::size_t>(j)] / sum;
        }
      }
    }
    first += count;
  }
}

TEST(attention, matches_double_on_every_isa_mask_and_list) {
  for_each_isa([&](const std::string&) {
    unsigned seed = 1;
    for (const shape& s : shapes) {
      for (const mask_kind mask : {mask_kind::full, mask_kind::causal, mask_kind::block_causal}) {
        for (const bool listed : {false, true}) {
          attention_case c(s, {5, 0, 33, 1}, 3, mask, listed, seed++);
          const float scale = 1.0F / std::sqrt(static_cast<float>(s.dim));
          grid want({c.rows.set.rows, s.heads, s.dim}), got({c.rows.set.rows, s.heads, s.dim}, 1);
          std::vector<double> mass(static_cast<std::size_t>(c.total_keys()), 0.0);
          std::vector<float> got_mass(mass.size(), 1.0F);
          definition(c, scale, want, mass);
          cpu::attention(c.rows.set, c.q, c.cache.kv, c.keys, scale, got, view_of(got_mass));
          expect_close(got, want, 5e-6, "out");
          for (std::size_t i = 0; i < mass.size(); ++i) {
            ASSERT_TRUE(close(got_mass[i], mass[i] + 1, 1e-5)) << "mass of key " << i;
          }
        }
      }
    }
  });
}

TEST(attention, key_mass_sums_to_rows_times_heads) {
  for_each_isa([&](const std::string&) {
    attention_case c({6, 3, 32}, {40, 7}, 4, mask_kind::full, false, 77);
    grid out({47, 6, 32});
    std::vector<float> mass(static_cast<std::size_t>(c.total_keys()), 0.0F);
    cpu::attention(c.rows.set, c.q, c.cache.kv, c.keys, 0.2F, out, view_of(mass));
    double sum = 0;
    for (const float m : mass) sum += m;
    EXPECT_TRUE(close(sum, 47.0 * 6, 1e-5));
  });
}

// A sequence alone, one row alone, and the whole batch give the same bits.
TEST(attention, rows_have_the_same_bits_in_any_batch) {
  for_each_isa([&](const std::string&) {
    for (const mask_kind mask : {mask_kind::full, mask_kind::causal, mask_kind::block_causal}) {
      for (const bool listed : {false, true}) {
        const shape s{4, 2, 32};
        attention_case c(s, {50, 3, 64}, 5, mask, listed, 5);
        grid all({117, 4, 32}), one({1, 4, 32});
        cpu::attention(c.rows.set, c.q, c.cache.kv, c.keys, 0.3F, all, {});
        for (std::int32_t r = 0; r < 117; ++r) {
          const std::int32_t q_sequence = c.rows.sequence[static_cast<std::size_t>(r)];
          const std::int32_t begin[2] = {0, 1}, sequence = 0;
          const std::int32_t position = c.rows.position[static_cast<std::size_t>(r)];
          const row_set set{1, 1, begin, &sequence, &position, nullptr};
          paged_kv kv = c.cache.kv;
          kv.page_table += q_sequence * kv.table_stride;
          key_set keys = c.keys;
          keys.kv_length += q_sequence;
          const auto i = static_cast<std::size_t>(q_sequence);
          const std::int32_t list[2] = {0, c.list_begin[i + 1] - c.list_begin[i]};
          if (listed) {
            keys.key_slot += c.list_begin[i];
            keys.key_begin = list;
          }
          cpu::attention(set, c.q.view().slice(r, 1), kv, keys, 0.3F, one, {});
          ASSERT_TRUE(same_bits(one.row(0), all.row(r), 4 * 32)) << "row " << r;
        }
      }
    }
  });
}

TEST(attention, rows_without_a_key_are_zero) {
  for_each_isa([&](const std::string&) {
    attention_case c({2, 1, 16}, {4}, 1, mask_kind::causal, true, 3);
    // Every listed key lies behind every row.
    c.list = {63, 62};
    c.list_begin = {0, 2};
    c.keys.key_slot = c.list.data();
    c.keys.key_begin = c.list_begin.data();
    c.rows.position = {0, 1, 2, 61};
    c.rows.set.position = c.rows.position.data();
    grid out({4, 2, 16});
    std::vector<float> mass(2, 0.0F);
    cpu::attention(c.rows.set, c.q, c.cache.kv, c.keys, 1.0F, out, view_of(mass));
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t d = 0; d < 32; ++d) ASSERT_EQ(out.at(r, d), 0.0F);
    }
    EXPECT_EQ(mass[0], 0.0F);
    EXPECT_EQ(mass[1], 0.0F);
  });
}

// Scores far apart: the running maximum must carry, and the smallest weights vanish quietly.
TEST(attention, survives_large_scores) {
  for_each_isa([&](const std::string&) {
    attention_case c({1, 1, 16}, {9}, 4, mask_kind::full, false, 21);
    grid want({9, 1, 16}), got({9, 1, 16});
    std::vector<double> mass(static_cast<std::size_t>(c.total_keys()), 0.0);
    definition(c, 6.0F, want, mass);
    cpu::attention(c.rows.set, c.q, c.cache.kv, c.keys, 6.0F, got, {});
    expect_close(got, want, 1e-4);
  });
}

}  // namespace
}  // namespace unmask::test
