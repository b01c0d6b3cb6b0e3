// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations on rows, lists, candidates and cached keys, those of the methods among
// them (operation_test.h says what follows from them). Decisions are the same bit by bit.
#include "harness/decode/kernels/features.h"
#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "kernels/selection.h"
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/baselines/block_diffusion/kernels/acceptance.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/baselines/vanilla/kernels/acceptance.h"
#include "methods/focus/kernels/eviction.h"
#include "methods/focus_dllm/kernels/block_means.h"
#include "methods/optimus/kernels/chunk.h"
#include "methods/sparse_dllm/kernels/eviction.h"
#include "tests/kernels/operation_test.h"

namespace unmask::test {
namespace {

std::vector<int> numbers(int n) {
  std::vector<int> all;
  for (int i = 0; i < n; ++i) all.push_back(i);
  return all;
}
// An int32 of each sequence.
template <class F>
std::int32_t* of_each(operands& at, const batch& b, const F& value) {
  return at.in(each<std::int32_t>(b, value));
}
// So many random numbers from low to high for each sequence.
template <class T>
std::vector<T> random_numbers(const batch& b, const counts& n, int array, int low, int high) {
  std::size_t i = 0;
  return joined<T>(b, [&](int s) {
    std::mt19937 rng = rng_of(s, array);
    std::vector<T> v(static_cast<std::size_t>(n[i++]));
    for (T& x : v) x = static_cast<T>(draw(rng, low, high));
    return v;
  });
}
counts same(const batch& b, std::int64_t n) {
  return counts(b.size(), n);
}
counts lengths(const batch& b) {
  return each<std::int64_t>(b, length_of);
}
// The places of the sequences in the batch, and where their rows begin: what lists of either hold.
counts places(const batch& b) {
  counts all;
  for (std::size_t i = 0; i < b.size(); ++i) all.push_back(static_cast<std::int64_t>(i));
  return all;
}
counts firsts(const counts& n) {
  const indices begin = begins_of(n);
  return {begin.begin(), begin.end() - 1};
}
std::int64_t longest(const counts& n) {
  return *std::max_element(n.begin(), n.end());
}

// ---- which candidates are decided ----

std::int64_t many(int s) {
  return s == 12 ? 5000 : s % 4;
}

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
noise_source noise(operands& at, const batch& b) {
  return {at.in(each<std::uint64_t>(b, [](int s) { return std::uint64_t{0xFFFFFFFFFF} * s + 1; })),
          of_each(at, b, [](int s) { return s * s * 1000; })};
}
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
const auto commits = for_each_of<int>({-1, 5}, [](int mask_id) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    const std::int64_t length = 2200;
    const counts one = same(b, 1);
    return op::commit{s.candidates,
                      at.in(random_numbers<std::int32_t>(b, s.n, 1, 0, 9)),
                      at.in(random_numbers<std::uint8_t>(b, s.n, 2, 0, 1)),
                      2,
                      mask_id,
                      at.out_rows(one, {length}, 0, indices(b.size() * 2200, 5)),
                      at.out_rows(one, {length}, 0, bytes(b.size() * 2200, 0)),
                      at.inout(one, indices(b.size(), 3))};
  });
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

struct span_of_flags {
  tensor_view state;
  std::int32_t *first, *last;
  counts length;
  std::int64_t room;
  // Cells [first, last) of each sequence, of `room` in all, with states 0, 1 and 2.
  span_of_flags(operands& at, const batch& b, std::int64_t cells, int array) : room(cells) {
    state = at.in(random_numbers<std::uint8_t>(b, same(b, room), array, 0, 2), {room});
    const auto low = [&](int s) { return s * 13 % static_cast<int>(room); };
    first = of_each(at, b, low);
    last = of_each(at, b, [&](int s) {
      return s == 0 ? low(s) : low(s) + (static_cast<int>(room) - low(s)) * (s % 8) / 7;
    });
  }
};
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

// ---- rows, lists and flags ----

// Widths and gaps of words of 16 bytes and of 4.
struct wide {
  std::int64_t width, gap;
};
const std::vector<wide> widths{{1, 0}, {4, 3}, {7, 4}, {64, 0}, {1024, 4}, {5000, 3}};
std::int64_t few(int s) {
  return s == 12 ? 9 : s % 5;
}
// Rows of each sequence in another order.
indices shuffled(const batch& b, const counts& n) {
  const counts first = firsts(n);
  std::size_t i = 0;
  return joined<std::int32_t>(b, [&](int s) {
    indices all;
    for (std::int64_t r = 0; r < n[i]; ++r) all.push_back(static_cast<std::int32_t>(first[i] + r));
    std::mt19937 rng = rng_of(s, 3);
    std::shuffle(all.begin(), all.end(), rng);
    ++i;
    return all;
  });
}
const auto gathers = for_each_of(widths, [](const wide& w) {
  return declared([=](operands& at, const batch& b) {
    const counts n = each<std::int64_t>(b, few);
    indices twice = shuffled(b, n);
    for (std::size_t i = 0; i < b.size(); ++i) {  // a row may be taken twice
      if (n[i] > 1) twice[static_cast<std::size_t>(firsts(n)[i])] = begins_of(n)[i];
    }
    return op::gather_rows{at.normal(b, n, {w.width}, 1, w.gap), at.in(twice),
                           at.out_rows<float>(n, {w.width}, w.gap)};
  });
});
const auto scatters = for_each_of(widths, [](const wide& w) {
  return declared([=](operands& at, const batch& b) {
    const counts n = each<std::int64_t>(b, few);
    return op::scatter_rows{at.normal(b, n, {w.width}, 1, w.gap), at.in(shuffled(b, n)),
                            at.out_rows<float>(n, {w.width}, w.gap)};
  });
});
const declared keys_of_64_bits([](operands& at, const batch& b) {
  const counts n = each<std::int64_t>(b, few);
  return op::gather_rows{
      at.in(random_numbers<std::uint64_t>(
                b, each<std::int64_t>(b, [](int s) { return 2 * few(s); }), 1, 0, 1 << 30),
            {2}),
      at.in(shuffled(b, n)), at.out_rows<std::uint64_t>(n, {2})};
});

const auto compacted = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const span_of_flags f(at, b, i < 2 ? 300 : 3000, 1);
    const std::int64_t most = static_cast<std::int64_t>(b.size()) * f.room;
    return op::compact{static_cast<std::int32_t>(b.size()),
                       i % 2 == 0 ? f.state : tensor_view{},
                       1,
                       f.first,
                       f.last,
                       at.begins(b),
                       at.list<std::int32_t>(most),
                       at.list<std::int32_t>(most, places(b))};
  });
});
const auto found = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const std::int64_t room = i < 2 ? 300 : 3000;
    const ragged r(
        at, b, [&](int s) { return s % 3 == 0 ? s * 20 : length_of(s); },
        static_cast<std::int32_t>(room), false, 2);
    const span_of_flags f(at, b, room, 1);
    const std::int64_t most = static_cast<std::int64_t>(b.size()) * room;
    return op::find_candidates{r.set,
                               f.state,
                               0,
                               f.first,
                               f.last,
                               i % 2,
                               at.begins(b),
                               at.list<std::int32_t>(most),
                               at.list<std::int32_t>(most, r.first)};
  });
});
const declared tokens([](operands& at, const batch& b) {
  const ragged r(at, b, length_of, 1000, false, 3);
  return op::gather_tokens{
      r.set, at.in(random_numbers<std::int32_t>(b, same(b, 1000), 1, 0, 1000), {1000}),
      at.out<std::int32_t>(r.rows, 3)};
});
const declared filled([](operands& at, const batch& b) {
  const span_of_flags f(at, b, 1000, 1);
  return op::fill_flags{static_cast<std::int32_t>(b.size()), f.first, f.last, 7,
                        at.out_rows<std::uint8_t>(same(b, 1), {1000})};
});
const auto scattered = for_each_of<bool>({false, true}, [](bool all) {
  return declared([=](operands& at, const batch& b) {
    const ragged r(at, b, length_of, 1000, false, 3);
    auto where = random_numbers<std::uint8_t>(b, r.rows, 1, 0, 2);
    where.resize(where.size() + 3, 1);
    return op::scatter_flags{r.set, all ? nullptr : at.in(where), 4,
                             at.out_rows<std::uint8_t>(same(b, 1), {1000})};
  });
});
const auto staged = for_each_of<bool>({false, true}, [](bool slots) {
  return declared([=](operands& at, const batch& b) {
    const ragged r(at, b, length_of, 1000, slots);
    const auto drawn = [&](int array) {
      return at.in(random_numbers<std::int32_t>(b, r.rows, array, 0, 99));
    };
    staged_rows to;
    to.row_begin = at.begins(b);
    to.sequence = at.list<std::int32_t>(r.set.rows + 7, places(b));
    to.position = at.out<std::int32_t>(r.rows, 7);
    to.slot = slots ? at.out<std::int32_t>(r.rows, 7) : nullptr;
    to.token = at.out<std::int32_t>(r.rows, 7);
    to.index = at.out<std::int32_t>(r.rows, 7);
    return op::stage_rows{r.set, drawn(1), drawn(2), r.set.rows + 7, to};
  });
});
// Some rows of each sequence among all of them.
const declared looked_up([](operands& at, const batch& b) {
  const ragged all(at, b, length_of, 1000);
  indices position, sequence;
  counts n;
  for (std::size_t i = 0; i < b.size(); ++i) {
    n.push_back((all.rows[i] + 2) / 3);
    for (std::int64_t k = 0; k < all.rows[i]; k += 3) {
      position.push_back(all.position[static_cast<std::size_t>(all.first[i] + k)]);
      sequence.push_back(static_cast<std::int32_t>(i));
    }
  }
  const row_set some{static_cast<std::int32_t>(b.size()),
                     static_cast<std::int32_t>(position.size()),
                     at.in(begins_of(n)),
                     at.in(sequence),
                     at.in(position),
                     nullptr};
  return op::find_rows{all.set, some, at.out_indices(n, all.first)};
});
const declared means(
    [](operands& at, const batch& b) {
      const ragged r(at, b, length_of, 1000);
      return op::mean_rows{r.set, at.normal(b, r.rows, {7}, 1, 3),
                           at.out_rows<float>(same(b, 1), {7}, 2)};
    },
    1e-7);
// Rows that are nearly alike, alike, and zero.
const auto distances = for_each_of<std::int64_t>({1, 7, 300, 1025}, [](std::int64_t width) {
  return declared(
      [=](operands& at, const batch& b) {
        const counts n = each<std::int64_t>(b, few);
        const auto x = [&](bool moved) {
          return joined<float>(b, [&](int s) {
            std::mt19937 rng = rng_of(s, 1);
            auto v = random_vector(rng, few(s) * width);
            for (std::int64_t r = 0; moved && r < few(s); ++r) {
              v[static_cast<std::size_t>(r * width + r % width)] += r == 2 ? 0.0F : 0.01F;
            }
            if (s == 4) std::fill_n(v.begin(), width, 0.0F);
            return v;
          });
        };
        return op::row_distance{at.in(x(false), {width}, 3), at.in(x(true), {width}, 1),
                                at.out<float>(n)};
      },
      1.2e-7);
});

// ---- the best of scores ----

const auto tops = for_each_of(numbers(5), [](int share) {
  return declared([=](operands& at, const batch& b) {
    const counts n = share == 4 ? each<std::int64_t>(b, many) : lengths(b);
    counts out;
    for (const std::int64_t x : n) {  // none, few, many, all
      out.push_back(share == 0   ? 0
                    : share == 1 ? std::min<std::int64_t>(x, 5)
                    : share == 2 ? x * 3 / 4
                                 : x);
    }
    std::size_t i = 0;
    const auto score = joined<float>(b, [&](int s) { return tied(s, n[i++], 1); });
    return op::top_indices{static_cast<std::int32_t>(b.size()), at.in(begins_of(n)), at.in(score),
                           at.in(begins_of(out)), at.out<std::int32_t>(out)};
  });
});
const auto marked = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const std::int32_t room = i == 3 ? 5100 : 1000;
    const ragged r(at, b, i == 3 ? many : length_of, room);
    std::size_t k = 0;
    const auto score = joined<float>(b, [&](int s) { return tied(s, r.rows[k++], 1); });
    const auto count = of_each(at, b, [&](int s) { return i == 0 ? s - 2 : s * 11 * i; });
    return op::mark_top{r.set, at.in(score), count, at.out_rows<std::uint8_t>(same(b, 1), {room})};
  });
});
const auto pooled = for_each_of(numbers(8), [](int i) {
  return declared(
      [=](operands& at, const batch& b) {
        const counts n = lengths(b);
        const int window = std::vector<int>{1, 3, 7, 401}[static_cast<std::size_t>(i / 2)];
        return op::pool{static_cast<std::int32_t>(b.size()),
                        at.in(begins_of(n)),
                        at.normal(b, n, {1}, 1).as<float>(),
                        window,
                        i % 2 == 0,
                        at.out<float>(n)};
      },
      1e-7);
});

// ---- cached keys ----

struct cached_keys {
  std::int64_t dim, group;
  dtype type;
  bool listed;
  int pages = 3;
};
const std::vector<cached_keys> caches{{5, 7, dtype::f32, false},   {24, 3, dtype::f32, true},
                                      {64, 1, dtype::f32, true},   {64, 8, dtype::bf16, false},
                                      {128, 8, dtype::bf16, true}, {8, 4, dtype::bf16, false, 79}};
const auto scored_keys = for_each_of(caches, [](const cached_keys& c) {
  return declared(
      [=](operands& at, const batch& b) {
        key_set keys;
        counts n = each<std::int64_t>(b, [&](int s) {
          return s == 12 ? c.pages * kv_page_size - 8 : s == 0 ? 0 : s * 29 % 130;
        });
        keys.kv_length = at.in(indices(n.begin(), n.end()));
        if (c.listed) {
          for (std::int64_t& x : n) x /= 2;
          keys.key_begin = at.in(begins_of(n));
          keys.key_slot =
              at.in(random_numbers<std::int32_t>(b, n, 2, 0, c.pages * kv_page_size - 1));
        }
        return op::key_scores{at.normal(b, same(b, 1), {2 * c.group, c.dim}, 1, 4),
                              at.cache(b, c.pages, 2, c.dim, 30, c.type), keys, at.out<float>(n)};
      },
      2e-5);
});
const auto block_means = for_each_of(numbers(8), [](int i) {
  return declared(
      [=](operands& at, const batch& b) {
        const std::int32_t block =
            std::vector<int>{1, 32, 64, 100}[static_cast<std::size_t>(i / 2)];
        const auto length = [](int s) { return s == 12 ? 900 : s * 37 % 160; };
        const bool some = i % 2 == 1;  // a refresh of two, which may lie beyond the end
        const counts n = each<std::int64_t>(b, [&](int s) -> std::int64_t {
          const std::int64_t all = (length(s) + block - 1) / block;
          return some ? std::min<std::int64_t>(all, 2) : all;
        });
        return op::block_mean_keys{static_cast<std::int32_t>(b.size()),
                                   at.cache(b, 15, 2, 9, 30, i < 4 ? dtype::f32 : dtype::bf16),
                                   of_each(at, b, length),
                                   block,
                                   at.in(begins_of(n)),
                                   at.out_rows<float>(n, {2, 9}, 3),
                                   some ? of_each(at, b, [](int s) { return s % 2; }) : nullptr};
      },
      1e-7);
});
struct listed_rows {
  std::int64_t kv_heads, group, dim;
  bool longer;
};
const std::vector<listed_rows> lists{
    {1, 1, 64, false}, {1, 8, 128, false}, {2, 3, 7, true}, {1, 2, 4, true}};
const auto importances = for_each_of(lists, [](const listed_rows& l) {
  return declared(
      [=](operands& at, const batch& b) {
        const counts n = each<std::int64_t>(
            b, [&](int s) { return s == 12 ? (l.longer ? 257 : 33) : length_of(s) % 67; });
        counts rows;
        indices index;
        for (std::size_t i = 0; i < b.size(); ++i) {
          const auto first = static_cast<std::int32_t>(total(rows));
          rows.push_back(2 * n[i]);
          for (std::int32_t k = 0; k < n[i]; ++k) {
            index.push_back(first + (k * 7 % static_cast<std::int32_t>(rows[i])));
          }
        }
        return op::importance{static_cast<std::int32_t>(b.size()),
                              at.in(begins_of(n)),
                              at.in(index),
                              at.normal(b, rows, {l.kv_heads * l.group, l.dim}, 1, 5),
                              at.normal(b, rows, {l.kv_heads, l.dim}, 2, 2),
                              1.0F / std::sqrt(static_cast<float>(l.dim)),
                              at.out<float>(n)};
      },
      5e-6);
});
const declared copied_slots([](operands& at, const batch& b) {
  const counts n = each<std::int64_t>(b, [](int s) { return s * 10; });
  return op::kv_copy{static_cast<std::int32_t>(b.size()), at.in(begins_of(n)),
                     at.in(random_numbers<std::int32_t>(b, n, 1, 0, 3 * kv_page_size - 1)),
                     at.cache(b, 3, 2, 12, 30), at.cache(b, 2, 2, 12, 40, dtype::f32, true)};
});

// ---- SparseD ----

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
