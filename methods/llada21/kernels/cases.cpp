// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands (operation_test.h says what follows from them) and cases by hand of edits.
#include "methods/llada21/kernels/edits.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const declared masks_scored([](operands& at, const batch& b) {
  const scene s(at, b);
  return op::score_masks{s.candidates,
                         at.out_rows(same(b, 1), {2200}, 0, bytes(b.size() * 2200, 1)), s.score,
                         at.out<float>(s.n)};
});
const declared edits_accepted([](operands& at, const batch& b) {
  const scene s(at, b);
  const counts one = same(b, 1);
  return op::accept_edits{s.candidates,
                          at.out_rows(one, {2200}, 0, indices(b.size() * 2200, 5)),
                          at.out_rows(one, {2200}, 0, bytes(b.size() * 2200, 1)),
                          at.in(random_numbers<std::int32_t>(b, s.n, 1, 0, 9)),
                          s.score,
                          0.4F,
                          at.inout(s.n, random_numbers<std::uint8_t>(b, s.n, 2, 0, 1))};
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

// By hand: threshold 0.5; positions 0 and 1 are masks, 2 to 4 decided as 2, 3, 4.
TEST(decisions, edits_replace_decided_tokens_by_surer_others) {
  candidates_fixture c;
  c.add({0, 1, 2, 3, 4});
  std::vector<std::int32_t> canvas{99, 99, 2, 3, 4};
  std::vector<std::uint8_t> state{0, 0, 1, 1, 1};
  const std::vector<std::int32_t> token{7, 7, 7, 3, 7};
  const std::vector<float> probability{0.9F, 0.1F, 0.6F, 0.9F, 0.5F};
  const auto canvas_view = make_view(canvas.data(), dtype::i32, {1, 5});
  const auto state_view = make_view(state.data(), dtype::u8, {1, 5});
  for (const backend* backend : backends) {
    std::vector<float> score(5, nan);
    backend->run(op::score_masks{c.set(), state_view, probability.data(), score.data()});
    const float none = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(score, (std::vector<float>{0.9F, 0.1F, none, none, none}));
    bytes a{1, 0, 1, 1, 1};
    backend->run(op::accept_edits{c.set(), canvas_view, state_view, token.data(),
                                  probability.data(), 0.5F, a.data()});
    EXPECT_EQ(a, (bytes{1, 0, decision_replace, decision_keep, decision_keep}));
  }
}

}  // namespace
}  // namespace unmask::test
