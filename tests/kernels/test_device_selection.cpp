// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows, scores and selections of the CUDA kernels, emulated under every schedule, against the
// reference: choices and copies bit by bit, float64 sums to a few last bits of float32, and every
// sequence with the same bits alone as in a batch.
#include <numeric>

#include "kernels/cuda/emulation.h"
#include "kernels/float16.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using bytes = std::vector<std::uint8_t>;
using indices = std::vector<std::int32_t>;
using test::grid;

int draw(std::mt19937& rng, int low, int high) {  // both included
  return std::uniform_int_distribution<int>(low, high)(rng);
}

std::vector<float> tied(std::mt19937& rng, std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = static_cast<float>(draw(rng, -9, 9)) / 8;
  for (std::size_t i = 0; i < v.size(); i += 37) v[i] = test::nan;
  for (std::size_t i = 5; i < v.size(); i += 41) v[i] = -test::infinity;
  for (std::size_t i = 6; i < v.size(); i += 43) v[i] = -0.0F;
  return v;
}

tensor_view flags_view(bytes& b, std::initializer_list<std::int64_t> shape) {
  return make_view(b.data(), dtype::u8, shape);
}

// Keys in shuffled pages, of any float type.
struct keys_fixture {
  std::vector<float> values;
  std::vector<std::uint16_t> half;
  indices table;
  paged_kv kv;
  keys_fixture(std::mt19937& rng, int sequences, int pages_each, std::int64_t kv_heads,
               std::int64_t dim, dtype type) {
    const int pages = sequences * pages_each + 1;
    values = test::random_vector(rng, pages * kv_page_size * kv_heads * dim);
    for (int p = 0; p < sequences * pages_each; ++p) table.push_back(p + 1);
    std::shuffle(table.begin(), table.end(), rng);
    void* data = values.data();
    if (type != dtype::f32) {
      for (float& x : values) {
        half.push_back(to_bf16(x));
        x = from_bf16(half.back());
      }
      data = half.data();
    }
    kv.keys = kv.values = make_view(data, type, {pages, kv_page_size, kv_heads, dim});
    kv.page_table = table.data();
    kv.table_stride = pages_each;
  }
  paged_kv as_f32() {  // the same numbers, for the reference
    paged_kv exact = kv;
    exact.keys.data = exact.values.data = values.data();
    exact.keys.type = exact.values.type = dtype::f32;
    return exact;
  }
};

TEST(device_selection, rows_are_copied_whole) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(21);
    for (const std::int64_t width : {1, 4, 7, 64, 1024, 5000}) {
      for (const std::int64_t gap : {0, 3, 4}) {  // words of 16 bytes and of 4
        grid from({9, width}, gap), want({5, width}, gap), got({5, width}, gap);
        from.randomize(rng);
        const indices index{8, 0, 3, 3, 7}, back{4, 1, 0, 2, 8};
        reference_ops().gather_rows(from, index.data(), want);
        device.gather_rows(from, index.data(), got);
        device.synchronize();
        for (std::int64_t r = 0; r < 5; ++r) {
          ASSERT_TRUE(test::same_bits(got.row(r), want.row(r), width + gap));  // the gap stays
        }
        grid whole({9, width}, 1), all({9, width}, 1);
        reference_ops().scatter_rows(got, back.data(), whole);
        device.scatter_rows(got, back.data(), all);
        device.synchronize();
        for (std::int64_t r = 0; r < 9; ++r) {
          ASSERT_TRUE(test::same_bits(all.row(r), whole.row(r), width + 1));
        }
      }
    }
    std::vector<std::uint64_t> keys{1, 2, 3, 4, 5, 6}, taken(2, 9);
    const indices index{2};
    device.gather_rows(make_view(keys.data(), dtype::u64, {3, 2}), index.data(),
                       make_view(taken.data(), dtype::u64, {1, 2}));
    device.synchronize();
    EXPECT_EQ(taken, (std::vector<std::uint64_t>{5, 6}));
  });
}

TEST(device_selection, lists_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(22);
    for (int run = 0; run < 16; ++run) {
      const int sequences = run == 0 ? 0 : draw(rng, 1, 5);
      const int length = run % 4 == 1 ? 3000 : draw(rng, 1, 300);
      std::vector<std::int32_t> sizes, first, last;
      for (int s = 0; s < sequences; ++s) {
        sizes.push_back(draw(rng, 0, 3) == 0 ? 0 : draw(rng, 0, length));
        first.push_back(draw(rng, 0, length));
        last.push_back(draw(rng, first.back(), length));
      }
      const test::rows_fixture rows(rng, sizes, length);
      bytes state(static_cast<std::size_t>(std::max(sequences, 1) * length));
      for (auto& x : state) x = static_cast<std::uint8_t>(draw(rng, 0, 2));
      const tensor_view view = flags_view(state, {std::max(sequences, 1), length});
      const auto room = state.size();
      for (const std::int32_t shift : {-1, 0, 1}) {  // -1: compact
        for (const bool whole : {false, true}) {
          indices begin[2], a[2], b[2], total;
          for (int i = 0; i < 2; ++i) {
            const ops& backend = i == 0 ? reference_ops() : device;
            begin[i].assign(static_cast<std::size_t>(sequences) + 1, -7);
            a[i].assign(room, -7);
            b[i].assign(room, -7);
            total.push_back(
                shift < 0
                    ? backend.compact(sequences, whole ? tensor_view{} : view, 1, first.data(),
                                      last.data(), begin[i].data(), a[i].data(), b[i].data())
                    : backend.find_candidates(rows.set, view, 0, first.data(), last.data(), shift,
                                              begin[i].data(), a[i].data(), b[i].data()));
            backend.synchronize();
          }
          ASSERT_EQ(total[1], total[0]);
          ASSERT_EQ(begin[1], begin[0]);
          ASSERT_EQ(a[1], a[0]);
          ASSERT_EQ(b[1], b[0]);
        }
      }
      std::vector<std::int32_t> canvas(room),
          token(static_cast<std::size_t>(rows.set.rows) + 1, -7);
      for (auto& x : canvas) x = draw(rng, 0, 1000);
      std::vector<std::int32_t> want = token;
      const tensor_view tokens =
          make_view(canvas.data(), dtype::i32, {std::max(sequences, 1), length});
      reference_ops().gather_tokens(rows.set, tokens, want.data());
      device.gather_tokens(rows.set, tokens, token.data());
      device.synchronize();
      EXPECT_EQ(token, want);
    }
  });
}

// Bad input that only a kernel sees is reported at the next wait.
TEST(device_selection, faults_are_reported_when_the_host_waits) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, false});
  const ops& device = cuda_emulated_ops();
  const indices begin{0, 1}, zero{0}, at{3}, other{4};
  const row_set rows{1, 1, begin.data(), zero.data(), at.data(), nullptr};
  const row_set absent{1, 1, begin.data(), zero.data(), other.data(), nullptr};
  indices index{-7};
  EXPECT_NO_THROW(device.find_rows(rows, absent, index.data()));
  EXPECT_THROW(device.synchronize(), std::logic_error);
  EXPECT_NO_THROW(device.synchronize());  // once
  device.find_rows(rows, rows, index.data());
  EXPECT_NO_THROW(device.synchronize());
  EXPECT_EQ(index[0], 0);
  const indices two{0, 2};
  const float score = 1;
  indices out{-7, -7};
  EXPECT_NO_THROW(device.top_indices(1, begin.data(), &score, two.data(), out.data()));
  EXPECT_THROW(device.synchronize(), std::logic_error);
  EXPECT_EQ(out, (indices{-7, -7}));
  cuda::set_emulation(before);
}

TEST(device_selection, top_indices_sort_as_the_reference) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(23);
    const std::vector<int> sizes{0, 1, 31, 64, 65, 256, 257, 900, 0, 3};
    for (const bool ties : {true, false}) {
      for (const int share : {0, 1, 3, 100}) {  // none, few, many, all
        indices begin{0}, out_begin{0};
        for (const int n : sizes) {
          begin.push_back(begin.back() + n);
          out_begin.push_back(out_begin.back() + (share == 1   ? std::min(n, 5)
                                                  : share == 3 ? n * 3 / 4
                                                               : n * share / 100));
        }
        const std::vector<float> score =
            ties ? tied(rng, begin.back()) : test::random_vector(rng, begin.back());
        indices want(static_cast<std::size_t>(out_begin.back()) + 1, -7), got = want;
        const auto n = static_cast<std::int32_t>(sizes.size());
        reference_ops().top_indices(n, begin.data(), score.data(), out_begin.data(), want.data());
        device.top_indices(n, begin.data(), score.data(), out_begin.data(), got.data());
        device.synchronize();
        ASSERT_EQ(got, want);
      }
    }
  });
}

TEST(device_selection, five_thousand_keys) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(24);
    const std::vector<float> score = tied(rng, 5000);
    const indices begin{0, 5000}, count{700};
    for (const std::int32_t n : {64, 2048, 2049, 5000}) {
      const indices out_begin{0, n};
      indices want(static_cast<std::size_t>(n), -7), got = want;
      reference_ops().top_indices(1, begin.data(), score.data(), out_begin.data(), want.data());
      device.top_indices(1, begin.data(), score.data(), out_begin.data(), got.data());
      device.synchronize();
      ASSERT_EQ(got, want);
    }
    indices sequence(5000, 0), position;
    for (int p = 0; p < 5000; ++p) position.push_back(p);
    const row_set rows{1, 5000, begin.data(), sequence.data(), position.data(), nullptr};
    bytes want(5001, 7), got = want;
    reference_ops().mark_top(rows, score.data(), count.data(), flags_view(want, {1, 5001}));
    device.mark_top(rows, score.data(), count.data(), flags_view(got, {1, 5001}));
    device.synchronize();
    EXPECT_EQ(got, want);
  });
}

TEST(device_selection, marks_and_pools_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(25);
    const test::rows_fixture rows(rng, {0, 1, 40, 64, 65, 300}, 400);
    const std::vector<float> score = tied(rng, rows.set.rows);
    for (const indices& count : {indices{0, 0, 0, 0, 0, 0}, indices{3, 1, 7, 40, 64, 299},
                                 indices{1, 9, 99, 99, 99, 999}, indices{-1, -1, -1, 1, 1, 1}}) {
      bytes want(6 * 400, 7), got = want;
      reference_ops().mark_top(rows.set, score.data(), count.data(), flags_view(want, {6, 400}));
      device.mark_top(rows.set, score.data(), count.data(), flags_view(got, {6, 400}));
      device.synchronize();
      ASSERT_EQ(got, want);
    }
    const std::vector<float> numbers = test::random_vector(rng, rows.set.rows);
    for (const std::int32_t window : {1, 3, 7, 401}) {
      for (const bool maximum : {true, false}) {
        std::vector<float> want(numbers.size(), test::nan), got = want;
        reference_ops().pool(6, rows.begin.data(), numbers.data(), window, maximum, want.data());
        device.pool(6, rows.begin.data(), numbers.data(), window, maximum, got.data());
        device.synchronize();
        ASSERT_TRUE(
            test::same_bits(got.data(), want.data(), static_cast<std::int64_t>(want.size())));
      }
    }
  });
}

TEST(device_selection, means_and_distances) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(26);
    const test::rows_fixture rows(rng, {3, 0, 70, 1}, 90);
    for (const std::int64_t width : {1, 7, 300, 1025}) {
      grid x({74, width}, 3), y({74, width}, 1), want({4, width}), got({4, width}, 2);
      x.randomize(rng);
      y.copy(x);
      for (std::int64_t r = 0; r < 74; ++r) y.at(r, r % width) += 0.01F;
      reference_ops().mean_rows(rows.set, x, want);
      device.mean_rows(rows.set, x, got);
      device.synchronize();
      for (std::int64_t s = 0; s < 4; ++s) {
        ASSERT_TRUE(test::same_bits(got.row(s), want.row(s), width));
      }
      std::vector<float> a(74, test::nan), b = a, alone{test::nan};
      reference_ops().row_distance(x, y, a.data());
      device.row_distance(x, y, b.data());
      device.row_distance(x.view().slice(9, 1), y.view().slice(9, 1), alone.data());
      device.synchronize();
      for (std::size_t r = 0; r < 74; ++r) {
        ASSERT_NEAR(b[r], a[r], 1e-15 + 1.2e-7 * std::fabs(a[r]));
      }
      EXPECT_TRUE(test::same_bits(alone.data(), &b[9], 1));
    }
  });
}

TEST(device_selection, key_scores_of_every_group_and_type) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(27);
    for (const std::int64_t dim : {5, 64, 128}) {
      for (const std::int64_t group : dim == 5 ? indices{7} : indices{1, 8}) {
        for (const dtype type : {group == 8 ? dtype::bf16 : dtype::f32}) {
          keys_fixture cache(rng, 3, 3, 2, dim, type);
          grid q({3, 2 * group, dim}, 4);
          q.randomize(rng);
          const indices length{130, 0, 65};
          key_set keys;
          keys.kv_length = length.data();
          std::vector<float> want(195, test::nan), got = want;
          reference_ops().key_scores(q, cache.as_f32(), keys, want.data());
          device.key_scores(q, cache.kv, keys, got.data());
          device.synchronize();
          test::expect_close(got, want, 1e-6, "all slots");
          const indices begin{0, 4, 5, 8}, slot{129, 3, 70, 3, 191, 0, 64, 1};
          keys.key_begin = begin.data();
          keys.key_slot = slot.data();
          std::vector<float> listed(8, test::nan);
          device.key_scores(q, cache.kv, keys, listed.data());
          device.synchronize();
          EXPECT_TRUE(test::same_bits(&listed[0], &got[129], 1));
          EXPECT_TRUE(test::same_bits(&listed[2], &got[70], 1));
          EXPECT_TRUE(test::same_bits(&listed[6], &got[130 + 64], 1));
        }
      }
    }
  });
}

TEST(device_selection, long_context_keys_and_block_means) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(28);
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      keys_fixture cache(rng, 2, 79, 1, 8, type);
      grid q({2, 4, 8});
      q.randomize(rng);
      const indices length{5000, 1};
      key_set keys;
      keys.kv_length = length.data();
      std::vector<float> want(5001, test::nan), got = want;
      reference_ops().key_scores(q, cache.as_f32(), keys, want.data());
      device.key_scores(q, cache.kv, keys, got.data());
      device.synchronize();
      test::expect_close(got, want, 1e-6, "scores");
      for (const std::int32_t block : {1, 32, 64, 100}) {
        const indices begin{0, (5000 + block - 1) / block, (5000 + block - 1) / block + 1};
        grid mean({begin[2], 1, 8}), means({begin[2], 1, 8}, 3);
        reference_ops().block_mean_keys(2, cache.as_f32(), length.data(), block, begin.data(), mean,
                                        nullptr);
        device.block_mean_keys(2, cache.kv, length.data(), block, begin.data(), means, nullptr);
        device.synchronize();
        for (std::int64_t b = 0; b < begin[2]; ++b) {
          ASSERT_TRUE(test::same_bits(means.row(b), mean.row(b), 8));
        }
        const indices few{0, 2, 3}, from{1, 0};  // a refresh of some; one lies beyond the end
        grid part({3, 1, 8});
        device.block_mean_keys(2, cache.kv, length.data(), block, few.data(), part, from.data());
        device.synchronize();
        EXPECT_TRUE(test::same_bits(part.row(0), mean.row(1), 8));
        EXPECT_TRUE(test::same_bits(part.row(2), mean.row(begin[1]), 8));
      }
    }
  });
}

TEST(device_selection, importance_of_short_and_long_lists) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(29);
    struct shape {
      std::int64_t kv_heads, group, dim;
      indices lengths;
    };
    for (const shape& c : {shape{1, 1, 64, {1, 0, 4, 33}}, shape{1, 8, 128, {17, 2}},
                           shape{2, 3, 7, {64, 256, 65}}, shape{1, 2, 4, {257, 8}}}) {
      const std::int32_t total = std::accumulate(c.lengths.begin(), c.lengths.end(), 0);
      const std::int64_t rows = total + 9, heads = c.kv_heads * c.group;
      grid q({rows, heads, c.dim}, 5), k({rows, c.kv_heads, c.dim}, 2);
      q.randomize(rng);
      k.randomize(rng);
      indices begin{0}, index;
      for (const std::int32_t n : c.lengths) begin.push_back(begin.back() + n);
      for (std::int32_t i = 0; i < total; ++i) index.push_back(i + 9 * i / std::max(total, 1));
      const float scale = 1.0F / std::sqrt(static_cast<float>(c.dim));
      const auto sequences = static_cast<std::int32_t>(c.lengths.size());
      std::vector<float> want(index.size(), test::nan), got = want;
      reference_ops().importance(sequences, begin.data(), index.data(), q, k, scale, want.data());
      device.importance(sequences, begin.data(), index.data(), q, k, scale, got.data());
      device.synchronize();
      test::expect_close(got, want, 1.2e-7, "importance");
      for (std::int32_t s = 0; s < sequences; ++s) {
        const std::int32_t first = begin[static_cast<std::size_t>(s)];
        const std::int32_t n = c.lengths[static_cast<std::size_t>(s)];
        const indices part{0, n};
        std::vector<float> alone(static_cast<std::size_t>(n), test::nan);
        device.importance(1, part.data(), index.data() + first, q, k, scale, alone.data());
        device.synchronize();
        EXPECT_TRUE(test::same_bits(alone.data(), got.data() + first, n));
      }
    }
  });
}

TEST(device_selection, softmax_mass_of_tiles) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(30);
    for (const std::int32_t size : {8, 24, 64}) {
      for (const std::int64_t group : {1, 4}) {
        const test::rows_fixture rows(rng, {90, 12, 17}, 100);
        keys_fixture cache(rng, 3, 2, 2, 16, dtype::f32);
        grid q({119, 2 * group, 16}, 3);
        q.randomize(rng);
        const std::int32_t blocks = (128 + size - 1) / size;
        const indices length{100, 0, 128}, first{0, 0, 64 / size * size};
        grid want({3, 2 * group, blocks, blocks}), got({3, 2 * group, blocks, blocks}, 5);
        reference_ops().block_mass(rows.set, q, cache.kv, length.data(), first.data(), size, 0.4F,
                                   want);
        device.block_mass(rows.set, q, cache.kv, length.data(), first.data(), size, 0.4F, got);
        device.synchronize();
        int written = 0;
        for (std::int64_t s = 0; s < 3; ++s) {
          for (std::int64_t i = 0; i < want.columns(); ++i) {
            ASSERT_EQ(std::isnan(got.at(s, i)), std::isnan(want.at(s, i))) << s << " " << i;
            if (std::isnan(want.at(s, i))) continue;
            ++written;
            ASSERT_NEAR(got.at(s, i), want.at(s, i), 1.2e-7 * want.at(s, i));
          }
        }
        EXPECT_GT(written, 0);
        const indices begin{0, 17}, zeros(17, 0), alone_first{first[2]};
        paged_kv kv = cache.kv;
        kv.page_table += 2 * kv.table_stride;
        const row_set alone_rows{1,      17, begin.data(), zeros.data(), rows.position.data() + 102,
                                 nullptr};
        grid alone({1, 2 * group, blocks, blocks});
        device.block_mass(alone_rows, q.view().slice(102, 17), kv, &length[2], alone_first.data(),
                          size, 0.4F, alone);
        device.synchronize();
        EXPECT_TRUE(test::same_bits(alone.row(0), got.row(2), alone.columns()));
      }
    }
  });
}

TEST(device_selection, kept_tiles_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(31);
    for (const std::int64_t blocks : {1, 9, 70}) {
      const std::int64_t heads = blocks > 9 ? 2 : 5;
      grid mass({4, heads, blocks, blocks}, 3);
      for (std::int64_t s = 0; s < 4; ++s) {
        for (std::int64_t i = 0; i < mass.columns(); ++i) {
          mass.at(s, i) = static_cast<float>(draw(rng, 0, 9)) / 8;
        }
      }
      const auto b = static_cast<std::int32_t>(blocks);
      const indices used{b, 0, b - b / 3, b}, first{0, 0, b / 4, 0};
      for (const indices& limit : {indices{b, 0, b - b / 3, b}, indices{b / 2, 0, b / 2, 0}}) {
        const indices count{3, 2, 1 + b / 4, 2 * b};
        bytes want(static_cast<std::size_t>(4 * heads * blocks * blocks), 7), got = want;
        reference_ops().keep_top_blocks(mass, used.data(), first.data(), limit.data(), count.data(),
                                        flags_view(want, {4, heads, blocks, blocks}));
        device.keep_top_blocks(mass, used.data(), first.data(), limit.data(), count.data(),
                               flags_view(got, {4, heads, blocks, blocks}));
        device.synchronize();
        ASSERT_EQ(got, want);
        const bytes applies{1, 0, 1, 1};
        const indices length{8 * b, 8, std::max(8 * (b - b / 3) - 5, 1), 3};
        std::vector<float> keys(static_cast<std::size_t>(4 * blocks), -1.0F), expected = keys;
        for (auto& x : got) x = x == 7 ? 1 : x;
        reference_ops().block_mask_keys(flags_view(got, {4, heads, blocks, blocks}), applies.data(),
                                        8, length.data(),
                                        make_view(expected.data(), dtype::f32, {4, blocks}));
        device.block_mask_keys(flags_view(got, {4, heads, blocks, blocks}), applies.data(), 8,
                               length.data(), make_view(keys.data(), dtype::f32, {4, blocks}));
        device.synchronize();
        ASSERT_EQ(keys, expected);
      }
    }
  });
}

}  // namespace
}  // namespace unmask
