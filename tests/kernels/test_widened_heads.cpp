// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Heads of a picture's tower, of 72 or 80 elements, may be widened to 128 by zeros: no score changes.
#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "tests/kernels/support.h"

namespace unmask::test {
namespace {

constexpr std::int64_t heads = 2, room = 128;

// The first `dim` elements of each head; zeros take the place of the others.
void cut(const grid& wide, const grid& narrow, std::int64_t dim) {
  for (std::int64_t r = 0; r < wide.rows(); ++r) {
    for (std::int64_t h = 0; h < wide.columns() / room; ++h) {
      float* head = wide.row(r) + h * room;
      std::copy_n(head, dim, narrow.row(r) + h * dim);
      std::fill(head + dim, head + room, 0.0F);
    }
  }
}

TEST(attention, zeros_behind_a_head_change_no_result) {
  for (const std::int64_t dim : {72, 80}) {
    std::mt19937 rng(90);
    constexpr std::int32_t pages_each = 3;
    const rows_fixture listed(rng, {5, 33}, pages_each * kv_page_size);
    const cache_fixture cache(rng, 2, pages_each, heads, room);
    const std::int64_t rows = listed.set.rows, pages = cache.keys.rows();
    grid wide_q({rows, heads, room}, 4);
    wide_q.randomize(rng, 2.0F);
    const grid q({rows, heads, dim}), keys({pages, kv_page_size, heads, dim}),
        values({pages, kv_page_size, heads, dim});
    cut(wide_q, q, dim);
    cut(cache.keys, keys, dim);
    cut(cache.values, values, dim);
    const paged_kv narrow{keys, values, cache.table.data(), cache.kv.table_stride};
    const std::int32_t length[2] = {150, 192};
    key_set seen;
    seen.kv_length = length;
    const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
    const auto check = [&](const backend& backend) {
      const grid exact({rows, heads, dim}), wide({rows, heads, room}), first({rows, heads, dim});
      backend.run(op::attention{listed.set, q, narrow, seen, scale, exact, {}});
      backend.run(op::attention{listed.set, wide_q, cache.kv, seen, scale, wide, {}});
      cut(wide, first, dim);
      expect_close(first, exact, 2e-6, backend.name());
    };
    check(reference_backend());
    for_each_isa(check);
  }
}

}  // namespace
}  // namespace unmask::test
