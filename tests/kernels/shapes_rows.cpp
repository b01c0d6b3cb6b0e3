// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations on rows, lists and flags (operation_test.h says what follows from them).
#include "harness/decode/kernels/features.h"
#include "kernels/ranks.h"
#include "kernels/rows.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

// Widths and gaps of words of 16 bytes and of 4.
struct wide {
  std::int64_t width, gap;
};
const std::vector<wide> widths{{1, 0}, {4, 3}, {7, 4}, {64, 0}, {1024, 4}, {5000, 3}};
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
const auto flags_listed = for_each_of(numbers(4), [](int i) {
  return declared([=](operands& at, const batch& b) {
    const span_of_flags f(at, b, i < 2 ? 300 : 3000, 1);
    const std::int64_t most = static_cast<std::int64_t>(b.size()) * f.room;
    return op::list_flags{static_cast<std::int32_t>(b.size()),
                          f.state,
                          1,
                          f.first,
                          f.last,
                          at.begins(b),
                          at.list<std::int32_t>(most),
                          i % 2 == 0 ? at.list<std::int32_t>(most, places(b)) : nullptr};
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
                               i < 2 ? one_state(0) : std::uint8_t{3},
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
const declared own_tokens([](operands& at, const batch& b) {
  const ragged r(at, b, length_of, 1000, false, 3);
  auto own = random_numbers<std::int32_t>(b, r.rows, 2, -2, 9);
  own.resize(own.size() + 3, 7);
  return op::gather_tokens{
      r.set, at.in(random_numbers<std::int32_t>(b, same(b, 1000), 1, 0, 1000), {1000}),
      at.out<std::int32_t>(r.rows, 3), at.in(own)};
});
// Each view is a sequence here; some see nothing.
const declared ranges_listed([](operands& at, const batch& b) {
  counts n;
  const auto range = joined<std::int32_t>(b, [&](int s) {
    std::mt19937 rng = rng_of(s, 7);
    indices ends;
    std::int64_t keys = 0;
    for (int i = 0; i < 3; ++i) {
      const int first = draw(rng, 0, 90), length = s % 4 == 0 ? 0 : draw(rng, 0, 400);
      ends.insert(ends.end(), {first, first + length});
      keys += length;
    }
    n.push_back(keys);
    return ends;
  });
  return op::list_ranges{static_cast<std::int32_t>(b.size()), 3, at.in(range), at.in(begins_of(n)),
                         at.out<std::int32_t>(n)};
});
const declared judged([](operands& at, const batch& b) {
  const std::int64_t room = 300;
  const ragged r(at, b, length_of, static_cast<std::int32_t>(room), false);
  const span_of_flags f(at, b, room, 1);
  const std::int64_t most = static_cast<std::int64_t>(b.size()) * room;
  const auto judges = random_numbers<std::uint8_t>(b, r.rows, 3, 0, 3);
  return op::find_candidates{r.set,
                             f.state,
                             0,
                             f.first,
                             f.last,
                             1,
                             at.begins(b),
                             at.list<std::int32_t>(most),
                             at.list<std::int32_t>(most, r.first),
                             at.in(judges)};
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
    const tensor_view canvas =
        at.in(random_numbers<std::int32_t>(b, same(b, 1000), 3, 0, 1000), {1000});
    const std::int32_t* own =
        slots ? at.in(random_numbers<std::int32_t>(b, r.rows, 1, -2, 9)) : nullptr;
    return op::stage_rows{r.set, canvas, own, drawn(2), r.set.rows + 7, to};
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
// Parts of one process, as they are and as they would travel in halves; beside what is there, if their
// number is odd.
struct parts_of_sum {
  int count;
  dtype travels;
};
std::vector<parts_of_sum> parts_of_sums() {
  std::vector<parts_of_sum> all;
  for (const int count : {1, 2, 3, 6, 7, 64}) {
    for (const dtype travels : {dtype::f32, dtype::bf16}) all.push_back({count, travels});
  }
  return all;
}
const auto sums = for_each_of(parts_of_sums(), [](const parts_of_sum& of) {
  return declared([=](operands& at, const batch& b) {
    const int parts = of.count;
    constexpr std::int64_t width = 37;
    const counts n = few_rows(b);
    std::vector<float> all;
    for (int p = 0; p < parts; ++p) {
      const auto part = normal_values(b, n, width, p, static_cast<float>(1 << p % 13));
      all.insert(all.end(), part.begin(), part.end());
    }
    const bool grows = parts % 2 != 0;
    const auto before = grows ? normal_values(b, n, width, 99) : std::vector<float>();
    return op::sum_ranks{nullptr, make_view(at.in(all), dtype::f32, {parts, total(n) * width}),
                         at.out_rows<float>(n, {width}, 3, before), grows, of.travels};
  });
});
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
                                at.out<float>(n), width == 7 ? 7e-6F : 0.0F};
      },
      1.2e-7);
});

}  // namespace
}  // namespace unmask::test
