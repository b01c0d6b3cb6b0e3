// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operations on flags and scores by hand.
#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using indices = std::vector<std::int32_t>;
using flags = std::vector<std::uint8_t>;
const std::vector<const backend*> backends = unmask::test::host_backends();

TEST(blocks, fill_and_scatter_touch_only_what_they_name) {
  for (const backend* backend : backends) {
    SCOPED_TRACE(backend->name());
    // A row in front of the two of the view, where a padding row would write.
    flags f(15, 7);
    const tensor_view view = make_view(f.data() + 5, dtype::u8, {2, 5});
    const auto expect = [&](const flags& want) {
      backend->synchronize();
      EXPECT_EQ(f, want);
    };
    const indices first{1, 3}, last{3, 3};
    backend->run(op::fill_flags{2, first.data(), last.data(), 0, view});
    expect({7, 7, 7, 7, 7, 7, 0, 0, 7, 7, 7, 7, 7, 7, 7});
    const indices begin{0, 1, 3}, sequence{0, 1, 1, -1}, position{4, 0, 2, 3};
    const row_set rows{2, 4, begin.data(), sequence.data(), position.data(), nullptr};
    const flags where{3, 0, 1, 1};
    backend->run(op::scatter_flags{rows, where.data(), 5, view});
    expect({7, 7, 7, 7, 7, 7, 0, 0, 7, 5, 7, 7, 5, 7, 7});
    backend->run(op::scatter_flags{rows, nullptr, 1, view});
    expect({7, 7, 7, 7, 7, 7, 0, 0, 7, 1, 1, 7, 1, 7, 7});
  }
}

TEST(blocks, scores) {
  for (const backend* backend : backends) {
    const std::vector<float> a{1, 2, -3}, b{0.5F, 4, 1};
    std::vector<float> out(3);
    backend->run(op::combine_scores{3, a.data(), 1, b.data(), -1, out.data()});
    EXPECT_EQ(out, (std::vector<float>{0.5F, -2, -4}));
    backend->run(op::combine_scores{3, a.data(), -1, nullptr, 0, out.data()});
    EXPECT_EQ(out, (std::vector<float>{-1, -2, 3}));
    std::vector<float> x{0.9F, 0.8F, 0.7F};  // the thresholds of a bfloat16 model
    backend->run(op::round_bf16{3, x.data()});
    EXPECT_EQ(x, (std::vector<float>{0.8984375F, 0.80078125F, 0.69921875F}));
  }
}

}  // namespace
}  // namespace unmask
