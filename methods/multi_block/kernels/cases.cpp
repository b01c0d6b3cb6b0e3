// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand:
// decisions in several blocks.
#include "methods/multi_block/kernels/accept_blocks.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto in_blocks = for_each_of<float>({0.5F, 2}, [](float threshold) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_in_blocks{
        s.candidates,
        s.score,
        at.in(joined<float>(b, [](int q) { return tied(q, length_of(q), 8, false); })),
        threshold,
        7,
        of_each(at, b, [](int) { return 0; }),
        at.in(random_numbers<std::uint8_t>(b, same(b, 320), 9, 0, 1), {320}),
        at.out<std::uint8_t>(s.n)};
  });
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

// Blocks of 4 from position 2 on, the first with a passing token, the second forced, the third not.
TEST(views, blocks_of_one_forward_by_hand) {
  candidates_fixture c;
  c.add({2, 4, 6, 7, 9, 10, 11});
  const std::vector<float> p{0.9F, 0.2F, 0.1F, 0.4F, 0.4F, 0.3F, 0.8F};
  const indices origin{2};
  bytes forced{1, 1, 0};
  for (const backend* backend : backends) {
    const auto with_threshold = [&](float threshold) {
      bytes accept(7, 9);
      backend->run(op::accept_in_blocks{.candidates = c.set(),
                                        .probability = p.data(),
                                        .score = p.data(),
                                        .threshold = threshold,
                                        .block = 4,
                                        .origin = origin.data(),
                                        .forced = make_view(forced.data(), dtype::u8, {1, 3}),
                                        .accept = accept.data()});
      return accept;
    };
    EXPECT_EQ(with_threshold(0.5F), (bytes{1, 0, 0, 1, 0, 0, 1}));
    EXPECT_EQ(with_threshold(0.8F), (bytes{1, 0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(with_threshold(0.95F), (bytes{1, 0, 0, 1, 0, 0, 0}));
  }
}

}  // namespace
}  // namespace unmask::test
