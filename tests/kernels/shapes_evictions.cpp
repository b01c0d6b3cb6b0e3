// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations on the decisions of Ada-DLM, FOCUS and Optimus, the same bit by bit
// (operation_test.h says what follows from them).
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/focus/kernels/eviction.h"
#include "methods/optimus/kernels/chunk.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {
// ---- Ada-DLM ----

const auto pushed = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b, length_of, true, false);
    const std::int64_t m = i % 2 == 0 ? 1 : 3, length = 2200;
    std::vector<float> before =
        random_numbers<float>(b, same(b, length * m), 1, 0, 2);  // 0: never scored
    return op::push_history{s.candidates, s.score, i / 2 == 1,
                            at.out_rows(same(b, 1), {length, m}, 0, before)};
  });
});

// Every rule with every option, over scopes that cut sequences; means of tiers are summed in the
// reference's order, so that even they agree bit by bit.
const auto frozen = for_each_of(numbers(40), [](int run) {
  return declared([=](operands& at, const batch& b) {
    const auto size = [&](int s) { return run % 8 == 0 ? length_of(s) % 256 : s * 11 % 41; };
    const scene s(at, b, size);
    std::mt19937 rng = rng_of(run, 7);
    const int m = draw(rng, 1, 5), length = 800;
    const auto history = joined<float>(b, [&](int q) {
      std::mt19937 own = rng_of(q, 8 + run);
      std::vector<float> h(static_cast<std::size_t>(length * m));
      for (float& x : h) {
        x = run % 2 == 0 ? static_cast<float>(draw(own, 1, 16)) / 16
                         : std::uniform_real_distribution<float>(0.01F, 1.0F)(own);
        if (draw(own, 0, 60) == 0) x = draw(own, 0, 1) == 0 ? -infinity : nan;
      }
      return h;
    });
    freeze_params p;
    p.rule = static_cast<freeze_rule>(run % 5);
    p.threshold = run % 3 == 0 || p.rule == freeze_rule::threshold ? 0.6F : 0.0F;
    p.clamp_weights = draw(rng, 0, 2) == 0;
    p.tier_mean = draw(rng, 0, 1) == 0;
    p.always_best = draw(rng, 0, 3) != 0;
    p.all_when_short = draw(rng, 0, 3) == 0;
    p.floor = draw(rng, 0, 3) == 0 ? 0.3F : 0.0F;
    if (draw(rng, 0, 1) == 0) {
      p.first = of_each(at, b, [](int q) { return q % 5; });
      std::size_t i = 0;
      p.last = of_each(at, b, [&](int) { return s.length[i++] / 2 + 5; });
      p.rank_all = draw(rng, 0, 1) == 0;
    }
    if (draw(rng, 0, 2) == 0) p.limit = of_each(at, b, [](int q) { return q % 4; });
    const int base = draw(rng, 1, 12);
    const auto rank = of_each(at, b, [&](int q) { return q == 5 && run % 2 == 1 ? -1 : base + q; });
    return op::accept_two_centroids{s.candidates, at.in(history, {length, m}), rank, p,
                                    at.out<std::uint8_t>(s.n)};
  });
});

const auto delayed = for_each_of(numbers(8), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const span_of_flags f(at, b, i < 4 ? 200 : 5000, 1);
    const delayed_cache_params p{0, 1, 2, i % 2 == 0, i / 2 % 2 == 0};
    return op::advance_delayed_cache{
        at.out_rows(same(b, 1), {f.room}, 0,
                    random_numbers<std::uint8_t>(b, same(b, f.room), 1, 0, 2)),
        p,
        f.first,
        f.last,
        at.in(each<std::uint8_t>(b, [](int s) { return s % 4 == 3; })),
        at.out_rows<std::uint8_t>(same(b, 1), {f.room})};
  });
});

// ---- FOCUS ----

const auto finals = for_each_of<bool>({false, true}, [](bool neighbour) {
  return declared([=](operands& at, const batch& b) {
    const span_of_flags f(at, b, 200, 1);
    return op::mark_kv_final{static_cast<std::int32_t>(b.size()),
                             f.state,
                             f.first,
                             f.last,
                             neighbour,
                             at.out_rows<std::uint8_t>(same(b, 1), {f.room})};
  });
});
const auto retained = for_each_of(numbers(24), [](int run) {
  return declared([=](operands& at, const batch& b) {
    const auto size = [&](int s) { return s == 12 ? 70 + run * 9 : length_of(s) % 101; };
    const scene s(at, b, size, run % 2 == 0, run % 8 == 0);
    std::mt19937 rng = rng_of(run, 9);
    retain_params p;
    std::size_t i = 0, j = 0;
    p.target = of_each(at, b, [&](int q) { return (q * 5 + run) % (s.n[i++] + 2); });
    p.processed = of_each(at, b, [&](int q) { return (q * 11 + run) % (s.length[j++] + 2); });
    p.by_deviation = draw(rng, 0, 3) != 0;
    p.add_mean = draw(rng, 0, 1) == 0;
    p.ddof = draw(rng, 0, 2);
    p.keep_predecessors = draw(rng, 0, 1) == 0;
    p.adjacent_rows = draw(rng, 0, 1) == 0;
    p.keep_unprocessed = draw(rng, 0, 1) == 0;
    return op::retain{s.candidates, s.score, p, at.out<std::uint8_t>(s.n)};
  });
});
// Rows of which some are candidates; candidates that are refused leave.
const declared dropped([](operands& at, const batch& b) {
  const ragged r(at, b, length_of, 1000);
  indices position, row, begin{0};
  bytes accept;
  for (std::size_t i = 0; i < b.size(); ++i) {
    std::mt19937 rng = rng_of(b[i], 2);
    for (std::int64_t k = 0; k < r.rows[i]; ++k) {
      if (draw(rng, 0, 2) == 0) continue;
      row.push_back(static_cast<std::int32_t>(r.first[i] + k));
      position.push_back(r.position[static_cast<std::size_t>(row.back())]);
      accept.push_back(static_cast<std::uint8_t>(draw(rng, 0, 1)));
    }
    begin.push_back(static_cast<std::int32_t>(row.size()));
  }
  const candidate_set c{static_cast<std::int32_t>(b.size()), begin.back(), at.in(begin),
                        at.in(position), at.in(row)};
  return op::drop_rows{r.set,
                       c,
                       at.in(accept),
                       at.begins(b),
                       at.list<std::int32_t>(r.set.rows, places(b)),
                       at.list<std::int32_t>(r.set.rows),
                       at.list<std::int32_t>(r.set.rows, r.first)};
});

// The lists of the rows that stay may take the place of those that there were.
const declared dropped_in_place([](operands& at, const batch& b) {
  const ragged r(at, b, length_of, 1000);
  std::int32_t* begin = at.begins(b);
  auto* sequence = at.list<std::int32_t>(r.set.rows, places(b), false);
  auto* position = at.list<std::int32_t>(r.set.rows, {}, false);
  std::copy_n(r.set.row_begin, b.size() + 1, begin);
  std::copy_n(r.set.sequence, r.set.rows, sequence);
  std::copy_n(r.set.position, r.set.rows, position);
  indices row;
  for (std::int32_t i = 0; i < r.set.rows; ++i) row.push_back(i);
  const candidate_set all{r.set.sequences, r.set.rows, at.in(begins_of(r.rows)), at.in(r.position),
                          at.in(row)};
  return op::drop_rows{{r.set.sequences, r.set.rows, begin, sequence, position, nullptr},
                       all,
                       at.in(random_numbers<std::uint8_t>(b, r.rows, 2, 0, 1)),
                       begin,
                       sequence,
                       position,
                       at.list<std::int32_t>(r.set.rows, r.first)};
});

// ---- Optimus ----

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

}  // namespace
}  // namespace unmask::test
