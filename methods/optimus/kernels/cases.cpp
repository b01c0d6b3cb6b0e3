// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand of chunks.
#include "methods/optimus/kernels/chunk.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto chunks = for_each_of(numbers(16), [](int run) {
  return declared([=](operands& at, const batch& b) {
    std::mt19937 rng = rng_of(run, 10);
    const int block = std::vector<int>{4, 8, 16, 32, 64}[static_cast<std::size_t>(run % 5)];
    const span_of_flags f(at, b, block * draw(rng, 1, 6), 1);
    const auto size = of_each(at, b, [&](int s) { return s * 17 % (f.room + 2) - 1; });
    const std::int64_t most = static_cast<std::int64_t>(b.size()) * f.room;
    return op::select_chunk{static_cast<std::int32_t>(b.size()),
                            f.state,
                            {f.first, f.last, size, block, draw(rng, 0, 1) == 0,
                             static_cast<settle_rule>(run % 4), draw(rng, 0, 3) != 0},
                            at.begins(b),
                            at.list<std::int32_t>(most, places(b)),
                            at.list<std::int32_t>(most),
                            at.list<std::int32_t>(most),
                            at.list<std::uint8_t>(most)};
  });
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

// Block of 8: cached 0; decided 1, 3, 6; masked 2, 4, 5, 7.
TEST(blocks, select_chunk_by_hand) {
  bytes state{2, 1, 0, 1, 0, 0, 1, 0};
  const indices first{0}, last{8}, four{4};
  const struct {
    settle_rule rule;
    bool pending_first;
    indices position, slot;
    bytes settles;
  } cases[] = {
      {settle_rule::any_decoded, true, {1, 2, 3, 6}, {1, 4, 2, 3}, {1, 0, 1, 1}},
      {settle_rule::any_decoded, false, {1, 2, 3, 4}, {1, 3, 2, 4}, {1, 0, 1, 0}},
      {settle_rule::contiguous_prefix, false, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 0, 0, 0}},
      {settle_rule::right_neighbour, false, {1, 2, 3, 4}, {1, 2, 3, 4}, {0, 0, 0, 0}},
      {settle_rule::whole_block, false, {1, 2, 3, 4}, {1, 2, 3, 4}, {0, 0, 0, 0}},
  };
  for (const backend* backend : backends) {
    for (const auto& want : cases) {
      const chunk_params p{first.data(),       last.data(), four.data(), 8,
                           want.pending_first, want.rule,   true};
      indices begin(2), sequence(4), position(4), slot(4);
      bytes settles(4, 9);
      EXPECT_EQ(
          backend->run(op::select_chunk{1, states_over(state, 1), p, begin.data(), sequence.data(),
                                        position.data(), slot.data(), settles.data()}),
          4);
      EXPECT_EQ(begin, (indices{0, 4}));
      EXPECT_EQ(position, want.position);
      EXPECT_EQ(slot, want.slot);
      EXPECT_EQ(settles, want.settles);
    }
  }
}

}  // namespace
}  // namespace unmask::test
