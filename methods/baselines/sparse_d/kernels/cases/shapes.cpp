// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the patterns of key blocks (operation_test.h says what follows from them).
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

// Tiles that end inside a page, span several or are narrower than a vector.
const auto masses = for_each_of<int>({8, 24, 64, 100}, [](int size) {
  return declared(
      [=](operands& at, const batch& b) {
        const std::int64_t blocks = (128 + size - 1) / size;
        const ragged r(
            at, b, [](int s) { return s == 12 ? 90 : s * 3; }, 100);
        return op::block_mass{
            r.set,
            at.normal(b, r.rows, {6, 16}, 1, 3),
            at.cache(b, 2, 2, 16, 30),
            of_each(at, b, [](int s) { return s == 1 ? 0 : 128 - s; }),
            of_each(at, b, [&](int s) { return s % 2 == 0 ? 0 : 64 / size * size; }),
            size,
            0.4F,
            at.out_rows<float>(same(b, 1), {6, blocks, blocks}, 5)};
      },
      1e-6);
});
const auto kept_tiles = for_each_of(numbers(6), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const int blocks = std::vector<int>{1, 9, 70}[static_cast<std::size_t>(i / 2)];
    const shape tiles{blocks > 9 ? 2 : 5, blocks, blocks};
    const auto used = [&](int s) { return s == 0 ? 0 : blocks - blocks / 3 * (s % 2); };
    const auto mass =
        random_numbers<float>(b, same(b, tiles[0] * blocks * blocks), 1, 0, 9);  // many ties
    return op::keep_top_blocks{
        at.in(mass, tiles, 3),
        of_each(at, b, used),
        of_each(at, b, [&](int s) { return s % 3 == 1 ? used(s) / 4 : 0; }),
        of_each(at, b, [&](int s) { return i % 2 == 0 ? used(s) : used(s) / 2; }),
        of_each(at, b, [&](int s) { return s == 12 ? 2 * blocks : 1 + s * blocks / 16; }),
        at.out_rows<std::uint8_t>(same(b, 1), tiles)};
  });
});
const declared tile_keys([](operands& at, const batch& b) {
  const auto keep = random_numbers<std::uint8_t>(b, same(b, 3 * 81), 1, 0, 1);
  return op::block_mask_keys{
      at.in(keep, {3, 9, 9}), at.in(each<std::uint8_t>(b, [](int s) { return s % 4 != 1; })), 8,
      of_each(at, b, [](int s) { return s * 6; }), at.out_rows<float>(same(b, 1), {9})};
});

}  // namespace
}  // namespace unmask::test
