// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand of evicted keys.
#include <numeric>

#include "methods/sparse_dllm/kernels/eviction.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

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
const declared copied_slots([](operands& at, const batch& b) {
  const counts n = each<std::int64_t>(b, [](int s) { return s * 10; });
  return op::kv_copy{static_cast<std::int32_t>(b.size()), at.in(begins_of(n)),
                     at.in(random_numbers<std::int32_t>(b, n, 1, 0, 3 * kv_page_size - 1)),
                     at.cache(b, 3, 2, 12, 30), at.cache(b, 2, 2, 12, 40, dtype::f32, true)};
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

TEST(selection, pool_by_hand) {
  const indices begin{0, 4, 5};
  const std::vector<float> in{1, 5, 2, 0, 7};
  for (const backend* backend : backends) {
    std::vector<float> out(5, nan);
    backend->run(op::pool{2, begin.data(), in.data(), 3, true, out.data()});
    EXPECT_EQ(out, (std::vector<float>{5, 5, 5, 2, 7}));
    backend->run(op::pool{2, begin.data(), in.data(), 3, false, out.data()});
    expect_close(out, {3, 8.0F / 3, 7.0F / 3, 1, 7}, 1e-6);
    backend->run(op::pool{2, begin.data(), in.data(), 1, true, out.data()});
    EXPECT_EQ(out, in);
    backend->run(op::pool{2, begin.data(), in.data(), 9, true, out.data()});
    EXPECT_EQ(out, (std::vector<float>{5, 5, 5, 5, 7}));
    EXPECT_THROW(backend->run(op::pool{2, begin.data(), in.data(), 2, true, out.data()}),
                 std::logic_error);
  }
}

}  // namespace
}  // namespace unmask::test
