// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations of a transformer's layers, its head and its experts (operation_test.h
// says what follows from them). Widths divide no vector, no tile and no group.
#include "harness/decode/kernels/features.h"
#include "kernels/attention.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "tests/kernels/operation_test.h"

namespace unmask::test {
namespace {

// Rows of a layer: none, one, and up to seventeen.
std::int64_t few(int s) {
  return s == 12 ? 17 : s % 8;
}
counts few_rows(const batch& b) {
  return each<std::int64_t>(b, few);
}

const auto norms = for_each_of<std::int64_t>({1, 3, 33, 128, 515}, [](std::int64_t width) {
  return declared(
      [=](operands& at, const batch& b) {
        return op::rms_norm{at.normal(b, few_rows(b), {width}, 1, 7, 2), at.shared({width}, 2),
                            1e-5F, at.out_rows<float>(few_rows(b), {width}, 5)};
      },
      2e-6);
});
const declared norm_in_place(
    [](operands& at, const batch& b) {
      const auto x = joined<float>(b, [](int s) {
        std::mt19937 rng = rng_of(s, 1);
        return random_vector(rng, few(s) * 100);
      });
      const tensor_view both = at.out_rows<float>(few_rows(b), {100}, 3, x);
      return op::rms_norm{both, at.shared({100}, 2), 1e-5F, both};
    },
    2e-6);

// Gates far from 0, where exp overflows, too.
const auto gates = for_each_of<std::int64_t>({1, 16, 33, 192}, [](std::int64_t width) {
  return declared(
      [=](operands& at, const batch& b) {
        const auto x = joined<float>(b, [&](int s) {
          std::mt19937 rng = rng_of(s, 1);
          auto v = random_vector(rng, few(s) * 2 * width, 4);
          if (v.size() > 1) v.front() = s % 2 == 0 ? 200.0F : -200.0F;
          return v;
        });
        return op::silu_mul{at.in(x, {2 * width}, 1), at.out_rows<float>(few_rows(b), {width}, 2)};
      },
      1e-6);
});

const declared embedding([](operands& at, const batch& b) {
  const auto token = joined<std::int32_t>(b, [](int s) {
    indices t;
    for (std::int64_t r = 0; r < few(s); ++r) t.push_back((s * 3 + static_cast<int>(r) * 5) % 7);
    return t;
  });
  return op::embed{at.in(token), at.shared({7, 19}, 1), at.out_rows<float>(few_rows(b), {19}, 3)};
});

struct head_shape {
  std::int64_t dim;
  std::int32_t rotary;
  bool norm;
};
const std::vector<head_shape> head_shapes{
    {48, 48, false}, {64, 32, true}, {24, 24, true}, {10, 6, false}, {128, 128, false}};

indices far_positions(const batch& b) {
  return joined<std::int32_t>(b, [](int s) {
    const indices at{0, 1, 77, 1023, 1024, 30001};
    indices p;
    for (std::int64_t r = 0; r < few(s); ++r) p.push_back(at[static_cast<std::size_t>(r + s) % 6]);
    return p;
  });
}
const auto ropes = for_each_of(head_shapes, [](const head_shape& h) {
  return declared(
      [=](operands& at, const batch& b) {
        const auto x = joined<float>(b, [&](int s) {
          std::mt19937 rng = rng_of(s, 1);
          return random_vector(rng, few(s) * 3 * h.dim);
        });
        return op::head_norm_rope{at.out_rows<float>(few_rows(b), {3, h.dim}, 11, x),
                                  h.norm ? at.shared({h.dim}, 2) : tensor_view{},
                                  1e-6F,
                                  {h.rotary, 500000.0F},
                                  at.in(far_positions(b))};
      },
      3e-6);
});

const auto stores = for_each_of<dtype>({dtype::f32, dtype::bf16}, [](dtype type) {
  return declared([=](operands& at, const batch& b) {
    const ragged r(at, b, few, 150, type == dtype::f32, 2);
    const bool stored = at.backend().holds_kv(dtype::bf16) || type == dtype::f32;
    const auto values = [&](int array) {
      std::size_t i = 0;
      auto v = joined<float>(b, [&](int s) {
        std::mt19937 rng = rng_of(s, array);
        return random_vector(rng, r.rows[i++] * 24);
      });
      for (float& x : v) x = stored ? x : from_bf16(to_bf16(x));
      v.resize(v.size() + 2 * 24, nan);  // padding rows
      return at.in(v, {2, 12}, array);
    };
    return op::kv_write{r.set, values(5), values(9), at.cache(b, 3, 2, 12, 30, type, true)};
  });
});
const declared stores_keys_only([](operands& at, const batch& b) {
  const ragged r(at, b, few, 128);
  return op::kv_write{
      r.set, at.normal(b, r.rows, {2, 5}, 1), {}, at.cache(b, 2, 2, 5, 30, dtype::f32, true)};
});
const auto reads = for_each_of<bool>({false, true}, [](bool accumulate) {
  return declared([=](operands& at, const batch& b) {
    const ragged r(at, b, few, 150, accumulate);
    const auto before = [&](int array) {
      std::size_t i = 0;
      return joined<float>(b, [&](int s) {
        std::mt19937 rng = rng_of(s, array);
        return random_vector(rng, r.rows[i++] * 24);
      });
    };
    return op::kv_read{r.set, at.cache(b, 3, 2, 12, 30),
                       at.out_rows<float>(r.rows, {2, 12}, 3, before(1)),
                       at.out_rows<float>(r.rows, {2, 12}, 1, before(2)), accumulate};
  });
});

const auto rotations = for_each_of(head_shapes, [](const head_shape& h) {
  return declared(
      [=](operands& at, const batch& b) {
        constexpr std::int64_t heads = 4, kv_heads = 2;
        const ragged r(at, b, few, 150, h.norm, 2);
        // Queries, keys and values side by side, as one product leaves them.
        const auto part = [&](std::int64_t n, int array) {
          std::size_t i = 0;
          auto v = joined<float>(b, [&](int s) {
            std::mt19937 rng = rng_of(s, array);
            return random_vector(rng, r.rows[i++] * n * h.dim);
          });
          v.resize(v.size() + static_cast<std::size_t>(2 * n * h.dim), 1);  // padding rows
          return v;
        };
        const tensor_view q = at.out_rows(r.rows, {heads, h.dim}, 3, part(heads, 1), 2);
        const tensor_view k = at.out_rows(r.rows, {kv_heads, h.dim}, 5, part(kv_heads, 2), 2);
        const tensor_view v = at.in(part(kv_heads, 3), {kv_heads, h.dim}, 7);
        const auto norm = [&](int array) {
          return h.norm ? at.shared({h.dim}, array) : tensor_view{};
        };
        return op::rotate_and_store{r.set,
                                    q,
                                    k,
                                    v,
                                    norm(4),
                                    norm(5),
                                    1e-6F,
                                    {h.rotary, 10000.0F},
                                    at.cache(b, 3, kv_heads, h.dim, 30, dtype::f32, true)};
      },
      3e-6);
});

// ---- attention ----

struct seen {
  std::int64_t heads, kv_heads, dim;
  mask_kind mask;
  bool listed;
  std::int32_t tiles = 0;  // positions of a tile; 0: no tiles
  int pages = 2;
  bool mass = true;
  dtype type = dtype::f32;
  float scale = 1;
};
const std::vector<seen> attended{{2, 2, 8, mask_kind::full, false},
                                 {3, 3, 24, mask_kind::causal, true},
                                 {6, 2, 32, mask_kind::block_causal, false},
                                 {1, 1, 13, mask_kind::causal, false},
                                 {4, 1, 64, mask_kind::full, true, 0, 2, false},
                                 {8, 1, 128, mask_kind::block_causal, true, 0, 2, false},
                                 {2, 1, 160, mask_kind::full, false, 0, 2, false},
                                 {4, 2, 16, mask_kind::full, false, 24, 2, false},
                                 {3, 3, 20, mask_kind::full, false, 5, 1, false},
                                 {6, 2, 20, mask_kind::full, false, 100, 2, false},
                                 {4, 2, 16, mask_kind::full, true, 0, 18, false},
                                 // Scores far apart, and rows on tensor cores.
                                 {1, 1, 16, mask_kind::full, false, 0, 4, false, dtype::f32, 24},
                                 {4, 1, 64, mask_kind::causal, false, 0, 3, false, dtype::bf16},
                                 {4, 2, 128, mask_kind::full, true, 0, 9, false, dtype::bf16}};

const auto attention = for_each_of(attended, [](const seen& a) {
  return declared(
      [=](operands& at, const batch& b) {
        const std::int32_t capacity = a.pages * kv_page_size;
        const auto rows = [&](int s) { return a.pages > 2 && s == 12 ? 90 : few(s); };
        const ragged r(at, b, rows, capacity);
        key_set keys;
        const auto length = each<std::int64_t>(
            b, [&](int s) { return a.pages > 2 && s % 2 == 1 ? s : capacity - s * 7 % 60; });
        keys.kv_length = at.in(indices(length.begin(), length.end()));
        keys.mask = a.mask;
        keys.block = 7;
        counts seen_by = length;
        if (a.listed) {
          seen_by.clear();
          const auto slots = joined<std::int32_t>(b, [&](int s) {
            indices all(static_cast<std::size_t>(capacity));
            for (std::int32_t p = 0; p < capacity; ++p) all[static_cast<std::size_t>(p)] = p;
            std::mt19937 rng = rng_of(s, 40);
            std::shuffle(all.begin(), all.end(), rng);
            all.resize(static_cast<std::size_t>(s == 1 ? 0 : draw(rng, 1, capacity)));
            seen_by.push_back(static_cast<std::int64_t>(all.size()));
            return all;
          });
          keys.key_begin = at.in(begins_of(seen_by));
          keys.key_slot = at.in(slots);
        }
        if (a.tiles > 0) {
          const std::int32_t blocks = (capacity + a.tiles - 1) / a.tiles + 1;
          const auto keep = joined<std::uint8_t>(b, [&](int s) {
            std::mt19937 rng = rng_of(s, 41);
            bytes k(static_cast<std::size_t>(a.heads * blocks * blocks));
            for (std::uint8_t& x : k) x = rng() % 3 == 0;
            return k;
          });
          const auto applies = each<std::uint8_t>(b, [](int s) { return s % 4 != 1; });
          keys.tiles = {at.in(keep), at.in(applies), blocks, a.tiles};
        }
        const auto ones = std::vector<float>(static_cast<std::size_t>(total(seen_by)), 1.0F);
        const tensor_view mass =
            a.mass ? make_view(at.inout(seen_by, ones), dtype::f32, {total(seen_by)})
                   : tensor_view{};
        return op::attention{r.set,
                             at.normal(b, r.rows, {a.heads, a.dim}, 1, 3, 2),
                             at.cache(b, a.pages, a.kv_heads, a.dim, 30, a.type),
                             keys,
                             a.scale / std::sqrt(static_cast<float>(a.dim)),
                             at.out_rows<float>(r.rows, {a.heads, a.dim}, 1),
                             mass};
      },
      a.type == dtype::bf16 ? 2e-2
      : a.scale > 1         ? 1e-4
                            : 1e-5);
});

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
        const auto before = [&] {
          std::size_t i = 0;
          return joined<float>(b, [&](int s) {
            std::mt19937 rng = rng_of(s, 3);
            return random_vector(rng, rows[i++] * p.features);
          });
        };
        return op::linear{at.normal(b, rows, {p.depth}, 1, 3),
                          at.pack(at.shared({p.features, p.depth}, 2), p.format),
                          at.shared({p.features}, 4),
                          at.out_rows<float>(rows, {p.features}, 2, before()), p.accumulate};
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
noise_source noise(operands& at, const batch& b) {
  return {at.in(each<std::uint64_t>(b, [](int s) { return s * 77 + 1; })),
          at.in(each<std::int32_t>(b, [](int s) { return s; }))};
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
};
const std::vector<filter> filters{
    {1, 0.8F, 1.0F, 0},   {2, 0.0F, 1.0F, 0},   {9, 0.6F, 1.0F, 7},       {70, 1.0F, 0.9F, 0},
    {300, 1.3F, 0.5F, 3}, {300, 0.0F, 0.7F, 0}, {1500, 1.0F, 0.95F, 100}, {1500, 0.2F, 0.3F, 50}};
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
                          {f.temperature, f.top_p, f.top_k, noise(at, b)},
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
                             at.out_rows<std::int32_t>(few_rows(b), {5}),
                             at.out_rows<float>(few_rows(b), {5})};
      },
      2e-6);
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
