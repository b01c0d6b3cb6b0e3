// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations on scores and cached keys (operation_test.h says what follows from them).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/decode/kernels/features.h"
#include "kernels/selection.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/d2cache/kernels/rollout.h"
#include "methods/parts/kernels/block_means.h"
#include "methods/sparse_dllm/kernels/eviction.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {
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

// Half of the candidates of each sequence, then slots from some place on.
const declared kept_slots([](operands& at, const batch& b) {
  const counts n = lengths(b);
  counts top, all;
  for (const std::int64_t x : n) {
    top.push_back(x / 2);
    all.push_back(x / 2 + x % 5);
  }
  std::size_t i = 0;
  const auto best = joined<std::int32_t>(b, [&](int s) {
    indices order(static_cast<std::size_t>(n[i]));
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 rng = rng_of(s, 2);
    std::shuffle(order.begin(), order.end(), rng);
    order.resize(static_cast<std::size_t>(top[i++]));
    return order;
  });
  return op::list_kept{static_cast<std::int32_t>(b.size()),
                       at.in(begins_of(n)),
                       at.in(random_numbers<std::int32_t>(b, n, 1, 0, 5000)),
                       at.in(begins_of(top)),
                       at.in(best),
                       of_each(at, b, [](int s) { return s * 7; }),
                       at.in(begins_of(all)),
                       at.out<std::int32_t>(all)};
});
// Blocks and sinks before the position from which on everything is seen.
const auto contexts = for_each_of<bool>({false, true}, [](bool sinks) {
  return declared([=](operands& at, const batch& b) {
    constexpr int block = 32;
    const auto seen_from = [](int s) { return s * 17 + 5; };
    const counts blocks = each<std::int64_t>(b, [&](int s) { return seen_from(s) / block / 2; });
    const auto chosen = joined<std::int32_t>(b, [&](int s) {
      indices all;
      for (int k = 0; k < seen_from(s) / block / 2; ++k) all.push_back(2 * k + s % 2);
      return all;
    });
    counts segments;  // every second one is left out
    for (const int s : b) segments.insert(segments.end(), {s % 5, 0});
    const auto sink = joined<std::int32_t>(b, [&](int s) {
      indices all;
      for (int k = 0; k < s % 5; ++k) all.push_back(k);
      return all;
    });
    return op::mark_context{static_cast<std::int32_t>(b.size()),
                            of_each(at, b, [](int s) { return 230 + s * 13; }),
                            of_each(at, b, seen_from),
                            block,
                            at.in(begins_of(blocks)),
                            at.in(chosen),
                            sinks ? at.in(begins_of(segments)) : nullptr,
                            sinks ? at.in(sink) : nullptr,
                            at.out_rows<std::uint8_t>(same(b, 1), {400})};
  });
});

// ---- cached keys ----

// Of rows of which not every element is a result.
std::vector<float> zeros(const counts& rows, std::int64_t width) {
  return std::vector<float>(static_cast<std::size_t>(total(rows) * width), 0.0F);
}
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
// Sequences without keys have no rows.
const auto mean_attentions = for_each_of(caches, [](const cached_keys& c) {
  return declared(
      [=](operands& at, const batch& b) {
        const auto length = [&](int s) { return s == 12 ? 150 : s == 0 ? 0 : s * 17 % 130; };
        const ragged r(
            at, b, [](int s) { return s == 0 ? 0 : few(s); }, 150, false, 2);
        return op::mean_attention{r.set,
                                  at.normal(b, r.rows, {2 * c.group, c.dim}, 1, 4),
                                  at.cache(b, c.pages, 2, c.dim, 30, c.type),
                                  of_each(at, b, length),
                                  1 / std::sqrt(static_cast<float>(c.dim)),
                                  at.out_rows<float>(r.rows, {160}, 1, zeros(r.rows, 160))};
      },
      2e-5);
});
const auto roll_outs = for_each_of<bool>({false, true}, [](bool first) {
  return declared(
      [=](operands& at, const batch& b) {
        const ragged r(at, b, few, 150);
        const counts one = same(b, 1);
        return op::roll_out{r.set, of_each(at, b, [](int s) { return s == 0 ? 0 : 150 - s; }),
                            at.normal(b, r.rows, {150}, 2, 3),
                            first ? tensor_view{} : at.normal(b, one, {150}, 4, 1),
                            at.out_rows<float>(one, {150}, 2, zeros(one, 150))};
      },
      1e-5);
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
