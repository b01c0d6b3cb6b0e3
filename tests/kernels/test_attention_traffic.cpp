// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What attention reads and writes, as the emulator counts it.
#include <numeric>

#include "kernels/cuda/device/traffic.h"
#include "tests/kernels/attention_cases.h"

namespace unmask::test {
namespace {

class attention_traffic : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::emulator::sees_accesses()) GTEST_SKIP() << "accesses are not seen in this build";
  }
};

// 128 packed rows share what is read from shared memory: a fragment of keys or values serves two
// products of rows, and queries are read for half a tile of 128 dimensions at a time.
TEST_F(attention_traffic, wide_items_read_fragments_for_two_products) {
  const backend& device = by_wgmma(false, cuda_emulated_backend());
  for (const auto& [dim, most] : {std::pair{64, 40.0 / 128}, std::pair{128, 96.0 / 256}}) {
    attention_case c({4, 1, dim}, {40}, 4, mask_kind::full, false, 3);
    half_cache half(c);
    grid got({c.rows.set.rows, 4, dim});
    cuda::emulator::begin_counting();
    device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, 0.1F, got, {}});
    device.synchronize();
    const auto work = cuda::emulator::end_counting();
    const auto& k = work.kernels.at("attention_tensor");
    EXPECT_LE(static_cast<double>(k.matrix_loads), most * static_cast<double>(k.products)) << dim;
    EXPECT_EQ(k.written.uncoalesced, 0U);
  }
}

// Parts that a batch of sequences with 128 packed rows is best cut into: of cutting the longest into 1, 2,
// 3, 4, 6, ... pieces that of least time, every piece in turn. In tiles of 64 keys: the longest piece or
// all waves of the mean one, and 128 rows / 32 for each part, of eight that are stored at once. No piece is
// shorter than eight tiles, nor than a sixteenth of the work.
std::uint64_t best_parts(const std::vector<std::int32_t>& lengths) {
  constexpr double places = 8;
  std::vector<double> tiles;
  for (const std::int32_t n : lengths) tiles.push_back(std::ceil(n / 64.0));
  const double work = std::accumulate(tiles.begin(), tiles.end(), 0.0);
  double best = 0;
  std::uint64_t parts_of_best = 0;
  for (const int into : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192}) {
    const double share =
        std::max({std::ceil(std::ranges::max(tiles) / into), 8.0, std::ceil(work / 16)});
    std::vector<double> pieces;
    double parts = 0;
    for (const double n : tiles) {
      const double cuts = std::ceil(n / share);
      for (double left = n, i = cuts; i > 0; left -= pieces.back(), --i) {
        pieces.push_back(std::ceil(left / i));
      }
      if (cuts > 1) parts += cuts;
    }
    const double count = static_cast<double>(pieces.size());
    const double time =
        std::max(std::ranges::max(pieces), std::ceil(count / places) * work / count) +
        128.0 / 32 * parts / places;
    if (into > 1 && time >= best) continue;
    best = time;
    parts_of_best = static_cast<std::uint64_t>(parts);
  }
  return parts_of_best;
}

// Keys are cut where that saves more than what storing their parts and reading them again costs. The
// emulated device holds eight items of 128 rows: eight of 640 keys fill it and stay whole; one is cut in
// two. Of nine the second wave has a single item: cutting all would save five of twenty tiles a place, and
// the parts cost nine.
TEST_F(attention_traffic, keys_are_cut_where_it_pays) {
  const backend& device = by_wgmma(false, cuda_emulated_backend());
  const auto same = [](std::size_t n, std::int32_t keys) {
    return std::vector<std::int32_t>(n, keys);
  };
  const std::vector<std::pair<std::vector<std::int32_t>, std::uint64_t>> batches = {
      {same(8, 640), 0}, {same(1, 640), 2},  {same(9, 640), 0},
      {{3000, 200}, 6},  {same(3, 1536), 6}, {{2048, 600, 40, 1100, 640}, 5}};
  for (const auto& [lengths, parts] : batches) {
    EXPECT_EQ(best_parts(lengths), parts);
    attention_case c({4, 1, 128}, std::vector<std::int32_t>(lengths.size(), 32),
                     (std::ranges::max(lengths) + kv_page_size - 1) / kv_page_size, mask_kind::full,
                     false, 5);
    half_cache half(c);
    round_queries(c);
    std::ranges::copy(lengths, c.length.begin());
    const auto rows = c.rows.set.rows;
    grid want({rows, 4, 128}), got({rows, 4, 128});
    cuda::emulator::begin_counting();
    device.run(op::attention{c.rows.set, c.q, half.kv, c.keys, 0.1F, got, {}});
    device.synchronize();
    const auto work = cuda::emulator::end_counting();
    // The output lies in memory of the test, which is not counted: parts are all that is written.
    EXPECT_EQ(work.kernels.at("attention_tensor").written.bytes,
              std::uint64_t{128} * (128 + 2) * sizeof(float) * parts)
        << lengths.size() << " of " << lengths[0];
    cpu_backend().run(op::attention{c.rows.set, c.q, c.cache.kv, c.keys, 0.1F, want, {}});
    EXPECT_TRUE(agree(device.name(), got, want, 6e-3, c));
  }
}

}  // namespace
}  // namespace unmask::test
