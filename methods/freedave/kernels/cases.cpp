// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand of drafts.
#include "methods/freedave/kernels/drafts.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

// Four branches of forty rows, of which each computes the masks that the one before has not guessed.
struct branch_scene {
  candidate_set candidates;
  counts n;
  std::int32_t *row_begin, *branches;
  tensor_view guess, turn;
  branch_scene(operands& at, const batch& b) {
    indices begin{0}, position, row, first_row{0}, guesses, turns, count;
    for (const int s : b) {
      std::mt19937 rng = rng_of(s, 12);
      indices drawn(40);
      for (std::int32_t& t : drawn) t = draw(rng, 0, 5);  // 0: no mask
      const int k = s == 0 ? 0 : 1 + s % 4;
      for (int i = 0; i < k; ++i) {
        for (int p = 0; p < 40; ++p) {
          if (drawn[static_cast<std::size_t>(p)] <= i) continue;
          position.push_back(p);
          row.push_back(first_row.back() + i * 40 + p);
        }
      }
      n.push_back(static_cast<std::int64_t>(position.size()) - begin.back());
      begin.push_back(static_cast<std::int32_t>(position.size()));
      first_row.push_back(first_row.back() + k * 40);
      count.push_back(k);
      turns.insert(turns.end(), drawn.begin(), drawn.end());
      for (int p = 0; p < 40; ++p) guesses.push_back(draw(rng, 0, 1));
    }
    candidates = {static_cast<std::int32_t>(b.size()), begin.back(), at.in(begin), at.in(position),
                  at.in(row)};
    row_begin = at.in(first_row);
    branches = at.in(count);
    guess = at.out_rows(same(b, 1), {40}, 0, guesses);
    turn = at.out_rows(same(b, 1), {40}, 0, turns);
  }
};
const auto verified = for_each_of(numbers(16), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const branch_scene s(at, b);
    const counts one = same(b, 1);
    const indices nothing(b.size(), -1);
    std::size_t k = 0;
    return op::verify_drafts{
        .candidates = s.candidates,
        .row_begin = s.row_begin,
        .branches = s.branches,
        .width = of_each(at, b, [](int) { return 40; }),
        .first_only = of_each(at, b, [=](int q) { return i >= 12 ? q % 2 : 0; }),
        .block_last = of_each(at, b, [](int q) { return 5 * q % 40; }),
        .confidence = at.in(joined<float>(b, [&](int q) { return tied(q, s.n[k++], 3, false); })),
        .per_step = i % 3 == 2 ? 4 : 1,
        .use_threshold = i / 2 % 2 == 1,
        .threshold = 0.75F,
        .in_order = i % 4 == 3,
        .exact = i % 2 == 0,
        .block = i / 4 % 2 == 1 ? 16 : 0,
        .guess = s.guess,
        .turn = s.turn,
        .order = at.in(indices(static_cast<std::size_t>(total(s.n)) + 1, 0)),
        .token = at.inout(s.n, random_numbers<std::int32_t>(b, s.n, 4, 0, 1)),
        .chosen = at.inout(one, nothing),
        .left = at.inout(one, nothing),
        .left_in_block = at.inout(one, nothing),
        .accept = at.out<std::uint8_t>(s.n)};
  });
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

// Positions 4 .. 7 are masks. Branch 0 is the canvas, branch 1 guesses position 5 and branch 2 position 4
// as well; their rows are 0 .. 3, 4 .. 7 and 8 .. 11.
struct three_branches {
  candidates_fixture c;
  indices row{0, 1, 2, 3, 4, 6, 7, 10, 11}, token;
  std::vector<float> confidence;
  indices guess = indices(8, 0), turn = indices(8, 9);
  indices row_begin{0, 12}, branches{3}, width{4}, first_only{0}, block_last{6};
  indices order = indices(9), chosen{-1}, left{-1}, left_in_block{-1};
  bytes accept = bytes(9, 9);

  three_branches(indices tokens, std::vector<float> confidences)
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
  for (const backend* backend : backends) {
    three_branches t({1, 50, 2, 3, 41, 5, 6, 7, 8},
                     {0.1F, 0.9F, 0.2F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
    backend->run(t.args());
    EXPECT_EQ(t.chosen, indices{1});
    EXPECT_EQ(t.left, indices{3});
    EXPECT_EQ(t.left_in_block, indices{1});
    EXPECT_EQ(t.accept, (bytes{1, 1, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ((indices{t.token[0], t.token[1]}), (indices{41, 50}));
    // What branch 1 predicts is guessed next: 7 (0.3) before 6 (0.2).
    EXPECT_EQ((indices{t.guess[6], t.turn[6], t.guess[7], t.turn[7]}), (indices{5, 2, 6, 1}));
  }
}

// Two passing tokens equal branch 2 exactly; its own step takes its best, 8 at 7.
TEST(views, drafts_of_a_threshold) {
  for (const backend* backend : backends) {
    three_branches t({40, 50, 2, 3, 40, 5, 6, 7, 8},
                     {0.6F, 0.9F, 0.2F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
    op::verify_drafts args = t.args();
    args.use_threshold = true;
    args.threshold = 0.6F;
    backend->run(args);
    EXPECT_EQ(t.chosen, indices{2});
    EXPECT_EQ(t.accept, (bytes{1, 1, 0, 1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(t.token[3], 8);
    EXPECT_EQ((indices{t.guess[6], t.turn[6]}), (indices{7, 1}));
  }
}

// A step of three lies beyond branch 1 and 2: no branch equals it, but both lie in it.
TEST(views, drafts_that_lie_in_a_step) {
  for (const backend* backend : backends) {
    for (const bool exact : {true, false}) {
      three_branches t({40, 50, 60, 3, 40, 5, 6, 7, 8},
                       {0.6F, 0.9F, 0.7F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
      op::verify_drafts args = t.args();
      args.per_step = 3;
      args.exact = exact;
      backend->run(args);
      EXPECT_EQ(t.chosen, indices{exact ? 0 : 2});
      EXPECT_EQ(t.left, indices{exact ? 4 : 2});
    }
  }
}

// Left to right: 40 at 4 is no draft of branch 1, but branch 2 holds more than one step.
TEST(views, drafts_from_left_to_right) {
  for (const backend* backend : backends) {
    three_branches t({40, 50, 2, 3, 40, 5, 6, 7, 8}, std::vector<float>(9, 0.5F));
    op::verify_drafts args = t.args();
    args.in_order = true;
    backend->run(args);
    EXPECT_EQ(t.chosen, indices{0});
    EXPECT_EQ(t.accept, (bytes{1, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ((indices{t.turn[5], t.turn[6], t.turn[7]}), (indices{1, 2, 3}));
    // The first position alone, though another is surer; the others keep their order.
    three_branches first({40, 50, 2, 3, 40, 5, 6, 7, 8},
                         {0.1F, 0.9F, 0.2F, 0.3F, 0.8F, 0.2F, 0.3F, 0.4F, 0.5F});
    first.first_only = {1};
    first.branches = {1};
    backend->run(first.args());
    EXPECT_EQ(first.accept, (bytes{1, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ((indices{first.turn[5], first.turn[6], first.turn[7]}), (indices{1, 3, 2}));
  }
}

}  // namespace
}  // namespace unmask::test
