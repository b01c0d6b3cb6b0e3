// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over ranks, with threads for ranks.
#include "kernels/ranks.h"

#include <bit>
#include <tuple>

#include "kernels/attention.h"
#include "kernels/moe.h"
#include "kernels/selection.h"
#include "tests/kernels/support.h"
#include "tests/rank_threads.h"

namespace unmask {
namespace {

using test::on_ranks;

// The definition by recursion instead of by rounds: of `count` parts from `first` on, the left half holds
// the largest power of two below count.
float sum_of(const std::vector<std::vector<float>>& parts, std::size_t at, std::size_t first,
             std::size_t count) {
  if (count == 1) return parts[first][at];
  std::size_t left = 1;
  while (2 * left < count) left *= 2;
  return sum_of(parts, at, first, left) + sum_of(parts, at, first + left, count - left);
}

std::vector<std::vector<float>> parts_of(std::size_t count, std::size_t n) {
  std::vector<std::vector<float>> all;
  for (std::size_t p = 0; p < count; ++p) {
    std::vector<float> part;
    for (std::size_t i = 0; i < n; ++i) {  // sizes that lose bits in every order
      part.push_back(std::sin(static_cast<float>(17 * p + 3 * i + 1)) *
                     std::exp2(static_cast<float>((p * 5 + i) % 13)));
    }
    all.push_back(std::move(part));
  }
  return all;
}

// To bfloat16: the upper 16 bits, up where the lower are more than half of the last, or half and it is
// odd.
std::vector<std::vector<float>> rounded(std::vector<std::vector<float>> parts) {
  for (std::vector<float>& part : parts) {
    for (float& x : part) {
      const auto bits = std::bit_cast<std::uint32_t>(x);
      const std::uint32_t upper = bits >> 16, lower = bits & 0xFFFFU;
      const bool up = lower > 0x8000U || (lower == 0x8000U && upper % 2 == 1);
      x = std::bit_cast<float>((upper + (up ? 1 : 0)) << 16);
    }
  }
  return parts;
}

struct sum_shape {
  int ranks, pieces_of_one;
  std::int64_t rows, width;
};
void PrintTo(const sum_shape& s, std::ostream* out) {
  *out << s.ranks << " ranks, " << s.pieces_of_one << " parts each, " << s.rows << " x " << s.width;
}

class sums : public ::testing::TestWithParam<std::tuple<sum_shape, test::transport_kind>> {};
INSTANTIATE_TEST_SUITE_P(
    of, sums,
    ::testing::Combine(::testing::Values(sum_shape{1, 1, 3, 5}, sum_shape{1, 2, 1, 1},
                                         sum_shape{1, 3, 2, 7}, sum_shape{1, 6, 5, 40},
                                         sum_shape{2, 1, 7, 40}, sum_shape{2, 2, 3, 33},
                                         sum_shape{2, 4, 1, 129}, sum_shape{3, 1, 4, 41},
                                         sum_shape{3, 2, 2, 40}, sum_shape{4, 1, 5, 40},
                                         sum_shape{4, 2, 3, 1030}, sum_shape{5, 1, 9, 3},
                                         sum_shape{2, 1, 300, 1000}, sum_shape{3, 1, 0, 40},
                                         sum_shape{3, 1, 300, 1000}, sum_shape{4, 1, 128, 1024},
                                         sum_shape{4, 1, 131, 1001}),
                       ::testing::ValuesIn(test::every_transport)));

// What a rank receives for a sum, and how often the group moves for it: an area holds a MiB.
struct wire {
  std::uint64_t bytes = 0, moves = 0;
};
wire expected_wire(const sum_shape& s, int rank, dtype travels, bool whole, std::int64_t limit) {
  const rank_sum of{s.rows * s.width, static_cast<std::int64_t>(size_of(travels)), s.ranks};
  const auto areas = [](std::int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
  const auto from_others = [&](std::int64_t bytes, std::int64_t moves) {
    return wire{static_cast<std::uint64_t>((s.ranks - 1) * bytes),
                static_cast<std::uint64_t>(moves)};
  };
  if (s.ranks == 1) return {};
  if (whole || !of.takes_two_shots(limit)) return from_others(of.bytes(), areas(of.bytes()));
  const std::int64_t sums = 4 * of.stretch();
  return from_others(of.count(rank) * of.element_bytes + sums, areas(of.bytes()) + areas(sums));
}

// Every backend, wherever the rows lie, with and without what is there, in one shot or two.
TEST_P(sums, are_those_of_the_definition_on_every_rank) {
  const sum_shape& s = std::get<0>(GetParam());
  const test::transport_kind by = std::get<1>(GetParam());
  const auto n = static_cast<std::size_t>(s.rows * s.width);
  const auto each = static_cast<std::size_t>(s.pieces_of_one);
  const auto parts = parts_of(each * static_cast<std::size_t>(s.ranks), n);
  const auto in_halves = rounded(parts);
  std::vector<float> floats(n), halves(n);
  for (std::size_t i = 0; i < n; ++i) {
    floats[i] = sum_of(parts, i, 0, parts.size());
    halves[i] = sum_of(in_halves, i, 0, parts.size());
  }
  const auto check = [&](const backend& with, bool accumulate, dtype travels, std::int64_t limit) {
    SCOPED_TRACE(with.name() + " " + name_of(travels) + " up to " + std::to_string(limit));
    const bool whole = &with == &reference_backend();
    const std::vector<float>& want = travels == dtype::f32 ? floats : halves;
    std::vector<int> wrong(static_cast<std::size_t>(s.ranks));
    const auto body = [&](rank_group& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      std::vector<float> own;
      for (std::size_t p = 0; p < each; ++p) {
        own.insert(own.end(), parts[rank * each + p].begin(), parts[rank * each + p].end());
      }
      const std::int64_t gap = 3;
      std::vector<float> y(static_cast<std::size_t>(s.rows * (s.width + gap)) + 1, 0.75F);
      tensor_view to = make_view(y.data(), dtype::f32, {s.rows, s.width});
      to.row_stride = s.width + gap;
      with.run(op::sum_ranks{s.ranks > 1 ? &group : nullptr,
                             make_view(own.data(), dtype::f32, {s.pieces_of_one, s.rows * s.width}),
                             to, accumulate, travels, limit});
      for (std::int64_t r = 0; r < s.rows; ++r) {
        for (std::int64_t d = 0; d < s.width; ++d) {
          const float sum = want[static_cast<std::size_t>(r * s.width + d)];
          wrong[rank] += to.row<float>(r)[d] == (accumulate ? 0.75F + sum : sum) ? 0 : 1;
        }
        wrong[rank] += to.row<float>(r)[s.width] == 0.75F ? 0 : 1;  // the gap stays
      }
      const wire want_moved = expected_wire(s, group.rank(), travels, whole, limit);
      EXPECT_EQ(group.moves(), want_moved.moves);
      EXPECT_EQ(group.received(), want_moved.bytes);
    };
    EXPECT_EQ(on_ranks(s.ranks, body, 60, by),
              std::vector<std::string>(static_cast<std::size_t>(s.ranks)));
    EXPECT_EQ(wrong, std::vector<int>(static_cast<std::size_t>(s.ranks)));
  };
  for (const bool accumulate : {false, true}) {
    for (const dtype travels : {dtype::f32, dtype::bf16}) {
      // Several parts of one rank are added before they travel, and no halves any more.
      if (travels == dtype::bf16 && s.ranks > 1 && s.pieces_of_one > 1) continue;
      for (const std::int64_t limit : {std::int64_t{0}, two_shots_above}) {
        check(reference_backend(), accumulate, travels, limit);
        test::for_each_isa([&](const backend& cpu) { check(cpu, accumulate, travels, limit); });
      }
    }
  }
}

TEST(ranks, send_no_sums_of_parts_as_halves) {
  for (const backend* with : {&reference_backend(), &cpu_backend()}) {
    const auto threw = on_ranks(2, [&](rank_group& group) {
      std::vector<float> own(4), to(2);
      with->run(op::sum_ranks{&group, make_view(own.data(), dtype::f32, {2, 2}),
                              make_view(to.data(), dtype::f32, {1, 2}), false, dtype::bf16});
    });
    const std::string words = "sum_ranks: parts travel as f32, or one of a rank as bf16";
    EXPECT_EQ(threw, std::vector<std::string>(2, words)) << with->name();
  }
}

// Of eight experts somebody has 3, 4 and 5.
TEST(moe, choices_are_those_of_the_experts_that_are_held) {
  std::vector<std::int32_t> chosen = {0, 3, 5, 7, -1, 4, 6, 2}, kept(8, 9);
  cpu_backend().run(op::moe_held{make_view(chosen.data(), dtype::i32, {4, 2}), 3, 6,
                                 make_view(kept.data(), dtype::i32, {4, 2})});
  EXPECT_EQ(kept, (std::vector<std::int32_t>{-1, 0, 2, -1, -1, 1, -1, -1}));
}

// Ranks times parts is all that the bits depend on, if each has a power of two.
TEST(ranks, with_as_many_parts_have_the_same_bits) {
  const auto parts = parts_of(12, 50);
  std::vector<std::vector<float>> found;
  for (const int ranks : {3, 6, 12}) {
    const auto each = parts.size() / static_cast<std::size_t>(ranks);
    std::vector<float> y(50);
    const auto threw = on_ranks(ranks, [&](rank_group& group) {
      std::vector<float> own, to(50);
      for (std::size_t p = 0; p < each; ++p) {
        const auto& part = parts[static_cast<std::size_t>(group.rank()) * each + p];
        own.insert(own.end(), part.begin(), part.end());
      }
      cpu_backend().run(op::sum_ranks{
          &group, make_view(own.data(), dtype::f32, {static_cast<std::int64_t>(each), 50}),
          make_view(to.data(), dtype::f32, {5, 10}), false});
      if (group.rank() == ranks - 1) y = to;
    });
    EXPECT_EQ(threw, std::vector<std::string>(static_cast<std::size_t>(ranks)));
    found.push_back(y);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

TEST(ranks, add_float64_in_their_order) {
  const auto body = [](rank_group& group) {
    const double of[] = {1e16, 1, -1e16};  // (1e16 + 1) - 1e16 = 0 in float64
    double x[] = {of[group.rank()], 1.0 + group.rank()};
    sum_over_ranks(x, 2);
    EXPECT_EQ(x[0], 0);
    EXPECT_EQ(x[1], 6);
  };
  for (const test::transport_kind by : test::every_transport) {
    EXPECT_EQ(on_ranks(3, body, 60, by), std::vector<std::string>(3)) << test::transport_name(by);
  }
  double alone = 2;
  sum_over_ranks(&alone, 1);
  EXPECT_EQ(alone, 2);
}

// ---- operations over heads: two ranks that hold one head and two of three find what one process does ----

struct heads_of_rank {
  std::int64_t first, count;
};
const heads_of_rank uneven[] = {{0, 1}, {1, 2}};

// Heads [first, first + count) of [rows, 3, dim].
tensor_view some_heads(const tensor_view& all, const heads_of_rank& of) {
  tensor_view v = all;
  v.data = all.as<float>() + of.first * all.shape[2];
  v.shape[1] = of.count;
  return v;
}

class over_heads : public ::testing::Test {
 protected:
  static constexpr std::int64_t rows = 9, dim = 4;
  std::vector<float> q = values(1), k = values(2), v = values(3);
  static std::vector<float> values(int seed) {
    std::vector<float> all;
    for (int i = 0; i < rows * 3 * dim; ++i) {
      all.push_back(std::sin(static_cast<float>(i * 7 + seed * 31)));
    }
    return all;
  }
  static tensor_view view(std::vector<float>& of) {
    return make_view(of.data(), dtype::f32, {rows, 3, dim});
  }
  // A page whose first slots hold these rows of some heads.
  static std::vector<float> page_of(std::vector<float>& of, const heads_of_rank& h) {
    std::vector<float> page(static_cast<std::size_t>(kv_page_size * h.count * dim));
    const tensor_view some = some_heads(view(of), h);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(some.row<float>(r), h.count * dim, page.data() + r * h.count * dim);
    }
    return page;
  }
  // find(heads, what it finds) on one process, then on two ranks, of both backends.
  void expect_the_same(
      std::size_t count, float there,
      const std::function<void(const backend&, const heads_of_rank&, float*)>& find) {
    for (const backend* with : {&reference_backend(), &cpu_backend()}) {
      SCOPED_TRACE(with->name());
      std::vector<float> whole(count, there);
      find(*with, {0, 3}, whole.data());
      for (const test::transport_kind by : test::every_transport) {
        std::vector<std::vector<float>> of_rank(2, std::vector<float>(count, there));
        const auto body = [&](rank_group& group) {
          const auto r = static_cast<std::size_t>(group.rank());
          find(*with, uneven[r], of_rank[r].data());
        };
        EXPECT_EQ(on_ranks(2, body, 60, by), std::vector<std::string>(2))
            << test::transport_name(by);
        EXPECT_EQ(of_rank[0], of_rank[1]);
        for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(of_rank[0][i], whole[i], 2e-6F) << i;
      }
    }
  }
};

TEST_F(over_heads, importance_is_a_sum) {
  const std::vector<std::int32_t> begin = {0, 6}, index = {0, 1, 3, 4, 7, 8};
  expect_the_same(6, 0, [&](const backend& with, const heads_of_rank& h, float* found) {
    with.run(op::importance{1, begin.data(), index.data(), some_heads(view(q), h),
                            some_heads(view(k), h), 0.5F, found});
  });
}

TEST_F(over_heads, key_scores_are_a_mean) {
  const std::int32_t length = rows, table = 0;
  expect_the_same(rows, 0, [&](const backend& with, const heads_of_rank& h, float* found) {
    std::vector<float> page = page_of(k, h);
    paged_kv cache;
    cache.keys = cache.values = make_view(page.data(), dtype::f32, {1, kv_page_size, h.count, dim});
    cache.page_table = &table;
    cache.table_stride = 1;
    key_set keys;
    keys.kv_length = &length;
    with.run(op::key_scores{some_heads(view(q), h).first(1), cache, keys, found});
  });
}

// What was there is added once, not by every rank.
TEST_F(over_heads, the_mass_of_keys_grows_by_a_sum) {
  const std::int32_t length = rows, table = 0;
  const std::vector<std::int32_t> begin = {0, 3}, sequence = {0, 0, 0}, position = {2, 5, 8};
  expect_the_same(rows, 0.25F, [&](const backend& with, const heads_of_rank& h, float* found) {
    std::vector<float> keys_page = page_of(k, h), values_page = page_of(v, h);
    paged_kv cache;
    cache.keys = make_view(keys_page.data(), dtype::f32, {1, kv_page_size, h.count, dim});
    cache.values = make_view(values_page.data(), dtype::f32, {1, kv_page_size, h.count, dim});
    cache.page_table = &table;
    cache.table_stride = 1;
    key_set keys;
    keys.kv_length = &length;
    std::vector<float> out(static_cast<std::size_t>(3 * h.count * dim));
    with.run(op::attention{{1, 3, begin.data(), sequence.data(), position.data(), nullptr},
                           some_heads(view(q), h).first(3),
                           cache,
                           keys,
                           0.5F,
                           make_view(out.data(), dtype::f32, {3, h.count, dim}),
                           make_view(found, dtype::f32, {rows})});
  });
}

}  // namespace
}  // namespace unmask
