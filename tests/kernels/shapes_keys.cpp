// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations on scores and cached keys (operation_test.h says what follows from them).
#include <algorithm>
#include <cmath>

#include "harness/decode/kernels/features.h"
#include "kernels/selection.h"
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

// ---- cached keys ----

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

}  // namespace
}  // namespace unmask::test
