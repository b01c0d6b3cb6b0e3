// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the roll-out of attention (operation_test.h says what follows from them).
#include <cmath>

#include "methods/d2cache/kernels/rollout.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

// Of rows of which not every element is a result.
std::vector<float> zeros(const counts& rows, std::int64_t width) {
  return std::vector<float>(static_cast<std::size_t>(total(rows) * width), 0.0F);
}
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

}  // namespace
}  // namespace unmask::test
