// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operations of block diffusion by hand, and what retention promises.
#include <rapidcheck.h>

#include "kernels/decisions.h"
#include "kernels/float16.h"
#include "kernels/rows.h"
#include "methods/focus/kernels/eviction.h"
#include "methods/optimus/kernels/chunk.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using indices = std::vector<std::int32_t>;
using flags = std::vector<std::uint8_t>;
const std::vector<const backend*> backends = unmask::test::host_backends();

tensor_view view_of(flags& f, std::int64_t sequences) {
  return make_view(f.data(), dtype::u8,
                   {sequences, static_cast<std::int64_t>(f.size()) / sequences});
}

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

TEST(blocks, freeze_by_hand) {
  flags state{0, 1, 1, 0, 1, 1, 2, 1};  // one sequence, block [2, 8)
  const indices first{2}, last{8};
  for (const backend* backend : backends) {
    flags frozen(8, 0);
    backend->run(op::mark_kv_final{1, view_of(state, 1), first.data(), last.data(), true,
                                   view_of(frozen, 1)});
    EXPECT_EQ(frozen, (flags{0, 0, 0, 0, 1, 1, 1, 1}));  // 2 waits for 3; 7 has no neighbour
    backend->run(op::mark_kv_final{1, view_of(state, 1), first.data(), last.data(), false,
                                   view_of(frozen, 1)});
    EXPECT_EQ(frozen, (flags{0, 0, 1, 0, 1, 1, 1, 1}));
  }
}

// Eight masked candidates; target 2; every rule of the selection in turn.
TEST(blocks, retain_by_hand) {
  test::candidates_fixture c;
  c.add({10, 11, 12, 14, 15, 16, 18, 19});
  const std::vector<float> score{0, 0, 0, 0, 0, 3, 0, 2.9F};
  const indices target{2}, processed{13};
  retain_params p;
  p.target = target.data();
  p.processed = processed.data();
  p.by_deviation = p.keep_predecessors = p.keep_unprocessed = false;
  for (const backend* backend : backends) {
    flags accept(8, 9);
    backend->run(op::retain{c.set(), score.data(), p, accept.data()});
    EXPECT_EQ(accept, (flags{0, 0, 0, 0, 0, 1, 0, 1}));
    retain_params q = p;
    q.keep_predecessors = true;  // 15 before 16 and 18 before 19; 14 is no predecessor of a chosen
    backend->run(op::retain{c.set(), score.data(), q, accept.data()});
    EXPECT_EQ(accept, (flags{0, 0, 0, 0, 1, 1, 1, 1}));
    q.keep_unprocessed = true;  // 14 lies in [13, 19)
    backend->run(op::retain{c.set(), score.data(), q, accept.data()});
    EXPECT_EQ(accept, (flags{0, 0, 0, 1, 1, 1, 1, 1}));
    retain_params d = p;
    const indices one{1};
    d.target = one.data();
    d.by_deviation = true;  // mean 0.7375, deviation 1.277: both 3 and 2.9 pass
    backend->run(op::retain{c.set(), score.data(), d, accept.data()});
    EXPECT_EQ(accept, (flags{0, 0, 0, 0, 0, 1, 0, 1}));
    const indices zero{0};
    d.target = zero.data();
    backend->run(op::retain{c.set(), score.data(), d, accept.data()});
    EXPECT_EQ(accept, flags(8, 1));
  }
}

// The deviation of {0, 1}: population 0.5, sample 0.7071; thresholds 1.0 and 1.2071.
TEST(blocks, retain_knows_both_deviations) {
  test::candidates_fixture c;
  c.add({0, 1});
  const std::vector<float> score{1, 0};
  const indices target{1}, processed{0};
  for (const backend* backend : backends) {
    for (const bool mean : {true, false}) {
      for (const std::int32_t ddof : {0, 1}) {
        retain_params p;
        p.target = target.data();
        p.processed = processed.data();
        p.keep_predecessors = p.keep_unprocessed = false;
        p.ddof = ddof;
        p.add_mean = mean;
        flags accept(2, 9);
        backend->run(op::retain{c.set(), score.data(), p, accept.data()});
        EXPECT_EQ(accept, (flags{1, 0}));  // top 1 where nothing reaches the threshold
      }
    }
    // Three of four reach the deviation alone (0.433), none the mean plus it (1.18).
    test::candidates_fixture four;
    four.add({0, 1, 2, 3});
    const std::vector<float> ones{0, 1, 1, 1};
    retain_params p;
    p.target = target.data();
    p.processed = processed.data();
    p.keep_predecessors = p.keep_unprocessed = false;
    flags accept(4, 9);
    backend->run(op::retain{four.set(), ones.data(), p, accept.data()});
    EXPECT_EQ(accept, (flags{0, 1, 0, 0}));
    p.add_mean = false;
    backend->run(op::retain{four.set(), ones.data(), p, accept.data()});
    EXPECT_EQ(accept, (flags{0, 1, 1, 1}));
  }
}

TEST(blocks, property_retain_keeps_the_target) {
  EXPECT_TRUE(rc::check("retain", [] {
    const int sequences = *rc::gen::inRange(1, 4);
    test::candidates_fixture c;
    indices target, processed;
    std::int32_t rows = 0;
    c.row.clear();
    std::vector<float> score;
    for (int s = 0; s < sequences; ++s) {
      for (int p = 0; p < 20; ++p) {
        const int kind = *rc::gen::inRange(0, 3);  // no row, a decided row, a candidate
        if (kind == 0) continue;
        if (kind == 2) {
          c.position.push_back(p);
          c.row.push_back(rows);
          score.push_back(static_cast<float>(*rc::gen::inRange(-6, 6)) / 4);
        }
        ++rows;
      }
      c.begin.push_back(static_cast<std::int32_t>(c.position.size()));
      const int n = c.begin[static_cast<std::size_t>(s) + 1] - c.begin[static_cast<std::size_t>(s)];
      target.push_back(*rc::gen::inRange(0, n + 1));
      processed.push_back(*rc::gen::inRange(0, 22));
    }
    retain_params p;
    p.target = target.data();
    p.processed = processed.data();
    p.by_deviation = *rc::gen::arbitrary<bool>();
    p.add_mean = *rc::gen::arbitrary<bool>();
    p.ddof = *rc::gen::inRange(0, 2);
    p.keep_predecessors = *rc::gen::arbitrary<bool>();
    p.adjacent_rows = *rc::gen::arbitrary<bool>();
    p.keep_unprocessed = *rc::gen::arbitrary<bool>();
    flags want(score.size(), 9);
    reference_backend().run(op::retain{c.set(), score.data(), p, want.data()});
    for (int s = 0; s < sequences; ++s) {  // minimum retention
      const int n = c.begin[static_cast<std::size_t>(s) + 1] - c.begin[static_cast<std::size_t>(s)];
      const auto* from = want.data() + c.begin[static_cast<std::size_t>(s)];
      RC_ASSERT(std::count(from, from + n, 1) >= std::min(n, target[static_cast<std::size_t>(s)]));
    }
  }));
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

// Block of 8: cached 0; decided 1, 3, 6; masked 2, 4, 5, 7.
TEST(blocks, select_chunk_by_hand) {
  flags state{2, 1, 0, 1, 0, 0, 1, 0};
  const indices first{0}, last{8}, four{4};
  const struct {
    settle_rule rule;
    bool pending_first;
    indices position, slot;
    flags settles;
  } cases[] = {
      {settle_rule::any_decoded, true, {1, 2, 3, 6}, {1, 4, 2, 3}, {1, 0, 1, 1}},
      {settle_rule::any_decoded, false, {1, 2, 3, 4}, {1, 3, 2, 4}, {1, 0, 1, 0}},
      {settle_rule::contiguous_prefix, false, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 0, 0, 0}},
      {settle_rule::right_neighbour, false, {1, 2, 3, 4}, {1, 2, 3, 4}, {0, 0, 0, 0}},
      {settle_rule::whole_block, false, {1, 2, 3, 4}, {1, 2, 3, 4}, {0, 0, 0, 0}},
  };
  for (const backend* backend : backends) {
    for (const auto& want : cases) {
      const chunk_params p{first.data(),       last.data(), four.data(), 8,
                           want.pending_first, want.rule,   true};
      indices begin(2), sequence(4), position(4), slot(4);
      flags settles(4, 9);
      EXPECT_EQ(
          backend->run(op::select_chunk{1, view_of(state, 1), p, begin.data(), sequence.data(),
                                        position.data(), slot.data(), settles.data()}),
          4);
      EXPECT_EQ(begin, (indices{0, 4}));
      EXPECT_EQ(position, want.position);
      EXPECT_EQ(slot, want.slot);
      EXPECT_EQ(settles, want.settles);
    }
  }
}

}  // namespace
}  // namespace unmask
