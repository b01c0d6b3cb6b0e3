// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand of surprise.
#include "methods/pc_sampler/kernels/surprise.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const declared surprising([](operands& at, const batch& b) {
  const scene s(at, b);
  std::size_t k = 0;
  const auto confidence = joined<float>(b, [&](int q) { return tied(q, s.n[k++], 3); });
  return op::surprise_scores{.candidates = s.candidates,
                             .first = of_each(at, b, [](int q) { return q * 3; }),
                             .weight = at.shared({30}, 4).as<float>(),
                             .places = 30,
                             .surprise = at.shared({10}, 5).as<float>(),
                             .token = at.in(random_numbers<std::int32_t>(b, s.n, 1, 0, 9)),
                             .probability = at.in(confidence),
                             .limit = 0.5F,
                             .score = at.out<float>(s.n)};
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

TEST(histories, surprise_by_hand) {
  const auto c = candidates_at({{4, 6}});
  const indices first{4}, token{1, 0};
  const std::vector<float> weight{1, 0.5F, 0.25F}, surprise{2, 8}, probability{0.5F, 0.75F};
  for (const backend* backend : backends) {
    std::vector<float> score(2);
    backend->run(op::surprise_scores{c.set(), first.data(), weight.data(), 3, surprise.data(),
                                     token.data(), probability.data(), 3, score.data()});
    EXPECT_EQ(score, (std::vector<float>{3, 0.375F}));
  }
}

}  // namespace
}  // namespace unmask::test
