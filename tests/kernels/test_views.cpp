// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Several rows at one position: what they are, see and judge; cases worked by hand.
#include "kernels/rows.h"
#include "methods/freedave/kernels/drafts.h"
#include "methods/multi_block/kernels/accept_blocks.h"
#include "methods/wino/kernels/revoke.h"
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

// Masks at 0 .. 3, decided at 4 .. 7.
TEST(views, taken_and_reopened_by_hand) {
  test::candidates_fixture c;
  c.add({0, 1, 2, 3, 4, 5, 6, 7});
  view_bytes state{0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<float> p{0.6F, 0.9F, 0.7F, 0.2F, 0.3F, 0.1F, 0.8F, 0.1F};
  for (const backend* backend : view_backends) {
    view_ints taken{3}, restart{0};
    op::accept_and_reopen args{.candidates = c.set(),
                               .state = make_view(state.data(), dtype::u8, {1, 8}),
                               .probability = p.data(),
                               .threshold = 0.6F,
                               .threshold_back = 0.5F,
                               .share = 0.5,
                               .least_cap = 1,
                               .most_cap = 4,
                               .first_allowance = 30,
                               .restart = restart.data(),
                               .taken = taken.data()};
    const auto decided = [&](std::int32_t before) {
      view_bytes accept(8, 9);
      taken = {before};
      args.accept = accept.data();
      backend->run(args);
      return accept;
    };
    // 0.9 and 0.7 pass (not 0.6: strict) and the cap is 2. The step before took 3: two are reopened.
    EXPECT_EQ(decided(3), (view_bytes{0, 1, 1, 0, 0, 3, 0, 3}));
    EXPECT_EQ(taken, view_ints{2});
    EXPECT_EQ(decided(2), (view_bytes{0, 1, 1, 0, 0, 3, 0, 0}));
    EXPECT_EQ(decided(1), (view_bytes{0, 1, 1, 0, 0, 0, 0, 0}));
    restart = {1};
    EXPECT_EQ(decided(1), (view_bytes{0, 1, 1, 0, 3, 3, 0, 3}));
    restart = {0};
    args.most_cap = 1;  // one alone reopens nothing
    EXPECT_EQ(decided(9), (view_bytes{0, 1, 0, 0, 0, 0, 0, 0}));
    args.threshold = 0.95F;  // the best where none passes
    EXPECT_EQ(decided(9), (view_bytes{0, 1, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(taken, view_ints{1});
    // The other limit: as many as are taken beyond one; not strict, so three pass.
    args.threshold = 0.6F;
    args.most_cap = 4;
    args.share = 1;
    args.strict = false;
    args.by_earlier = false;
    EXPECT_EQ(decided(1), (view_bytes{1, 1, 1, 0, 0, 3, 0, 3}));
    args.least = 2;
    EXPECT_EQ(decided(1), (view_bytes{1, 1, 1, 0, 0, 3, 0, 0}));
    args.threshold = 0.99F;
    EXPECT_EQ(decided(1), (view_bytes{0, 1, 1, 0, 0, 0, 0, 0}));
  }
}

// Positions 4 .. 7 are masks. Branch 0 is the canvas, branch 1 guesses position 5 and branch 2 position 4
// as well; their rows are 0 .. 3, 4 .. 7 and 8 .. 11.
struct three_branches {
  test::candidates_fixture c;
  view_ints row{0, 1, 2, 3, 4, 6, 7, 10, 11}, token;
  std::vector<float> confidence;
  view_ints guess = view_ints(8, 0), turn = view_ints(8, 9);
  view_ints row_begin{0, 12}, branches{3}, width{4}, first_only{0}, block_last{6};
  view_ints order = view_ints(9), chosen{-1}, left{-1}, left_in_block{-1};
  view_bytes accept = view_bytes(9, 9);

  three_branches(view_ints tokens, std::vector<float> confidences)
      : token(std::move(tokens)), confidence(std::move(confidences)) {
    c.add({4, 5, 6, 7, 4, 6, 7, 6, 7});
    guess[5] = 50;
    turn[5] = 1;
    guess[4] = 40;
    turn[4] = 2;
    guess[6] = 60;
    turn[6] = 3;
    guess[7] = 70;
    turn[7] = 4;
  }
  op::verify_drafts args() {
    candidate_set set = c.set();
    set.row = row.data();
    return {.candidates = set,
            .row_begin = row_begin.data(),
            .branches = branches.data(),
            .width = width.data(),
            .first_only = first_only.data(),
            .block_last = block_last.data(),
            .confidence = confidence.data(),
            .guess = make_view(guess.data(), dtype::i32, {1, 8}),
            .turn = make_view(turn.data(), dtype::i32, {1, 8}),
            .order = order.data(),
            .token = token.data(),
            .chosen = chosen.data(),
            .left = left.data(),
            .left_in_block = left_in_block.data(),
            .accept = accept.data()};
  }
};

// Branch 0 decides 50 at 5, as branch 1 guesses; branch 1 decides 41 at 4, branch 2 has guessed 40.
TEST(views, drafts_are_accepted_as_far_as_they_come_true) {
  for (const backend* backend : view_backends) {
    three_branches t({1, 50, 2, 3, 41, 5, 6, 7, 8},
                     {0.1F, 0.9F, 0.2F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
    backend->run(t.args());
    EXPECT_EQ(t.chosen, view_ints{1});
    EXPECT_EQ(t.left, view_ints{3});
    EXPECT_EQ(t.left_in_block, view_ints{1});
    EXPECT_EQ(t.accept, (view_bytes{1, 1, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ((view_ints{t.token[0], t.token[1]}), (view_ints{41, 50}));
    // What branch 1 predicts is guessed next: 7 (0.3) before 6 (0.2).
    EXPECT_EQ((view_ints{t.guess[6], t.turn[6], t.guess[7], t.turn[7]}), (view_ints{5, 2, 6, 1}));
  }
}

// Two passing tokens equal branch 2 exactly; its own step takes its best, 8 at 7.
TEST(views, drafts_of_a_threshold) {
  for (const backend* backend : view_backends) {
    three_branches t({40, 50, 2, 3, 40, 5, 6, 7, 8},
                     {0.6F, 0.9F, 0.2F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
    op::verify_drafts args = t.args();
    args.use_threshold = true;
    args.threshold = 0.6F;
    backend->run(args);
    EXPECT_EQ(t.chosen, view_ints{2});
    EXPECT_EQ(t.accept, (view_bytes{1, 1, 0, 1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(t.token[3], 8);
    EXPECT_EQ((view_ints{t.guess[6], t.turn[6]}), (view_ints{7, 1}));
  }
}

// A step of three lies beyond branch 1 and 2: no branch equals it, but both lie in it.
TEST(views, drafts_that_lie_in_a_step) {
  for (const backend* backend : view_backends) {
    for (const bool exact : {true, false}) {
      three_branches t({40, 50, 60, 3, 40, 5, 6, 7, 8},
                       {0.6F, 0.9F, 0.7F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
      op::verify_drafts args = t.args();
      args.per_step = 3;
      args.exact = exact;
      backend->run(args);
      EXPECT_EQ(t.chosen, view_ints{exact ? 0 : 2});
      EXPECT_EQ(t.left, view_ints{exact ? 4 : 2});
    }
  }
}

// Left to right: 40 at 4 is no draft of branch 1, but branch 2 holds more than one step.
TEST(views, drafts_from_left_to_right) {
  for (const backend* backend : view_backends) {
    three_branches t({40, 50, 2, 3, 40, 5, 6, 7, 8}, std::vector<float>(9, 0.5F));
    op::verify_drafts args = t.args();
    args.in_order = true;
    backend->run(args);
    EXPECT_EQ(t.chosen, view_ints{0});
    EXPECT_EQ(t.accept, (view_bytes{1, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ((view_ints{t.turn[5], t.turn[6], t.turn[7]}), (view_ints{1, 2, 3}));
    // The first position alone, though another is surer; the others keep their order.
    three_branches first({40, 50, 2, 3, 40, 5, 6, 7, 8},
                         {0.1F, 0.9F, 0.2F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
    first.first_only = {1};
    first.branches = {1};
    backend->run(first.args());
    EXPECT_EQ(first.accept, (view_bytes{1, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ((view_ints{first.turn[5], first.turn[6], first.turn[7]}), (view_ints{1, 3, 2}));
  }
}

// Blocks of 4 from position 2 on, the first with a passing token, the second forced, the third not.
TEST(views, blocks_of_one_forward_by_hand) {
  test::candidates_fixture c;
  c.add({2, 4, 6, 7, 9, 10, 11});
  const std::vector<float> p{0.9F, 0.2F, 0.1F, 0.4F, 0.4F, 0.3F, 0.8F};
  const view_ints origin{2};
  view_bytes forced{1, 1, 0};
  for (const backend* backend : view_backends) {
    const auto with_threshold = [&](float threshold) {
      view_bytes accept(7, 9);
      backend->run(op::accept_in_blocks{.candidates = c.set(),
                                        .probability = p.data(),
                                        .score = p.data(),
                                        .threshold = threshold,
                                        .block = 4,
                                        .origin = origin.data(),
                                        .forced = make_view(forced.data(), dtype::u8, {1, 3}),
                                        .accept = accept.data()});
      return accept;
    };
    EXPECT_EQ(with_threshold(0.5F), (view_bytes{1, 0, 0, 1, 0, 0, 1}));
    EXPECT_EQ(with_threshold(0.8F), (view_bytes{1, 0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(with_threshold(0.95F), (view_bytes{1, 0, 0, 1, 0, 0, 0}));
  }
}

}  // namespace
}  // namespace unmask
