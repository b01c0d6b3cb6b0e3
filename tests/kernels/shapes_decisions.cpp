// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations on which candidates are decided, and of what they are decided by; the same bit by bit (operation_test.h says what follows from them).
#include "kernels/decisions.h"
#include "methods/credit_decoding/kernels/credit.h"
#include "methods/freedave/kernels/drafts.h"
#include "methods/hierarchical/kernels/runs.h"
#include "methods/llada21/kernels/edits.h"
#include "methods/multi_block/kernels/accept_blocks.h"
#include "methods/parts/kernels/acceptance.h"
#include "methods/parts/kernels/block_acceptance.h"
#include "methods/parts/kernels/entropy_bound.h"
#include "methods/parts/kernels/history.h"
#include "methods/pc_sampler/kernels/surprise.h"
#include "methods/wino/kernels/revoke.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const declared top([](operands& at, const batch& b) {
  const scene s(at, b);
  return op::accept_top{s.candidates, s.score, of_each(at, b, [](int q) { return q * 9 - 1; }),
                        at.out<std::uint8_t>(s.n)};
});
const auto top_of_many = for_each_of<int>({1, 2048, 4999}, [](int quota) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b, many);
    return op::accept_top{s.candidates, s.score, of_each(at, b, [&](int) { return quota; }),
                          at.out<std::uint8_t>(s.n)};
  });
});
const auto thresholds = for_each_of(numbers(6), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    const float threshold = i < 4 ? 0.5F : i == 4 ? 2.0F : -infinity;
    return op::accept_threshold{s.candidates, s.score,    threshold,
                                i % 2 == 1,   i / 2 == 1, at.out<std::uint8_t>(s.n)};
  });
});
const auto factors = for_each_of<float>({0, 0.25F, 1, 20, 9 * 64}, [](float factor) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_factor{s.candidates, s.score, factor, at.out<std::uint8_t>(s.n)};
  });
});
const auto sequential = for_each_of<int>({1, 4, 32, 64, 300}, [](int block) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_sequential{s.candidates, of_each(at, b, [](int q) { return q * 7 % 60; }),
                                 block, of_each(at, b, [](int q) { return q * 9 - 1; }),
                                 at.out<std::uint8_t>(s.n)};
  });
});
const auto merged = for_each_of<bool>({false, true}, [](bool both) {
  return declared([=](operands& at, const batch& b) {
    const counts n = lengths(b);
    return op::merge_accept{static_cast<std::int32_t>(total(n)),
                            at.in(random_numbers<std::uint8_t>(b, n, 1, 0, 1)), both,
                            at.inout(n, random_numbers<std::uint8_t>(b, n, 2, 0, 1))};
  });
});
const declared uniform([](operands& at, const batch& b) {
  const scene s(at, b);
  return op::uniform_scores{s.candidates, noise(at, b), at.out<float>(s.n)};
});
const declared gumbel(
    [](operands& at, const batch& b) {
      const scene s(at, b);
      std::size_t i = 0;
      const auto score = joined<float>(b, [&](int q) { return tied(q, s.n[i++], 1, false); });
      return op::gumbel_scores{s.candidates, noise(at, b), 0.3F, at.inout(s.n, score)};
    },
    1.2e-7);  // the last bit at most
const auto commits = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    const std::int64_t length = 2200;
    const counts one = same(b, 1);
    const auto count = [&] { return at.inout(one, indices(b.size(), 3)); };
    const bool revises = i >= 2;  // decided positions are candidates too
    op::commit commit{s.candidates,
                      at.in(random_numbers<std::int32_t>(b, s.n, 1, 0, 9)),
                      at.in(random_numbers<std::uint8_t>(b, s.n, 2, 0, revises ? 4 : 1)),
                      i % 2 == 0 ? -1 : 5,
                      7,
                      at.out_rows(one, {length}, 0, indices(b.size() * 2200, 5)),
                      at.out_rows(one, {length}, 0, bytes(b.size() * 2200, revises ? 1 : 0)),
                      at.out_rows(one, {length}, 0, indices(b.size() * 2200, 5)),
                      {count()}};
    if (revises) commit.counts = {commit.counts.taken, count(), count(), count()};
    return commit;
  });
});
const declared masks_scored([](operands& at, const batch& b) {
  const scene s(at, b);
  return op::score_masks{s.candidates,
                         at.out_rows(same(b, 1), {2200}, 0, bytes(b.size() * 2200, 1)), s.score,
                         at.out<float>(s.n)};
});
const declared edits_accepted([](operands& at, const batch& b) {
  const scene s(at, b);
  const counts one = same(b, 1);
  return op::accept_edits{s.candidates,
                          at.out_rows(one, {2200}, 0, indices(b.size() * 2200, 5)),
                          at.out_rows(one, {2200}, 0, bytes(b.size() * 2200, 1)),
                          at.in(random_numbers<std::int32_t>(b, s.n, 1, 0, 9)),
                          s.score,
                          0.4F,
                          at.inout(s.n, random_numbers<std::uint8_t>(b, s.n, 2, 0, 1))};
});
// No bound, one that a few pass, one that all pass; both sums; one token at least, or three.
const auto bounded = for_each_of(numbers(12), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    std::size_t k = 0;
    const auto entropy = joined<float>(b, [&](int q) { return tied(q, s.n[k++], 3, false); });
    const float bounds[] = {0, 2.5F, infinity};
    return op::accept_entropy_bound{
        s.candidates,   s.score,       at.in(entropy),           bounds[i % 3],
        i / 3 % 2 == 0, i < 6 ? 1 : 3, at.out<std::uint8_t>(s.n)};
  });
});
const auto best_of_runs = for_each_of<float>({-infinity, 0.5F}, [](float above) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_run_best{s.candidates, s.score, above, at.out<std::uint8_t>(s.n)};
  });
});
const auto near_best = for_each_of<float>({0.5F, 2}, [](float threshold) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_near_best{s.candidates, s.score, threshold, 0.125F,
                                at.out<std::uint8_t>(s.n)};
  });
});
// Both limits on what is masked again; a block's first step, and later ones.
const auto reopened = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b, length_of, true, false);
    const counts one = same(b, 1);
    return op::accept_and_reopen{
        .candidates = s.candidates,
        .state = at.in(random_numbers<std::uint8_t>(b, same(b, 2200), 6, 0, 1), {2200}),
        .probability = s.score,
        .threshold = 0.5F,
        .threshold_back = 0.75F,
        .strict = i % 2 == 0,
        .by_earlier = i % 2 == 0,
        .share = 0.7,
        .least_cap = i < 2 ? 5 : 300,
        .most_cap = i < 2 ? 20 : 300,
        .least = i == 3 ? 3 : 1,
        .first_allowance = 30,
        .restart = of_each(at, b, [](int q) { return q % 2; }),
        .taken = at.inout(one, each<std::int32_t>(b, [](int q) { return q + 1; })),
        .accept = at.out<std::uint8_t>(s.n)};
  });
});
const declared presents(
    [](operands& at, const batch& b) {
      const scene s(at, b, few, false);
      const counts one = same(b, 1);
      return op::confidence_of_present{
          .candidates = s.candidates,
          .logits = at.normal(b, s.n, {333}, 1),
          .canvas = at.in(random_numbers<std::int32_t>(b, same(b, 60), 5, 0, 332), {60}),
          .state = at.in(random_numbers<std::uint8_t>(b, same(b, 60), 6, 0, 1), {60}),
          .token = at.out<std::int32_t>(s.n),
          .probability = at.out<float>(s.n)};
    },
    1e-6);
const auto in_blocks = for_each_of<float>({0.5F, 2}, [](float threshold) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_in_blocks{
        s.candidates,
        s.score,
        at.in(joined<float>(b, [](int q) { return tied(q, length_of(q), 8, false); })),
        threshold,
        7,
        of_each(at, b, [](int) { return 0; }),
        at.in(random_numbers<std::uint8_t>(b, same(b, 320), 9, 0, 1), {320}),
        at.out<std::uint8_t>(s.n)};
  });
});
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
// What rules remember of forty positions, seven tokens each.
constexpr std::int64_t remembered = 40;
std::int64_t some_of_them(int s) {
  return s == 12 ? 12 : s;  // at most 3 + 3 (12 - 1) positions
}
// Lists of `room` of the seven tokens, none twice.
std::vector<std::int32_t> distinct_tokens(const batch& b, std::int64_t room) {
  return joined<std::int32_t>(b, [&](int s) {
    std::mt19937 rng = rng_of(s, 5);
    std::vector<std::int32_t> all;
    for (std::int64_t place = 0; place < remembered; ++place) {
      indices tokens{0, 1, 2, 3, 4, 5, 6};
      std::shuffle(tokens.begin(), tokens.end(), rng);
      all.insert(all.end(), tokens.begin(), tokens.begin() + room);
    }
    return all;
  });
}
std::vector<float> positive(const batch& b, std::int64_t n, int array) {
  return joined<float>(b, [&](int s) {
    std::mt19937 rng = rng_of(s, array);
    std::vector<float> v = random_vector(rng, n, 1);
    for (float& x : v) x = std::abs(x);
    return v;
  });
}
// Lists of three tokens, some of them full; both kinds of forwards.
const declared credited(
    [](operands& at, const batch& b) {
      const scene s(at, b, some_of_them, false);
      const counts one = same(b, 1);
      const auto listed = random_numbers<std::int32_t>(b, same(b, remembered), 4, 0, 3);
      return op::credited_confidence{
          .candidates = s.candidates,
          .logits = at.normal(b, s.n, {7}, 1),
          .first = of_each(at, b, [](int) { return 0; }),
          .fresh = of_each(at, b, [](int q) { return q % 2; }),
          .alpha = 1.5F,
          .exponent = 0.3F,
          .decay = 0.8F,
          .refused = 2,
          .listed = at.out_rows(one, {remembered}, 0, listed),
          .tokens = at.out_rows(one, {remembered, 3}, 0, distinct_tokens(b, 3)),
          .credits = at.out_rows(one, {remembered, 3}, 0, positive(b, remembered * 3, 6)),
          .token = at.out<std::int32_t>(s.n),
          .probability = at.out<float>(s.n),
          .score = at.out<float>(s.n)};
    },
    1e-6);
// Places that hold a distribution of their position, or of another one; counts of both kinds.
const declared compared(
    [](operands& at, const batch& b) {
      const scene s(at, b, some_of_them, false);
      const counts one = same(b, 1);
      const auto owners = joined<std::int32_t>(b, [](int q) {
        indices all(static_cast<std::size_t>(remembered));
        for (int p = 0; p < remembered; ++p) all[static_cast<std::size_t>(p)] = p % 3 == q ? -1 : p;
        return all;
      });
      const auto still = random_numbers<std::int32_t>(b, same(b, remembered), 4, 0, 3);
      const auto scale = joined<float>(b, [](int) {
        std::vector<float> all;
        for (int p = 0; p < remembered; ++p) all.insert(all.end(), {2.5F, 1e-8F});
        return all;
      });
      return op::compare_distributions{
          .candidates = s.candidates,
          .logits = at.normal(b, s.n, {7}, 1),
          .origin = of_each(at, b, [](int) { return 0; }),
          .fresh = of_each(at, b, [](int q) { return q == 4 ? 1 : 0; }),
          .epsilon = 1e-12,
          .limit = 0.7F,
          .history = 2,
          .still_before = 1,
          .owner = at.out_rows(one, {remembered}, 0, owners),
          .still = at.out_rows(one, {remembered}, 0, still),
          .kept = at.out_rows(one, {remembered, 7}, 0, positive(b, remembered * 7, 6)),
          .scale = at.out_rows(one, {remembered, 2}, 0, scale),
          .token = at.out<std::int32_t>(s.n),
          .probability = at.out<float>(s.n),
          .doubt = at.out<float>(s.n),
          .moved = at.out<float>(s.n),
          .settled = at.out<std::uint8_t>(s.n)};
    },
    1e-6);
// The three choices, with both comparisons and, in the last three, with nobody ready.
const auto settled = for_each_of(numbers(9), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    std::size_t k = 0, m = 0;
    const auto confidence = joined<float>(b, [&](int q) { return tied(q, s.n[k++], 3, false); });
    const auto moved = joined<float>(b, [&](int q) { return tied(q, s.n[m++], 4, false); });
    return op::accept_settled{.candidates = s.candidates,
                              .last = of_each(at, b, [](int q) { return q == 5 ? 90 : 1000; }),
                              .allowed = of_each(at, b, [](int q) { return q == 3 ? 0 : 1; }),
                              .probability = at.in(confidence),
                              .doubt = s.score,
                              .moved = at.in(moved),
                              .settled = at.in(random_numbers<std::uint8_t>(b, s.n, 5, 0, 1)),
                              .threshold = i < 6 ? 0.5F : 5,
                              .strict = i < 3,
                              .choice = static_cast<op::ready_choice>(i % 3),
                              .quota = of_each(
                                  at, b, [](int q) { return q * 2; }),
                              .at_most = i < 8 ? 9 : 1,
                              .accept = at.out<std::uint8_t>(s.n)};
  });
});
const declared surprising([](operands& at, const batch& b) {
  const scene s(at, b);
  std::size_t k = 0;
  const auto confidence = joined<float>(b, [&](int q) { return tied(q, s.n[k++], 3); });
  return op::surprise_scores{.candidates = s.candidates,
                             .first = of_each(at, b, [](int q) { return q * 3; }),
                             .weight = at.shared({30}, 4).as<float>(),
                             .places = 30,
                             .surprise = at.shared({10}, 5).as<float>(),
                             .token = at.in(random_numbers<std::int32_t>(b, s.n, 1, 0, 9)),
                             .probability = at.in(confidence),
                             .limit = 0.5F,
                             .score = at.out<float>(s.n)};
});
const auto combined = for_each_of<bool>({false, true}, [](bool two) {
  return declared([=](operands& at, const batch& b) {
    const counts n = lengths(b);
    const auto normal = [&](int array) { return at.normal(b, n, {1}, array).as<float>(); };
    return op::combine_scores{static_cast<std::int32_t>(total(n)), normal(1), 0.37F,
                              two ? normal(2) : nullptr,           -1.3F,     at.out<float>(n)};
  });
});
const declared combined_in_place([](operands& at, const batch& b) {
  const counts n = lengths(b);
  std::size_t i = 0;
  float* x = at.inout(n, joined<float>(b, [&](int s) { return tied(s, n[i++], 1, false); }));
  return op::combine_scores{static_cast<std::int32_t>(total(n)), x, 0.37F, nullptr, 0, x};
});
const declared rounded([](operands& at, const batch& b) {
  const counts n = lengths(b);
  std::size_t i = 0;
  const auto x = joined<float>(b, [&](int s) { return tied(s, n[i++], 1, s != 12); });
  return op::round_bf16{static_cast<std::int32_t>(total(n)), at.inout(n, x)};
});

}  // namespace
}  // namespace unmask::test
