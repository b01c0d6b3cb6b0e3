// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operation. Under methods/ they are a `declared` object, which stands for this test.
#include "tests/kernels/operation_test.h"
#include "tests/minimal_method/kernels/minimal_operation.h"

namespace unmask {
namespace {

TEST(minimal, accepts_the_leftmost) {
  test::check_operation([](test::operands& at, const std::vector<int>& sequences) {
    std::vector<std::int64_t> counts;
    std::vector<std::int32_t> begin{0}, quota;
    for (const int s : sequences) {
      counts.push_back(s * 17 % 70);  // also none, and more than a warp has lanes
      begin.push_back(begin.back() + static_cast<std::int32_t>(counts.back()));
      quota.push_back(s % 5 * 9);
    }
    candidate_set candidates;
    candidates.sequences = static_cast<std::int32_t>(sequences.size());
    candidates.count = begin.back();
    candidates.begin = at.in(begin);
    return op::accept_leftmost{candidates, at.in(quota), at.out<std::uint8_t>(counts)};
  });
}

}  // namespace
}  // namespace unmask
