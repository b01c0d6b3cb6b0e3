// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Newer kernels of attention: which of them takes a batch, that a row has its bits in any batch and at any place of
// it, and the order of a refresh's items. Their results are tested in test_attention.cpp.
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cuda/device/traffic.h"
#include "tests/kernels/half_rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::half_rows;

struct head_shape {
  std::int64_t heads, kv_heads, dim;
};

cuda::choices with_newer(bool newer) {
  return {.graphs = false, .newer = newer, .left_out = {}};
}

// Sequences of which any can be a batch, in any order. The rows of each are spread over its slots.
struct sequences_case {
  head_shape of;
  std::vector<std::int32_t> rows, keys;  // of each sequence
  std::int32_t pages;                    // of each sequence
  mask_kind mask;
  half_rows key, value;
  std::vector<std::vector<float>> query;  // of each sequence [rows, heads, dim]

  sequences_case(const head_shape& s, const std::vector<std::int32_t>& rows_of,
                 const std::vector<std::int32_t>& keys_of, mask_kind m, unsigned seed)
      : of(s),
        rows(rows_of),
        keys(keys_of),
        pages((std::ranges::max(keys_of) + kv_page_size - 1) / kv_page_size),
        mask(m),
        key(std::ssize(rows_of) * pages, kv_page_size * s.kv_heads * s.dim),
        value(std::ssize(rows_of) * pages, kv_page_size * s.kv_heads * s.dim) {
    std::mt19937 rng(seed);
    key.fill_normal(rng, 1);
    value.fill_normal(rng, 1);
    for (const std::int32_t n : rows) {
      query.push_back(test::random_vector(rng, n * s.heads * s.dim, 0.5F));
    }
  }
  std::int64_t width() const { return of.heads * of.dim; }
  tensor_view paged(const half_rows& side) const {
    return make_view(side.view.data, dtype::bf16,
                     {side.view.rows(), kv_page_size, of.kv_heads, of.dim});
  }
  // Rows of a batch of these sequences in this order, one sequence after the other [rows, heads, dim]; `stride`:
  // elements from row to row, if they shall lie over each other.
  std::vector<float> attend(const backend& on, const std::vector<std::size_t>& order,
                            std::int64_t stride = 0) const {
    std::vector<std::int32_t> begin{0}, owner, position, length, table;
    std::vector<float> q;
    for (const std::size_t s : order) {
      for (std::int32_t r = 0; r < rows[s]; ++r) {
        owner.push_back(static_cast<std::int32_t>(length.size()));
        position.push_back(r * pages * kv_page_size / rows[s]);
      }
      for (std::int32_t p = 0; p < pages; ++p) {
        table.push_back(static_cast<std::int32_t>(s) * pages + p);
      }
      begin.push_back(static_cast<std::int32_t>(position.size()));
      length.push_back(keys[s]);
      q.insert(q.end(), query[s].begin(), query[s].end());
    }
    std::vector<float> out(q.size(), test::nan);
    const std::int64_t count = std::ssize(position);
    const tensor_view from = make_view(q.data(), dtype::f32, {count, of.heads, of.dim});
    tensor_view to = make_view(out.data(), dtype::f32, {count, of.heads, of.dim});
    if (stride > 0) to.row_stride = stride;
    const row_set set{static_cast<std::int32_t>(order.size()),
                      static_cast<std::int32_t>(count),
                      begin.data(),
                      owner.data(),
                      position.data(),
                      nullptr};
    key_set seen;
    seen.kv_length = length.data();
    seen.mask = mask;
    seen.block = 7;
    const paged_kv cache{paged(key), paged(value), table.data(), pages};
    on.run(op::attention{set, from, cache, seen, 0.1F, to, {}});
    on.synchronize();
    return out;
  }
};

// What this work launches on the emulator.
template <class Work>
std::set<std::string> launched_by(const Work& work) {
  cuda::emulator::begin_counting(false);
  work();
  std::set<std::string> names;
  for (const auto& [name, kernel] : cuda::emulator::end_counting().kernels) names.insert(name);
  return names;
}

// Keys are not cut: of joined items up to 256, of a refresh up to 512. The first sequence alone, and all in both
// orders. Tiles have 16, 32 or 64 rows by mma.sync, of which a row may change from one to the other, or 128.
TEST(device_attention, a_row_has_its_bits_in_any_batch_and_at_any_place) {
  struct batch {
    head_shape of;
    std::vector<std::int32_t> rows, keys;
    mask_kind mask;
    const char* kernel;
  };
  const std::vector<batch> batches = {
      {{16, 1, 64}, {64, 66}, {128, 65}, mask_kind::causal, "attention_refresh"},
      {{1, 1, 128}, {5, 3, 8}, {256, 1, 70}, mask_kind::causal, "attention_joined"},
      {{2, 1, 128}, {4, 20, 30}, {130, 256, 64}, mask_kind::block_causal, "attention_joined"},
      {{8, 2, 128}, {12, 4, 2}, {200, 129, 63}, mask_kind::full, "attention_joined"},
      {{4, 1, 128}, {33, 40, 70}, {90, 128, 1}, mask_kind::causal, "attention_joined: groups"}};
  test::for_each_device([&](const backend& device) {
    unsigned seed = 900;
    const backend& newer = test::with(with_newer(true), device);
    for (const batch& t : batches) {
      SCOPED_TRACE("case of seed " + std::to_string(seed));
      const sequences_case c(t.of, t.rows, t.keys, t.mask, seed++);
      std::vector<std::size_t> order, backwards;
      for (std::size_t s = 0; s < t.rows.size(); ++s) {
        order.push_back(s);
        backwards.insert(backwards.begin(), s);
      }
      std::vector<float> alone, together, reversed;
      const auto run = [&] {
        alone = c.attend(newer, {0});
        together = c.attend(newer, order);
        reversed = c.attend(newer, backwards);
      };
      if (device.where() == target::cuda) {
        run();
      } else {
        std::set<std::string> names = launched_by(run);
        names.erase("attention_plan");
        names.erase("to_bf16");
        EXPECT_EQ(names, std::set<std::string>{t.kernel});
      }
      EXPECT_TRUE(test::same_bits(alone.data(), together.data(), std::ssize(alone))) << "alone";
      std::int64_t first = 0, last = std::ssize(reversed);
      for (std::size_t s = 0; s < t.rows.size(); ++s) {
        const std::int64_t n = t.rows[s] * c.width();
        last -= n;
        EXPECT_TRUE(test::same_bits(together.data() + first, reversed.data() + last, n)) << s;
        first += n;
      }
      for (const float v : together) ASSERT_TRUE(std::isfinite(v));
    }
  });
}

// The mean of the sequences decides: 1,024 packed rows, which are rows times heads of a KV head.
TEST(device_attention, from_1024_packed_rows_on_a_refresh_takes_them) {
  struct edge {
    head_shape of;
    std::vector<std::int32_t> rows;
    const char* kernel;
  };
  for (const edge& t : std::vector<edge>{{{33, 1, 64}, {31}, "attention_tensor"},  // 1,023
                                         {{32, 1, 64}, {32}, "attention_refresh"},
                                         {{33, 1, 128}, {31}, "attention_joined: groups"},
                                         {{32, 1, 128}, {32}, "attention_refresh"},
                                         {{32, 1, 64}, {33, 31}, "attention_refresh"},
                                         {{32, 1, 64}, {33, 30}, "attention_tensor"}}) {
    const std::vector<std::int32_t> keys(t.rows.size(), 64);
    const sequences_case c(t.of, t.rows, keys, mask_kind::full, 950);
    std::vector<std::size_t> order;
    for (std::size_t s = 0; s < t.rows.size(); ++s) order.push_back(s);
    std::vector<float> got;
    const auto names =
        launched_by([&] { got = c.attend(cuda_emulated_backend(with_newer(true)), order); });
    EXPECT_TRUE(names.contains(t.kernel))
        << t.of.heads << " heads of " << t.of.dim << ", " << t.rows[0] << " rows";
    const std::vector<float> before = c.attend(cuda_emulated_backend(with_newer(false)), order);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(double{got[i]} - before[i], 2);
      size += std::pow(double{before[i]}, 2);
    }
    EXPECT_LT(std::sqrt(difference / size), 4e-3) << t.kernel;
  }
}

// The emulator runs blocks, of an item each here, one after the other. Rows of the result lie half over each
// other: the second head of a row is where the first head of the next row is. At the first row of a tile, whose
// neighbour is in the tile before, the item that ran later is seen: in a refresh all tiles of the first head run
// before those of the second; in the kernel before both heads of a tile run before the next tile.
TEST(device_attention, tiles_of_a_head_run_before_the_next_head_in_a_refresh) {
  constexpr std::int64_t tile = 128, dim = 64;
  const sequences_case c({2, 2, dim}, {8 * tile}, {64}, mask_kind::full, 970);
  for (const bool newer : {true, false}) {
    const backend& on = cuda_emulated_backend(with_newer(newer));
    const std::vector<float> apart = c.attend(on, {0}), over = c.attend(on, {0}, dim);
    for (std::int64_t r = tile; r < 8 * tile; r += tile) {
      const float* first_head = apart.data() + r * 2 * dim;
      const float* second_head_before = first_head - dim;
      ASSERT_FALSE(test::same_bits(first_head, second_head_before, dim));
      const float* later = newer ? second_head_before : first_head;
      EXPECT_TRUE(test::same_bits(over.data() + r * dim, later, dim))
          << "row " << r << ", " << newer;
    }
  }
}

}  // namespace
}  // namespace unmask
