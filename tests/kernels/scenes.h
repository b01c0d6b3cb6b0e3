// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What many operations run on: rows, candidates and flags of a batch, each made from the numbers of
// its sequences.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/kernels/operation_test.h"

namespace unmask::test {

// Rows of a batch: rows_of(s) of them at random ascending positions below `limit`; every padding
// row belongs to no sequence.
struct ragged {
  counts rows, first;  // of each sequence: how many, and the row it begins with
  indices position;
  row_set set;
  template <class F>
  ragged(operands& at, const batch& b, const F& rows_of, std::int32_t limit, bool slots = false,
         int padding = 0) {
    indices sequence, slot;
    for (const int s : b) {
      indices all(static_cast<std::size_t>(limit));
      for (std::int32_t p = 0; p < limit; ++p) all[static_cast<std::size_t>(p)] = p;
      std::mt19937 rng = rng_of(s, 90);
      std::shuffle(all.begin(), all.end(), rng);
      all.resize(static_cast<std::size_t>(std::min(static_cast<std::int32_t>(rows_of(s)), limit)));
      std::sort(all.begin(), all.end());
      first.push_back(static_cast<std::int64_t>(position.size()));
      rows.push_back(static_cast<std::int64_t>(all.size()));
      sequence.insert(sequence.end(), all.size(), static_cast<std::int32_t>(rows.size()) - 1);
      position.insert(position.end(), all.begin(), all.end());
    }
    const indices begin = begins_of(rows);
    sequence.insert(sequence.end(), static_cast<std::size_t>(padding), -1);
    position.insert(position.end(), static_cast<std::size_t>(padding), 0);
    for (const std::int32_t p : position) slot.push_back(limit - 1 - p);
    set = {static_cast<std::int32_t>(b.size()),
           static_cast<std::int32_t>(position.size()),
           at.in(begin),
           at.in(sequence),
           at.in(position),
           slots ? at.in(slot) : nullptr};
  }
};

// Numbers with many ties, some infinities, NaN and negative zeros.
inline std::vector<float> tied(int sequence, std::int64_t n, int array = 0, bool oddities = true) {
  std::mt19937 rng = rng_of(sequence, array);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) {
    const int kind = draw(rng, 0, 40);
    x = static_cast<float>(draw(rng, -3, 9)) / 8;
    if (oddities && kind == 0) x = -infinity;
    if (oddities && kind == 1) x = nan;
    if (oddities && kind == 2) x = -0.0F;
  }
  return v;
}

// How many entries a sequence has: none, one, within a warp, a warp's 64 and one more, many.
inline std::int64_t length_of(int sequence) {
  const std::int64_t lengths[] = {0, 1, 31, 64, 65, 200, 32, 33};
  return sequence == 12 ? 700 : lengths[sequence % 8];
}

// Candidates at ascending positions with gaps, whose scores tie; their rows have gaps too.
struct scene {
  candidate_set candidates;
  counts n, length;  // of each sequence: candidates, and positions up to the last one
  const float* score;
  template <class F>
  scene(operands& at, const batch& b, const F& size_of, bool ties = true, bool oddities = true) {
    indices begin{0}, position, row;
    std::vector<float> scores;
    std::int32_t rows_before = 0;
    for (const int s : b) {
      std::mt19937 rng = rng_of(s, 91);
      n.push_back(size_of(s));
      std::int32_t p = draw(rng, 0, 3);
      for (std::int64_t c = 0; c < n.back(); ++c, p += draw(rng, 1, 3)) {
        position.push_back(p);
        row.push_back(rows_before + static_cast<std::int32_t>(2 * c) + draw(rng, 0, 1));
      }
      rows_before += static_cast<std::int32_t>(2 * n.back() + 1);
      length.push_back(p + 1);
      const std::vector<float> more =
          ties ? tied(s, n.back(), 92, oddities) : random_vector(rng, n.back(), 0.4F);
      scores.insert(scores.end(), more.begin(), more.end());
      begin.push_back(static_cast<std::int32_t>(position.size()));
    }
    candidates = {static_cast<std::int32_t>(b.size()), begin.back(), at.in(begin), at.in(position),
                  at.in(row)};
    score = at.in(scores);
  }
  scene(operands& at, const batch& b) : scene(at, b, length_of) {}
};

// Rows of a layer: none, one, and up to seventeen.
inline std::int64_t few(int s) {
  return s == 12 ? 17 : s % 8;
}
inline counts few_rows(const batch& b) {
  return each<std::int64_t>(b, few);
}

inline std::vector<int> numbers(int n) {
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
inline counts same(const batch& b, std::int64_t n) {
  return counts(b.size(), n);
}
inline counts lengths(const batch& b) {
  return each<std::int64_t>(b, length_of);
}
// The places of the sequences in the batch, and where their rows begin: what lists of either hold.
inline counts places(const batch& b) {
  counts all;
  for (std::size_t i = 0; i < b.size(); ++i) all.push_back(static_cast<std::int64_t>(i));
  return all;
}
inline counts firsts(const counts& n) {
  const indices begin = begins_of(n);
  return {begin.begin(), begin.end() - 1};
}

inline std::int64_t many(int s) {
  return s == 12 ? 5000 : s % 4;
}
inline noise_source noise(operands& at, const batch& b) {
  return {at.in(each<std::uint64_t>(b, [](int s) { return std::uint64_t{0xFFFFFFFFFF} * s + 1; })),
          of_each(at, b, [](int s) { return s * s * 1000; })};
}

struct span_of_flags {
  tensor_view state;
  std::int32_t *first, *last;
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

// What rules remember of forty positions, seven tokens each.
inline constexpr std::int64_t remembered = 40;
inline std::int64_t some_of_them(int s) {
  return s == 12 ? 12 : s;  // at most 3 + 3 (12 - 1) positions
}
inline std::vector<float> positive(const batch& b, std::int64_t n, int array) {
  return joined<float>(b, [&](int s) {
    std::mt19937 rng = rng_of(s, array);
    std::vector<float> v = random_vector(rng, n, 1);
    for (float& x : v) x = std::abs(x);
    return v;
  });
}

struct cached_keys {
  std::int64_t dim, group;
  dtype type;
  bool listed;
  int pages = 3;
};
inline const std::vector<cached_keys> caches{
    {5, 7, dtype::f32, false},   {24, 3, dtype::f32, true},   {64, 1, dtype::f32, true},
    {64, 8, dtype::bf16, false}, {128, 8, dtype::bf16, true}, {8, 4, dtype::bf16, false, 79}};

// ---- what cases by hand are made of ----

inline candidates_fixture candidates_at(const std::vector<indices>& positions) {
  candidates_fixture c;
  for (const indices& of : positions) c.add(of);
  return c;
}
inline tensor_view matrix_over(std::vector<float>& values, std::int64_t columns) {
  return make_view(values.data(), dtype::f32,
                   {static_cast<std::int64_t>(values.size()) / columns, columns});
}
inline tensor_view states_over(bytes& f, std::int64_t sequences) {
  return make_view(f.data(), dtype::u8,
                   {sequences, static_cast<std::int64_t>(f.size()) / sequences});
}

}  // namespace unmask::test
