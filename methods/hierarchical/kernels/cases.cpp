// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand of the best of runs.
#include "methods/hierarchical/kernels/runs.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto best_of_runs = for_each_of<float>({-infinity, 0.5F}, [](float above) {
  return declared([=](operands& at, const batch& b) {
    const scene s(at, b);
    return op::accept_run_best{s.candidates, s.score, above, at.out<std::uint8_t>(s.n)};
  });
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

// Runs 2-4, 6 and 8-9; the second sequence is one run with two equal ones.
TEST(histories, best_of_runs_by_hand) {
  const auto c = candidates_at({{2, 3, 4, 6, 8, 9}, {0, 1, 2}});
  const std::vector<float> score{0.1F, 0.5F, 0.4F, 0.2F, 0.9F, nan, 0.7F, 0.3F, 0.7F};
  for (const backend* backend : backends) {
    bytes a(9, 9);
    backend->run(op::accept_run_best{c.set(), score.data(), 0, a.data()});
    EXPECT_EQ(a, (bytes{0, 1, 0, 1, 1, 0, 1, 0, 1}));
    backend->run(op::accept_run_best{c.set(), score.data(), 0.5F, a.data()});
    EXPECT_EQ(a, (bytes{0, 0, 0, 0, 1, 0, 1, 0, 1}));
  }
}

}  // namespace
}  // namespace unmask::test
