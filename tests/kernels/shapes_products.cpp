// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of products, the head and the experts; shapes divide no tile and no group (operation_test.h says what follows from them).
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

// ---- products ----

struct product {
  std::int64_t depth, features;
  weight_format format;
  bool accumulate;
};
const std::vector<product> products{{1, 1, weight_format::f32, false},
                                    {129, 47, weight_format::f32, true},
                                    {33, 97, weight_format::f32, false},
                                    {50, 130, weight_format::f32, true},
                                    {70, 33, weight_format::int8, false}};
const auto linears = for_each_of(products, [](const product& p) {
  return declared(
      [=](operands& at, const batch& b) {
        const counts rows = each<std::int64_t>(b, [](int s) { return s == 12 ? 70 : few(s); });
        const auto before = [&] { return normal_values(b, rows, p.features, 3); };
        return op::linear{at.normal(b, rows, {p.depth}, 1, 3),
                          at.pack(at.shared({p.features, p.depth}, 2), p.format),
                          at.shared({p.features}, 4),
                          at.out_rows<float>(rows, {p.features}, 2, before()), p.accumulate};
      },
      2e-5);
});

// A pair's room is written, or not, by every backend alike: no newer kernel takes float32 weights.
const auto gated = for_each_of<std::int64_t>({1, 33, 130}, [](std::int64_t hidden) {
  return declared(
      [=](operands& at, const batch& b) {
        const std::int64_t depth = hidden + 4;
        return op::gated_linear{
            at.normal(b, few_rows(b), {depth}, 1, 3),
            at.pack(at.shared({2 * hidden, depth}, 2, 0.2F), weight_format::f32),
            at.out_rows<float>(few_rows(b), {2 * hidden}, 2),
            at.out_rows<float>(few_rows(b), {hidden}, 5)};
      },
      2e-5);
});

// Candidates in some order, some of them twice, and sequences without one.
candidate_set asked(operands& at, const batch& b, counts& n) {
  indices position, row;
  std::int32_t rows_before = 0;
  n.clear();
  for (const int s : b) {
    const int rows = static_cast<int>(few(s));
    n.push_back(rows == 0 ? 0 : rows / 2 + 1);
    for (std::int32_t c = 0; c < n.back(); ++c) {
      position.push_back(4 * c + s);
      row.push_back(rows_before + (rows - 1 - c * 2 % rows) % rows);
    }
    rows_before += rows;
  }
  return {static_cast<std::int32_t>(b.size()), static_cast<std::int32_t>(total(n)),
          at.in(begins_of(n)), at.in(position), at.in(row)};
}
confidence_out told(operands& at, const counts& n, bool gap, bool residual = false) {
  return {at.out<std::int32_t>(n),
          at.out<float>(n),
          at.out<float>(n),
          at.out<float>(n),
          gap ? at.out<float>(n) : nullptr,
          residual ? at.out<float>(n) : nullptr};
}

const auto heads =
    for_each_of<std::int64_t>({1, 2, 100, 1003, 9001, 40011}, [](std::int64_t vocabulary) {
      return declared(
          [=](operands& at, const batch& b) {
            const std::int64_t width = vocabulary > 5000 ? 3 : 17;
            confidence_params params;
            params.temperature = vocabulary == 100 ? 0.7F : 1.0F;
            params.gumbel_temperature = vocabulary == 1003 ? 0.8F : 0.0F;
            params.noise = noise(at, b);
            if (vocabulary > 2) {
              params.banned = at.in(indices{static_cast<std::int32_t>(vocabulary / 2), 5});
              params.banned_count = 2;
            }
            counts n;
            const candidate_set candidates = asked(at, b, n);
            return op::confidence{
                at.normal(b, few_rows(b), {width}, 1, 2),
                at.pack(at.shared({vocabulary, width}, 2, 0.7F), weight_format::f32), candidates,
                params, told(at, n, vocabulary > 1, true)};
          },
          1e-5);
    });
const declared chosen_logits(
    [](operands& at, const batch& b) {
      counts n;
      const candidate_set candidates = asked(at, b, n);
      return op::logits{at.normal(b, few_rows(b), {20}, 1),
                        at.pack(at.shared({70, 20}, 2), weight_format::f32), candidates.row,
                        at.out_rows<float>(n, {70}, 4)};
    },
    1e-5);

struct filter {
  std::int64_t vocabulary;
  float temperature, top_p;
  std::int32_t top_k;
  bool original = false;
};
const std::vector<filter> filters{{1, 0.8F, 1.0F, 0},         {2, 0.0F, 1.0F, 0},
                                  {9, 0.6F, 1.0F, 7},         {70, 1.0F, 0.9F, 0},
                                  {300, 1.3F, 0.5F, 3},       {300, 0.0F, 0.7F, 0},
                                  {1500, 1.0F, 0.95F, 100},   {1500, 0.2F, 0.3F, 50},
                                  {300, 0.5F, 0.9F, 0, true}, {1500, 1.4F, 1.0F, 40, true}};
const auto samples = for_each_of(filters, [](const filter& f) {
  return declared(
      [=](operands& at, const batch& b) {
        counts n;
        const candidate_set candidates = asked(at, b, n);
        std::size_t i = 0;
        const auto values = joined<float>(b, [&](int s) {
          std::mt19937 rng = rng_of(s, 1);
          auto v = random_vector(rng, n[i++] * f.vocabulary, 2);
          if (s == 4) {
            for (std::size_t t = 0; t < v.size(); t += 3) v[t] = 1.5F;  // ties
          }
          if (s == 5) std::fill(v.begin(), v.end(), 0.0F);
          return v;
        });
        return op::sample{candidates,
                          at.in(values, {f.vocabulary}, 2),
                          {f.temperature, f.top_p, f.top_k, noise(at, b), f.original},
                          told(at, n, f.vocabulary > 1)};
      },
      5e-6);
});

// ---- experts ----

const auto routers = for_each_of<std::int64_t>({5, 48, 131}, [](std::int64_t width) {
  return declared(
      [=](operands& at, const batch& b) {
        const bool sigmoid = width != 48;
        moe_router& router = at.keep(moe_router{});
        router.experts = 40;
        router.experts_per_token = 5;
        router.groups = sigmoid ? 4 : 1;
        router.groups_kept = sigmoid ? 2 : 1;
        router.sigmoid = sigmoid;
        router.normalize = width != 48;
        router.scaling = 1.7F;
        router.weight = at.shared({40, width}, 2, 0.3F);
        if (sigmoid) router.bias = at.shared({40}, 3, 0.1F);
        router.shared = width == 131 ? 1 : 0;
        const std::int64_t each = 5 + router.shared;
        const auto x = joined<float>(b, [&](int s) {
          std::mt19937 rng = rng_of(s, 1);
          return random_vector(rng, few(s) * width, s == 4 ? 0.0F : 1.0F);  // equal scores
        });
        const auto whose = joined<std::int32_t>(b, [](int s) {
          indices all(static_cast<std::size_t>(few(s)), 0);
          if (s == 7) all[3] = -1;  // a padding row
          return all;
        });
        router.sequence = at.in(whose);
        return op::moe_route{at.in(x, {width}, 3), router,
                             at.out_rows<std::int32_t>(few_rows(b), {each}),
                             at.out_rows<float>(few_rows(b), {each})};
      },
      2e-6);
});

// Of eleven experts a rank has some, all or none; row 2 chose none, as padding rows do.
struct held_range {
  std::int32_t first, last;
};
const auto held =
    for_each_of(std::vector<held_range>{{0, 4}, {3, 8}, {0, 11}, {5, 5}}, [](const held_range& of) {
      return declared([=](operands& at, const batch& b) {
        const shape k = {3};
        const auto chosen = joined<std::int32_t>(b, [](int s) {
          std::mt19937 rng = rng_of(s, 1);
          indices all;
          for (std::int64_t i = 0; i < 3 * few(s); ++i) {
            all.push_back(i / 3 == 2 ? -1 : draw(rng, 0, 10));
          }
          return all;
        });
        return op::moe_held{at.in(chosen, k, 2), of.first, of.last,
                            at.out_rows<std::int32_t>(few_rows(b), k, 1)};
      });
    });

const declared experts(
    [](operands& at, const batch& b) {
      constexpr std::int64_t width = 37, hidden = 29, k = 3;
      moe_experts& all = at.keep(moe_experts{});
      all.hidden = hidden;
      for (int e = 0; e < 7; ++e) {
        const auto pack = [&](const shape& s, int array) {
          return at.backend().pack(at.shared(s, array, 0.2F), weight_format::f32);
        };
        all.gate_up.push_back(pack({2 * hidden, width}, 10 + e));
        all.down.push_back(pack({width, hidden}, 20 + e));
      }
      // Expert 5 is never used, expert 0 gets more than a tile; some rows name one expert twice,
      // and a padding row none.
      const counts rows = each<std::int64_t>(b, [](int s) { return s == 12 ? 40 : few(s); });
      indices expert;
      std::vector<float> weight, before;
      for (std::size_t i = 0; i < b.size(); ++i) {
        std::mt19937 rng = rng_of(b[i], 3);
        const auto y = random_vector(rng, rows[i] * width);
        before.insert(before.end(), y.begin(), y.end());
        for (int r = 0; r < rows[i]; ++r) {
          for (int j = 0; j < k; ++j) {
            const int e = r == 0 && j < 2 ? 6 : (j == 0 || r % 4 != 0 ? j % 2 * 3 : (r + j) % 5);
            expert.push_back(b[i] == 7 && r == 3 ? -1 : e);
            weight.push_back(0.3F + 0.1F * static_cast<float>(j));
          }
        }
      }
      return op::moe_feed_forward{at.normal(b, rows, {width}, 1, 2), at.in(expert, {k}),
                                  at.in(weight, {k}), all,
                                  at.out_rows<float>(rows, {width}, 4, before)};
    },
    5e-6);

}  // namespace
}  // namespace unmask::test
