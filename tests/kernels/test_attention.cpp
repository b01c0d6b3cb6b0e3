// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The definition of attention, in double, and what no definition says.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/float16.h"

#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "tests/kernels/attention_cases.h"

namespace unmask::test {
namespace {

constexpr shape shapes[] = {{2, 2, 8},  {4, 1, 16},  {3, 3, 24}, {6, 2, 32}, {2, 1, 64},
                            {5, 5, 20}, {8, 2, 128}, {1, 1, 13}, {2, 2, 72}, {4, 2, 80}};

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

TEST(attention, reference_matches_double_for_every_mask_and_list) {
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
        reference_backend().run(
            op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, got, view_of(got_mass)});
        expect_close(got, want, 5e-6, "out");
        for (std::size_t i = 0; i < mass.size(); ++i) {
          ASSERT_TRUE(close(got_mass[i], mass[i] + 1, 1e-5)) << "mass of key " << i;
        }
      }
    }
  }
}

// Above 6 MB of keys and values, of one head or of several side by side, these are asked for ahead.
TEST(attention, keys_that_no_cache_holds_are_read_ahead) {
  unsigned seed = 40;
  for (const shape& s : {shape{2, 1, 128}, shape{8, 4, 32}}) {
    for (const mask_kind mask : {mask_kind::full, mask_kind::causal}) {
      attention_case c(s, {5, 1}, 110, mask, false, seed++);
      ASSERT_GT(2 * sizeof(float) * 128 * static_cast<std::size_t>(c.length[1]),
                std::size_t{6} << 20);
      const float scale = 1.0F / std::sqrt(static_cast<float>(s.dim));
      grid want({c.rows.set.rows, s.heads, s.dim}), got({c.rows.set.rows, s.heads, s.dim}, 1);
      std::vector<double> mass(static_cast<std::size_t>(c.total_keys()), 0.0);
      definition(c, scale, want, mass);
      for_each_isa([&](const backend& on) {
        on.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, got, {}});
        expect_close(got, want, 1e-5, "out");
      });
    }
  }
}

TEST(attention, rows_without_a_key_are_zero_and_nan_stays_visible) {
  const auto check = [](const backend& backend) {
    attention_case c({2, 1, 16}, {4}, 1, mask_kind::causal, true, 3);
    // Every listed key but one lies behind every row, and that one behind all rows but the last.
    c.list = {63, 62};
    c.list_begin = {0, 2};
    c.keys.key_slot = c.list.data();
    c.keys.key_begin = c.list_begin.data();
    c.rows.position = {0, 1, 2, 62};
    c.rows.set.position = c.rows.position.data();
    grid out({4, 2, 16});
    std::vector<float> mass(2, 0.0F);
    backend.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 1.0F, out, view_of(mass)});
    backend.synchronize();
    EXPECT_EQ(mass[0], 0.0F);
    c.q.at(3, 5) = nan;
    backend.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 1.0F, out, {}});
    backend.synchronize();
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t d = 0; d < 32; ++d) ASSERT_EQ(out.at(r, d), 0.0F);
    }
    EXPECT_TRUE(std::isnan(out.at(3, 0)) && std::isfinite(out.at(3, 16)));
  };
  check(reference_backend());
  for_each_isa(check);
  for_each_device(check);
}

// Views of one sequence with a row each: every one misses a slot of its own, as the rows that judge a
// token do not see it. In the last case one view lists few keys, so that nothing can be shared.
TEST(attention, single_rows_of_views_see_their_own_keys) {
  unsigned seed = 60;
  for (const shape& s : shapes) {
    for (const std::int32_t views : {2, 5, 32, 40}) {
      for (const bool apart : {false, true}) {
        std::vector<std::int32_t> lengths{7};
        lengths.insert(lengths.end(), static_cast<std::size_t>(views), 1);
        attention_case c(s, lengths, 3, mask_kind::full, true, seed++);
        for (std::int32_t v = 1; v <= views; ++v) {
          std::copy_n(c.cache.table.begin(), 3, c.cache.table.begin() + 3 * v);
        }
        c.list.clear();
        for (std::int32_t v = 0; v <= views; ++v) {
          const std::int32_t end = apart && v == views ? 9 : 150;
          for (std::int32_t slot = v % 3; slot < end; ++slot) {
            if (v == 0 || slot != 20 + 3 * v) c.list.push_back(slot);
          }
          c.list_begin[static_cast<std::size_t>(v + 1)] = static_cast<std::int32_t>(c.list.size());
        }
        c.keys.key_slot = c.list.data();
        grid want({c.rows.set.rows, s.heads, s.dim}), got({c.rows.set.rows, s.heads, s.dim}, 1);
        std::vector<double> mass(c.list.size(), 0.0);
        const float scale = 1.0F / std::sqrt(static_cast<float>(s.dim));
        definition(c, scale, want, mass);
        for_each_isa([&](const backend& on) {
          on.run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, got, {}});
          expect_close(got, want, 5e-6, on.name());
        });
      }
    }
  }
}

TEST(attention, tensor_cores_match_the_reference) {
  struct tensor_case {
    shape of;
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
                                          {{4, 1, 128}, {40, 33}, 10, mask_kind::full, true},
                                          {{4, 1, 128}, {40, 33}, 10, mask_kind::full, false},
                                          {{8, 2, 128}, {50}, 3, mask_kind::block_causal, false},
                                          {{2, 1, 64}, {3, 1}, 10, mask_kind::block_causal, false}};
  for_each_device([&](const backend& device) {
    unsigned seed = 100;
    for (const tensor_case& t : cases) {
      attention_case c(t.of, t.lengths, t.pages, t.mask, t.listed, seed++);
      half_cache half(c);
      round_queries(c);
      const float scale = 1.0F / std::sqrt(static_cast<float>(t.of.dim));
      grid want({c.rows.set.rows, t.of.heads, t.of.dim});
      grid got({c.rows.set.rows, t.of.heads, t.of.dim}, 4);
      reference_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, want, {}});
      for (const bool wgmma : {false, true}) {
        by_wgmma(wgmma, device)
            .run(op::attention{c.rows.set, c.q, half.kv, c.keys, scale, got, {}});
        device.synchronize();
        EXPECT_TRUE(agree(wgmma ? "wgmma" : "mma.sync", got, want, 6e-3, c));
      }
      // The mass of each key comes from the same scores, and adds to what is there.
      std::vector<float> mass(static_cast<std::size_t>(c.total_keys()), 0.25F), want_mass = mass;
      device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, scale, got, view_of(mass)});
      device.synchronize();
      EXPECT_TRUE(agree("the kernel with a mass of keys", got, want, 6e-3, c));
      reference_backend().run(
          op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, want, view_of(want_mass)});
      expect_close(mass, want_mass, 6e-3, "key mass");
    }
  });
}

// 1,024 packed rows of a sequence and more: the newer kernel against the one before it and the definition.
// Tiles of rows and of keys that are not full, masks that end within a tile of 128 keys and at its edge,
// items that run by rows or by heads, several for one block, keys that a GPU cuts and merges.
TEST(attention, many_rows_by_warpgroups_in_turn) {
  struct many_rows {
    shape of;
    std::vector<std::int32_t> lengths;
    std::int32_t pages;
    mask_kind mask;
  };
  const std::vector<many_rows> cases = {{{8, 1, 128}, {129, 128}, 3, mask_kind::full},
                                        {{16, 2, 64}, {128}, 2, mask_kind::causal},
                                        {{16, 1, 128}, {66}, 5, mask_kind::block_causal},
                                        {{12, 1, 64}, {86}, 10, mask_kind::full}};
  for_each_device([&](const backend& device) {
    unsigned seed = 300;
    for (const many_rows& t : cases) {
      attention_case c(t.of, t.lengths, t.pages, t.mask, false, seed++);
      half_cache half(c);
      round_queries(c);
      const float scale = 1.0F / std::sqrt(static_cast<float>(t.of.dim));
      grid want({c.rows.set.rows, t.of.heads, t.of.dim});
      grid got({c.rows.set.rows, t.of.heads, t.of.dim}, 4);
      grid before({c.rows.set.rows, t.of.heads, t.of.dim}, 4);
      cpu_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, want, {}});
      cuda::choices choices = cuda::choices_of_environment(/*graphs=*/false);
      choices.newer = true;
      with(choices, device).run(op::attention{c.rows.set, c.q, half.kv, c.keys, scale, got, {}});
      device.synchronize();
      EXPECT_TRUE(agree("the newer kernel", got, want, 6e-3, c));
      if (device.where() == target::cuda) continue;  // as rows of every GPU's kernels
      choices.newer = false;
      with(choices, device).run(op::attention{c.rows.set, c.q, half.kv, c.keys, scale, before, {}});
      device.synchronize();
      EXPECT_TRUE(agree("the newer kernel, against the one before,", got, before, 4e-3, c));
      EXPECT_GT(relative_error(got, before), 0) << "the newer kernel was not taken";
    }
  });
}

// Attention as a batch of these choices of kernels computes it, of all rows or of those of the first sequence.
void attend_by(const backend& device, bool newer, const attention_case& c, const half_cache& half,
               const grid& out, bool first_sequence = false) {
  cuda::choices choices = cuda::choices_of_environment(/*graphs=*/false);
  choices.newer = newer;
  row_set rows = c.rows.set;
  if (first_sequence) {
    rows.sequences = 1;
    rows.rows = rows.row_begin[1];
  }
  with(choices, device)
      .run(op::attention{rows,
                         c.q.view().first(rows.rows),
                         half.kv,
                         c.keys,
                         0.1F,
                         out.view().first(rows.rows),
                         {}});
  device.synchronize();
}

// A cluster of eight blocks shares the keys of a tile of rows. Keys at both sides of a tile's end and of
// eight tiles, fewer tiles than blocks, one key and none; tiles of 16, 32 and 64 rows, full or not;
// sequences without rows. The emulator, of four multiprocessors, takes clusters for few items only.
TEST(attention, clusters_share_the_keys_of_few_sequences) {
  struct few_sequences {
    shape of;
    std::vector<std::int32_t> rows, keys;  // of each sequence; keys of listed ones are any
    std::int32_t pages;
    mask_kind mask;
    bool listed, many;  // many: more items than the emulator takes
  };
  const std::vector<few_sequences> cases = {
      {{1, 1, 128}, {3}, {321}, 6, mask_kind::full, false, false},
      {{4, 1, 128}, {4}, {1}, 6, mask_kind::full, false, false},
      {{4, 1, 128}, {5}, {512}, 8, mask_kind::causal, false, false},
      {{8, 1, 128}, {8}, {513}, 9, mask_kind::full, false, false},
      {{8, 1, 128}, {7}, {1087}, 17, mask_kind::block_causal, false, false},
      {{4, 1, 128}, {12}, {576}, 9, mask_kind::full, true, false},
      {{7, 1, 128}, {9}, {1000}, 16, mask_kind::causal, true, false},
      {{4, 2, 64}, {4}, {448}, 8, mask_kind::full, false, false},
      {{1, 1, 64}, {9, 0, 2}, {511, 70, 0}, 8, mask_kind::full, false, false},
      {{8, 1, 64}, {8}, {449}, 8, mask_kind::block_causal, false, false},
      {{2, 1, 64}, {16}, {512}, 8, mask_kind::causal, true, false},
      {{8, 2, 128}, {20, 11, 1, 0}, {640, 65, 64, 63}, 10, mask_kind::full, false, true},
      {{8, 1, 128}, {17, 33}, {700, 512}, 11, mask_kind::causal, false, true},
      {{3, 3, 128}, {9, 2}, {700, 512}, 11, mask_kind::full, true, true},
      {{8, 2, 64}, {40, 3}, {641, 600}, 11, mask_kind::block_causal, false, true}};
  for_each_device([&](const backend& device) {
    unsigned seed = 700;
    const bool card = device.where() == target::cuda;
    for (const few_sequences& t : cases) {
      SCOPED_TRACE("case of seed " + std::to_string(seed));
      attention_case c(t.of, t.rows, t.pages, t.mask, t.listed, seed++);
      half_cache half(c);
      round_queries(c);
      std::ranges::copy(t.keys, c.length.begin());
      const std::vector<std::int64_t> shape_of_rows{c.rows.set.rows, t.of.heads, t.of.dim};
      grid want(shape_of_rows), got(shape_of_rows, 4), again(shape_of_rows, 4);
      cpu_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.1F, want, {}});
      if (!card) cuda::emulator::begin_counting(false);
      attend_by(device, true, c, half, got);
      if (!card) {
        const auto launched = cuda::emulator::end_counting().kernels;
        const bool groups = launched.contains("attention_cluster: groups");
        EXPECT_EQ(groups || launched.contains("attention_cluster"), !t.many);
        EXPECT_TRUE(t.many || !launched.contains("attention_plan"));
      }
      EXPECT_LT(relative_error(got, want), 6e-3);
      attend_by(device, true, c, half, again);
      EXPECT_EQ(relative_error(again, got), 0);
      if (card) continue;  // as rows of every GPU's kernels
      attend_by(device, false, c, half, again);
      EXPECT_LT(relative_error(got, again), 4e-3);
    }
  });
}

// A row has the same bits whatever other sequences and tiles the batch has: alone tiles have 16, 32 or 64
// rows, and so they have in the batch, or more by mma.sync.
TEST(attention, a_row_has_its_bits_in_any_batch_that_clusters_take) {
  struct batch {
    shape of;
    std::vector<std::int32_t> rows;
    bool many;
  };
  const std::vector<batch> batches = {{{1, 1, 64}, {5, 3, 8}, false},
                                      {{2, 1, 64}, {4, 6}, false},
                                      {{2, 1, 64}, {8, 12}, true},
                                      {{4, 1, 128}, {3, 8, 9}, true},
                                      {{8, 2, 128}, {12, 11, 9}, true}};
  for_each_device([&](const backend& device) {
    unsigned seed = 740;
    const bool card = device.where() == target::cuda;
    if (card && cuda::query().devices.front().compute_major != 9) return;  // it has no clusters
    for (const batch& t : batches) {
      if (t.many && !card) continue;
      attention_case c(t.of, t.rows, 16, mask_kind::causal, false, seed++);
      half_cache half(c);
      round_queries(c);
      c.length[0] = 600;
      const std::vector<std::int64_t> shape_of_rows{c.rows.set.rows, t.of.heads, t.of.dim};
      grid together(shape_of_rows), alone(shape_of_rows);
      attend_by(device, true, c, half, together);
      attend_by(device, true, c, half, alone, true);
      for (std::int64_t r = 0; r < t.rows[0]; ++r) {
        EXPECT_TRUE(same_bits(alone.row(r), together.row(r), alone.columns())) << seed - 1;
      }
    }
  });
}

// A sequence of 32 rows of SDAR-8B's heads is 16 items: two of them fill an H100, and three have no room at
// the same time. Of 7 rows it is 8 items, on 64 multiprocessors: more are worth merging from 3,073 keys on.
TEST(attention, clusters_are_taken_where_they_pay) {
  const auto pay = [](std::int64_t average, std::int64_t items, std::int64_t keys) {
    return cuda::clusters_pay(average, items, (keys + 63) / 64, 132, 2);
  };
  EXPECT_TRUE(pay(128, 16, 512) && pay(128, 16, 16384) && pay(128, 32, 8192));
  EXPECT_FALSE(pay(128, 16, 32768) || pay(128, 32, 16384) || pay(128, 48, 512));
  EXPECT_TRUE(pay(28, 8, 3072));
  EXPECT_FALSE(pay(28, 8, 3073));
  EXPECT_EQ(cuda::cluster_tile_rows(16), 16);
  EXPECT_EQ(cuda::cluster_tile_rows(17), 32);
  EXPECT_EQ(cuda::cluster_tile_rows(500), 64);
}

// Blocks draw tickets and merge the parts of cut keys themselves, in pieces of 256 keys and more: rows of
// every tile, keys at both sides of a piece's end, sequences that are cut beside others that are not, and the
// counts as one launch leaves them to the next.
TEST(attention, parts_are_merged_in_the_same_launch) {
  struct cut_keys {
    shape of;
    std::vector<std::int32_t> lengths;
    std::int32_t pages;
    mask_kind mask;
    bool listed, short_keys;  // short_keys: 257 to 512
  };
  const std::vector<cut_keys> cases = {
      {{2, 2, 128}, {5, 1, 9}, 5, mask_kind::full, false, true},
      {{14, 2, 128}, {3}, 12, mask_kind::block_causal, false, false},
      {{4, 1, 128}, {11, 2}, 6, mask_kind::full, true, false},
      {{4, 2, 128}, {32}, 8, mask_kind::full, false, true},
      {{4, 1, 128}, {40, 33}, 9, mask_kind::full, true, false},
      {{4, 1, 128}, {40, 70}, 4, mask_kind::causal, false, false}};
  for_each_device([&](const backend& device) {
    unsigned seed = 500;
    for (const cut_keys& t : cases) {
      attention_case c(t.of, t.lengths, t.pages, t.mask, t.listed, seed++);
      half_cache half(c);
      round_queries(c);
      const auto rows = c.rows.set.rows;
      grid want({rows, t.of.heads, 128}), first({rows, t.of.heads, 128}, 4);
      cpu_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.1F, want, {}});
      cuda::choices choices = cuda::choices_of_environment(/*graphs=*/false);
      const auto run = [&](bool newer, grid& out) {
        choices.newer = newer;
        with(choices, device).run(op::attention{c.rows.set, c.q, half.kv, c.keys, 0.1F, out, {}});
        device.synchronize();
      };
      run(true, first);
      EXPECT_TRUE(agree("the newer kernel", first, want, 6e-3, c));
      for (int turn = 0; turn < 2; ++turn) {
        grid again({rows, t.of.heads, 128}, 4);
        run(true, again);
        EXPECT_EQ(relative_error(again, first), 0) << text_of(c);
      }
      if (device.where() == target::cuda) continue;  // as rows of every GPU's kernels
      grid before({rows, t.of.heads, 128}, 4);
      run(false, before);
      EXPECT_TRUE(agree("the newer kernel, against the one before,", first, before, 4e-3, c));
      // Up to 512 keys the kernel before cuts nothing.
      if (t.short_keys) {
        EXPECT_GT(relative_error(first, before), 0) << "was not taken: " << text_of(c);
      }
    }
  });
}

// More items than blocks that run at once: a block's second item finds the memory as its first left it.
TEST(attention, blocks_take_several_items) {
  for_each_device([&](const backend& device) {
    const std::size_t multiprocessors =
        device.name() == "cuda"
            ? static_cast<std::size_t>(cuda::query().devices.front().multiprocessors)
            : 4;
    unsigned seed = 40;
    for (const auto& [of, rows] :
         {std::pair<shape, std::int32_t>{{2, 1, 64}, 1}, {{32, 1, 128}, 3}}) {
      const std::vector<std::int32_t> lengths(8 * multiprocessors + 3, rows);
      attention_case c(of, lengths, 2, mask_kind::causal, false, seed++);
      half_cache half(c);
      round_queries(c);
      const auto rows_in_all = c.rows.set.rows;
      grid want({rows_in_all, of.heads, of.dim}), got({rows_in_all, of.heads, of.dim}),
          on_cpu({rows_in_all, of.heads, of.dim});
      const float scale = 1.0F / std::sqrt(static_cast<float>(of.dim));
      reference_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, want, {}});
      cpu_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, scale, on_cpu, {}});
      device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, scale, got, {}});
      device.synchronize();
      EXPECT_TRUE(agree(cpu_backend().name(), on_cpu, want, 5e-6, c));
      EXPECT_TRUE(agree(device.name(), got, want, 6e-3, c));
    }
  });
}

// One long context among short ones is split, and the others are not.
TEST(attention, tensor_cores_split_the_longest) {
  for_each_device([&](const backend& device) {
    attention_case c({4, 1, 64}, {9, 40, 3, 5}, 24, mask_kind::full, false, 7);
    half_cache half(c);
    round_queries(c);
    c.length = {1500, 70, 1, 640};
    grid want({c.rows.set.rows, 4, 64}), got({c.rows.set.rows, 4, 64});
    reference_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.125F, want, {}});
    device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, 0.125F, got, {}});
    device.synchronize();
    EXPECT_TRUE(agree(device.name(), got, want, 6e-3, c));
  });
}

// Tiles that no row sees are skipped, those that some see are masked; sizes that tiles of keys do not
// divide; sequences without a mask. And the mass of tiles, from the first slot on and from a later.
TEST(attention, tensor_cores_under_block_masks) {
  for_each_device([&](const backend& device) {
    unsigned seed = 300;
    for (const std::int32_t size : {8, 24, 64, 128}) {
      for (const shape& of : {shape{2, 2, 64}, shape{4, 1, 128}}) {
        attention_case c(of, {70, 20, 30}, 4, mask_kind::full, false, seed++);
        half_cache half(c);
        round_queries(c);
        const std::int32_t blocks = (4 * kv_page_size + size - 1) / size;
        std::vector<std::uint8_t> keep(static_cast<std::size_t>(3 * of.heads * blocks * blocks));
        for (std::uint8_t& k : keep) k = c.rng() % 3 == 0;
        const std::vector<std::uint8_t> applies{1, 1, 0};
        c.keys.tiles = {keep.data(), applies.data(), blocks, size};
        grid want({c.rows.set.rows, of.heads, of.dim});
        grid got({c.rows.set.rows, of.heads, of.dim}, 4);
        reference_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.1F, want, {}});
        device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, 0.1F, got, {}});
        device.synchronize();
        EXPECT_TRUE(agree(device.name(), got, want, 6e-3, c)) << "block " << size;
        std::vector<std::uint16_t> half_q;
        for (std::int64_t r = 0; r < c.q.rows(); ++r) {
          std::transform(c.q.row(r), c.q.row(r) + c.q.columns(), std::back_inserter(half_q),
                         to_bf16);
        }
        const tensor_view half_rows =
            make_view(half_q.data(), dtype::bf16, {c.q.rows(), of.heads, of.dim});
        std::ranges::fill(c.length, 4 * kv_page_size);  // rows stand anywhere
        for (const std::int32_t from : {0, size}) {
          const std::vector<std::int32_t> first(3, from);
          grid want_mass({3, of.heads, blocks, blocks}), mass({3, of.heads, blocks, blocks}),
              half_mass({3, of.heads, blocks, blocks});
          for (std::int64_t s = 0; s < 3; ++s) {
            std::fill_n(want_mass.row(s), want_mass.columns(), 0.0F);
            std::fill_n(mass.row(s), mass.columns(), 0.0F);
            std::fill_n(half_mass.row(s), mass.columns(), 0.0F);
          }
          reference_backend().run(op::block_mass{c.rows.set, c.q, c.cache.kv, c.length.data(),
                                                 first.data(), size, 0.1F, want_mass});
          device.run(op::block_mass{c.rows.set, c.q, half.kv, c.length.data(), first.data(), size,
                                    0.1F, mass});
          device.synchronize();
          EXPECT_LT(relative_error(mass, want_mass), 6e-3) << "block " << size << " from " << from;
          if (size != 24) continue;  // queries of bfloat16: the same bits
          device.run(op::block_mass{c.rows.set, half_rows, half.kv, c.length.data(), first.data(),
                                    size, 0.1F, half_mass});
          device.synchronize();
          for (std::int64_t s = 0; s < 3; ++s) {
            EXPECT_TRUE(same_bits(half_mass.row(s), mass.row(s), mass.columns()));
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace unmask::test
