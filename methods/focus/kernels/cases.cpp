// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of evictions (operation_test.h says what follows from them), cases by hand, and what
// retention promises.
#include <rapidcheck.h>

#include "kernels/cuda/device/traffic.h"
#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "methods/focus/kernels/eviction.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto finals = for_each_of<bool>({false, true}, [](bool neighbour) {
  return declared([=](operands& at, const batch& b) {
    const span_of_flags f(at, b, 200, 1);
    return op::mark_kv_final{static_cast<std::int32_t>(b.size()),
                             f.state,
                             f.first,
                             f.last,
                             neighbour,
                             at.out_rows<std::uint8_t>(same(b, 1), {f.room})};
  });
});
const auto retained = for_each_of(numbers(24), [](int run) {
  return declared([=](operands& at, const batch& b) {
    const auto size = [&](int s) { return s == 12 ? 70 + run * 9 : length_of(s) % 101; };
    const scene s(at, b, size, run % 2 == 0, run % 8 == 0);
    std::mt19937 rng = rng_of(run, 9);
    retain_params p;
    std::size_t i = 0, j = 0;
    p.target = of_each(at, b, [&](int q) { return (q * 5 + run) % (s.n[i++] + 2); });
    p.processed = of_each(at, b, [&](int q) { return (q * 11 + run) % (s.length[j++] + 2); });
    p.by_deviation = draw(rng, 0, 3) != 0;
    p.add_mean = draw(rng, 0, 1) == 0;
    p.ddof = draw(rng, 0, 2);
    p.keep_predecessors = draw(rng, 0, 1) == 0;
    p.adjacent_rows = draw(rng, 0, 1) == 0;
    p.keep_unprocessed = draw(rng, 0, 1) == 0;
    return op::retain{s.candidates, s.score, p, at.out<std::uint8_t>(s.n)};
  });
});
// Rows of which some are candidates; candidates that are refused leave.
const declared dropped([](operands& at, const batch& b) {
  const ragged r(at, b, length_of, 1000);
  indices position, row, begin{0};
  bytes accept;
  for (std::size_t i = 0; i < b.size(); ++i) {
    std::mt19937 rng = rng_of(b[i], 2);
    for (std::int64_t k = 0; k < r.rows[i]; ++k) {
      if (draw(rng, 0, 2) == 0) continue;
      row.push_back(static_cast<std::int32_t>(r.first[i] + k));
      position.push_back(r.position[static_cast<std::size_t>(row.back())]);
      accept.push_back(static_cast<std::uint8_t>(draw(rng, 0, 1)));
    }
    begin.push_back(static_cast<std::int32_t>(row.size()));
  }
  const candidate_set c{static_cast<std::int32_t>(b.size()), begin.back(), at.in(begin),
                        at.in(position), at.in(row)};
  return op::drop_rows{r.set,
                       c,
                       at.in(accept),
                       at.begins(b),
                       at.list<std::int32_t>(r.set.rows, places(b)),
                       at.list<std::int32_t>(r.set.rows),
                       at.list<std::int32_t>(r.set.rows, r.first)};
});
// The lists of the rows that stay may take the place of those that there were.
const declared dropped_in_place([](operands& at, const batch& b) {
  const ragged r(at, b, length_of, 1000);
  std::int32_t* begin = at.begins(b);
  auto* sequence = at.list<std::int32_t>(r.set.rows, places(b), false);
  auto* position = at.list<std::int32_t>(r.set.rows, {}, false);
  std::copy_n(r.set.row_begin, b.size() + 1, begin);
  std::copy_n(r.set.sequence, r.set.rows, sequence);
  std::copy_n(r.set.position, r.set.rows, position);
  indices row;
  for (std::int32_t i = 0; i < r.set.rows; ++i) row.push_back(i);
  const candidate_set all{r.set.sequences, r.set.rows, at.in(begins_of(r.rows)), at.in(r.position),
                          at.in(row)};
  return op::drop_rows{{r.set.sequences, r.set.rows, begin, sequence, position, nullptr},
                       all,
                       at.in(random_numbers<std::uint8_t>(b, r.rows, 2, 0, 1)),
                       begin,
                       sequence,
                       position,
                       at.list<std::int32_t>(r.set.rows, r.first)};
});

// ---- by hand ----

const std::vector<const backend*> backends = host_backends();

TEST(blocks, freeze_by_hand) {
  bytes state{0, 1, 1, 0, 1, 1, 2, 1};  // one sequence, block [2, 8)
  const indices first{2}, last{8};
  for (const backend* backend : backends) {
    bytes frozen(8, 0);
    backend->run(op::mark_kv_final{1, states_over(state, 1), first.data(), last.data(), true,
                                   states_over(frozen, 1)});
    EXPECT_EQ(frozen, (bytes{0, 0, 0, 0, 1, 1, 1, 1}));  // 2 waits for 3; 7 has no neighbour
    backend->run(op::mark_kv_final{1, states_over(state, 1), first.data(), last.data(), false,
                                   states_over(frozen, 1)});
    EXPECT_EQ(frozen, (bytes{0, 0, 1, 0, 1, 1, 1, 1}));
  }
}

// Eight masked candidates; target 2; every rule of the selection in turn.
TEST(blocks, retain_by_hand) {
  candidates_fixture c;
  c.add({10, 11, 12, 14, 15, 16, 18, 19});
  const std::vector<float> score{0, 0, 0, 0, 0, 3, 0, 2.9F};
  const indices target{2}, processed{13};
  retain_params p;
  p.target = target.data();
  p.processed = processed.data();
  p.by_deviation = p.keep_predecessors = p.keep_unprocessed = false;
  for (const backend* backend : backends) {
    bytes accept(8, 9);
    backend->run(op::retain{c.set(), score.data(), p, accept.data()});
    EXPECT_EQ(accept, (bytes{0, 0, 0, 0, 0, 1, 0, 1}));
    retain_params q = p;
    q.keep_predecessors = true;  // 15 before 16 and 18 before 19; 14 is no predecessor of a chosen
    backend->run(op::retain{c.set(), score.data(), q, accept.data()});
    EXPECT_EQ(accept, (bytes{0, 0, 0, 0, 1, 1, 1, 1}));
    q.keep_unprocessed = true;  // 14 lies in [13, 19)
    backend->run(op::retain{c.set(), score.data(), q, accept.data()});
    EXPECT_EQ(accept, (bytes{0, 0, 0, 1, 1, 1, 1, 1}));
    retain_params d = p;
    const indices one{1};
    d.target = one.data();
    d.by_deviation = true;  // mean 0.7375, deviation 1.277: both 3 and 2.9 pass
    backend->run(op::retain{c.set(), score.data(), d, accept.data()});
    EXPECT_EQ(accept, (bytes{0, 0, 0, 0, 0, 1, 0, 1}));
    const indices zero{0};
    d.target = zero.data();
    backend->run(op::retain{c.set(), score.data(), d, accept.data()});
    EXPECT_EQ(accept, bytes(8, 1));
  }
}

// The deviation of {0, 1}: population 0.5, sample 0.7071; thresholds 1.0 and 1.2071.
TEST(blocks, retain_knows_both_deviations) {
  candidates_fixture c;
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
        bytes accept(2, 9);
        backend->run(op::retain{c.set(), score.data(), p, accept.data()});
        EXPECT_EQ(accept, (bytes{1, 0}));  // top 1 where nothing reaches the threshold
      }
    }
    // Three of four reach the deviation alone (0.433), none the mean plus it (1.18).
    candidates_fixture four;
    four.add({0, 1, 2, 3});
    const std::vector<float> ones{0, 1, 1, 1};
    retain_params p;
    p.target = target.data();
    p.processed = processed.data();
    p.keep_predecessors = p.keep_unprocessed = false;
    bytes accept(4, 9);
    backend->run(op::retain{four.set(), ones.data(), p, accept.data()});
    EXPECT_EQ(accept, (bytes{0, 1, 0, 0}));
    p.add_mean = false;
    backend->run(op::retain{four.set(), ones.data(), p, accept.data()});
    EXPECT_EQ(accept, (bytes{0, 1, 1, 1}));
  }
}

// The lists that the host goes on with come home behind one wait. Nothing is copied, neither then nor when
// kernels read them; what else kernels wrote comes with the next wait.
TEST(blocks, dropped_rows_are_there_behind_one_wait) {
  if (thread_sanitized) GTEST_SKIP() << "the emulator's fibers are not followed";
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true});
  const backend& device = cuda_emulated_backend();
  const auto visible = [&]<class T>(const std::vector<T>& values) {
    const tensor t =
        device.allocate(dtype_of<T>::value, {std::ssize(values)}, memory_use::host_visible);
    std::ranges::copy(values, t.as<T>());
    return t;
  };
  const tensor score = visible(std::vector<float>{1, 2, 3}),
               doubled = visible(std::vector<float>(3)), quota = visible(indices{1, 0}),
               of = visible(indices{0, 2, 3}), place = visible(indices{1, 2, 9}),
               row = visible(indices{1, 2, 4}), accept = device.allocate(dtype::u8, {3}),
               kept = visible(indices(5));
  const candidate_set candidates{2, 3, of.as<std::int32_t>(), place.as<std::int32_t>(),
                                 row.as<std::int32_t>()};
  tensor begin, sequence, position;
  const auto drop = [&] {
    begin = visible(indices{0, 3, 5});
    sequence = visible(indices{0, 0, 0, 1, 1});
    position = visible(indices{0, 1, 2, 8, 9});
    device.run(op::accept_top{candidates, score.as<float>(), quota.as<std::int32_t>(),
                              accept.as<std::uint8_t>()});
    device.run(op::combine_scores{3, score.as<float>(), 2, nullptr, 0, doubled.as<float>()});
    return device.run(op::drop_rows{{2, 5, begin.as<std::int32_t>(), sequence.as<std::int32_t>(),
                                     position.as<std::int32_t>(), nullptr},
                                    candidates,
                                    accept.as<std::uint8_t>(),
                                    begin.as<std::int32_t>(),
                                    sequence.as<std::int32_t>(),
                                    position.as<std::int32_t>(),
                                    kept.as<std::int32_t>()});
  };
  const auto first = [](const tensor& list, std::int32_t n) {
    return indices(list.as<std::int32_t>(), list.as<std::int32_t>() + n);
  };
  drop();  // takes scratch memory
  device.synchronize();
  std::fill_n(doubled.as<float>(), 3, 0.0F);
  std::fill_n(kept.as<std::int32_t>(), 5, -1);
  cuda::emulator::begin_counting(false);
  EXPECT_EQ(drop(), 3);
  const auto dropping = cuda::emulator::end_counting();
  EXPECT_EQ(dropping.waits, 1U);
  EXPECT_EQ(dropping.fetches, 0U);
  EXPECT_EQ(first(begin, 3), (indices{0, 2, 3}));
  EXPECT_EQ(first(sequence, 3), (indices{0, 0, 1}));
  EXPECT_EQ(first(position, 3), (indices{0, 2, 8}));
  EXPECT_EQ(first(kept, 5), (indices{0, 2, 3, -1, -1}));
  EXPECT_EQ(doubled.as<float>()[2], 0);
  const tensor rows = device.allocate(dtype::f32, {5, 1}),
               left = device.allocate(dtype::f32, {3, 1});
  const std::vector<float> numbers{10, 11, 12, 13, 14};
  device.write(rows.view().data, numbers.data(), rows.bytes());
  cuda::emulator::begin_counting(false);
  device.run(op::gather_rows{rows, kept.as<std::int32_t>(), left});
  EXPECT_EQ(cuda::emulator::end_counting().copies, 0U);
  std::vector<float> got(3);
  device.read(got.data(), left.view().data, left.bytes());
  EXPECT_EQ(got, (std::vector<float>{10, 12, 13}));
  EXPECT_EQ(doubled.as<float>()[2], 6);
  cuda::set_emulation(before);
}

// Many rows: tiles of one block, in place and beside, as the definition has them.
TEST(blocks, rows_of_several_tiles_are_dropped_as_one) {
  constexpr std::int32_t n = 2500, sequences = 5;
  for_each_device([&](const backend& device) {
    std::mt19937 rng(11);
    indices begin{0, 0, 700, 1025, 2500, 2500}, sequence, position, row;
    bytes accept;
    for (std::int32_t s = 0; s < sequences; ++s) {
      for (std::int32_t r = begin[static_cast<std::size_t>(s)];
           r < begin[static_cast<std::size_t>(s) + 1]; ++r) {
        sequence.push_back(s);
        position.push_back(2 * r);
        row.push_back(r);
        accept.push_back(static_cast<std::uint8_t>(draw(rng, 0, 3) == 0));
      }
    }
    const indices candidate_begin = begin, candidate_position = position;
    const candidate_set all{sequences, n, candidate_begin.data(), candidate_position.data(),
                            row.data()};
    indices want_begin(sequences + 1), want_sequence(n, -1), want_position(n, -1), want_kept(n, -1);
    const row_set rows{sequences, n, begin.data(), sequence.data(), position.data(), nullptr};
    const std::int32_t left = reference_backend().run(
        op::drop_rows{rows, all, accept.data(), want_begin.data(), want_sequence.data(),
                      want_position.data(), want_kept.data()});
    indices kept(n, -1);
    EXPECT_EQ(device.run(op::drop_rows{rows, all, accept.data(), begin.data(), sequence.data(),
                                       position.data(), kept.data()}),
              left);
    for (indices* list : {&sequence, &position, &want_sequence, &want_position}) {
      list->resize(static_cast<std::size_t>(left));
    }
    EXPECT_EQ(begin, want_begin);
    EXPECT_EQ(sequence, want_sequence);
    EXPECT_EQ(position, want_position);
    EXPECT_EQ(kept, want_kept);
  });
}

TEST(blocks, property_retain_keeps_the_target) {
  EXPECT_TRUE(rc::check("retain", [] {
    const int sequences = *rc::gen::inRange(1, 4);
    candidates_fixture c;
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
    bytes want(score.size(), 9);
    reference_backend().run(op::retain{c.set(), score.data(), p, want.data()});
    for (int s = 0; s < sequences; ++s) {  // minimum retention
      const int n = c.begin[static_cast<std::size_t>(s) + 1] - c.begin[static_cast<std::size_t>(s)];
      const auto* from = want.data() + c.begin[static_cast<std::size_t>(s)];
      RC_ASSERT(std::count(from, from + n, 1) >= std::min(n, target[static_cast<std::size_t>(s)]));
    }
  }));
}

}  // namespace
}  // namespace unmask::test
