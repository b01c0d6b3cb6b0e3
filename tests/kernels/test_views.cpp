// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Several rows at one position: what they are, see and judge; cases worked by hand.
#include "kernels/rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using view_ints = std::vector<std::int32_t>;
using view_bytes = std::vector<std::uint8_t>;
const std::vector<const backend*> view_backends = unmask::test::host_backends();

// Two rows at position 1 of sequence 0, of which the second has a token of its own.
TEST(views, rows_have_their_own_tokens) {
  const view_ints begin{0, 3, 4}, sequence{0, 0, 0, 1}, position{0, 1, 1, 2}, own{-1, -1, 7, -1};
  const row_set rows{2, 4, begin.data(), sequence.data(), position.data(), nullptr};
  view_ints canvas{10, 11, 12, 20, 21, 22};
  for (const backend* backend : view_backends) {
    view_ints token(4, -9);
    backend->run(op::gather_tokens{rows, make_view(canvas.data(), dtype::i32, {2, 3}), token.data(),
                                   own.data()});
    EXPECT_EQ(token, (view_ints{10, 11, 7, 22}));
  }
}

// Of the rows at position 1 one judges masks, the other what is decided; position 1 is decided.
TEST(views, rows_judge_the_states_that_they_say) {
  const view_ints begin{0, 3, 5}, sequence{0, 0, 0, 1, 1}, position{0, 1, 1, 0, 2};
  const row_set rows{2, 5, begin.data(), sequence.data(), position.data(), nullptr};
  view_bytes state{state_masked, state_decoded, state_masked,  //
                   state_masked, state_masked,  state_cached};
  constexpr std::uint8_t masks = one_state(state_masked), decided = one_state(state_decoded);
  const view_bytes judges{masks, masks, decided, 0, static_cast<std::uint8_t>(masks | decided)};
  const view_ints first{0, 0}, last{3, 3};
  for (const backend* backend : view_backends) {
    const auto found = [&](std::int32_t shift) {
      view_ints b(3, -7), p(5, -7), r(5, -7);
      const auto n = backend->run(
          op::find_candidates{rows, make_view(state.data(), dtype::u8, {2, 3}), 0, first.data(),
                              last.data(), shift, b.data(), p.data(), r.data(), judges.data()});
      p.resize(static_cast<std::size_t>(n));
      r.resize(static_cast<std::size_t>(n));
      return std::tuple{b, p, r};
    };
    EXPECT_EQ(found(0), (std::tuple{view_ints{0, 2, 2}, view_ints{0, 1}, view_ints{0, 2}}));
    // Row p judges position p + 1: 1 and 2 of sequence 0, of which 1 is decided.
    EXPECT_EQ(found(1), (std::tuple{view_ints{0, 1, 1}, view_ints{2}, view_ints{1}}));
  }
}

TEST(views, ranges_are_listed_one_after_the_other) {
  const view_ints range{0, 2, 5, 5, 8, 10,  //
                        3, 3, 3, 3, 3, 3,   //
                        4, 5, 1, 3, 0, 0};
  const view_ints begin{0, 4, 4, 7};
  for (const backend* backend : view_backends) {
    view_ints slot(8, -1);
    backend->run(op::list_ranges{3, 3, range.data(), begin.data(), slot.data()});
    EXPECT_EQ(slot, (view_ints{0, 1, 8, 9, 4, 1, 2, -1}));
  }
}

}  // namespace
}  // namespace unmask
