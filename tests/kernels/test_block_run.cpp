// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What moves block diffusion from step to step without the host: the device does what the
// definition says, over whole lives of blocks; and the definition against answers worked out by
// hand.
#include <cstring>

#include "tests/kernels/support.h"

namespace unmask {
namespace {

using indices = std::vector<std::int32_t>;
using bytes = std::vector<std::uint8_t>;

int draw(std::mt19937& rng, int low, int high) {  // both included
  return std::uniform_int_distribution<int>(low, high)(rng);
}

// Everything that advance_blocks reads and writes, for some sequences.
struct decoding {
  int sequences, length;
  std::vector<block_record> record;
  indices canvas, noise, arrays, judged_begin, committed;
  bytes state;
  run_state run;
  block_rules rules;

  decoding(int s, int n)
      : sequences(s),
        length(n),
        record(static_cast<std::size_t>(s)),
        canvas(static_cast<std::size_t>(s * n), 50),
        noise(static_cast<std::size_t>(s), 3),
        arrays(static_cast<std::size_t>(step_array_count * s), -7),
        judged_begin(static_cast<std::size_t>(s + 1), 0),
        committed(static_cast<std::size_t>(s), 0),
        state(static_cast<std::size_t>(s * n), 0) {}

  step_arrays step() { return step_arrays_in(arrays.data(), sequences); }
  void advance(const ops& with, bool stepped) {
    with.advance_blocks({sequences, rules, record.data(), noise.data(), step(), &run},
                        stepped ? judged_begin.data() : nullptr,
                        stepped ? committed.data() : nullptr,
                        make_view(canvas.data(), dtype::i32, {sequences, length}),
                        make_view(state.data(), dtype::u8, {sequences, length}));
    with.synchronize();
  }
  std::uint8_t* states(int s) { return state.data() + std::ptrdiff_t{s} * length; }
  std::int32_t* tokens(int s) { return canvas.data() + std::ptrdiff_t{s} * length; }
};

void expect_same(const decoding& got, const decoding& want) {
  ASSERT_EQ(got.arrays, want.arrays);
  ASSERT_EQ(got.state, want.state);
  ASSERT_EQ(got.noise, want.noise);
  ASSERT_EQ(got.committed, want.committed);
  ASSERT_EQ(
      std::memcmp(got.record.data(), want.record.data(), want.record.size() * sizeof(block_record)),
      0);
  ASSERT_EQ(got.run.go, want.run.go);
  ASSERT_EQ(got.run.steps, want.run.steps);
}

// A prompt of `prompt` tokens, `gen` asked for.
void open_request(decoding& d, int s, int prompt, int gen) {
  block_record& r = d.record[static_cast<std::size_t>(s)];
  const int block = d.rules.block;
  r = {};
  r.prompt_length = prompt;
  r.gen_length = gen;
  r.length = (prompt + gen + block - 1) / block * block;
  r.history = prompt / block * block;
  r.running = 1;
  std::fill(d.states(s), d.states(s) + r.history, std::uint8_t{2});
  std::fill(d.states(s) + r.history, d.states(s) + prompt, std::uint8_t{1});
  std::fill(d.states(s) + prompt, d.states(s) + r.length, std::uint8_t{0});
}

TEST(block_run, a_device_advances_blocks_as_the_definition_says) {
  const indices stops{7, 9};
  int finished = 0, stuck = 0;
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(5);
    for (int trial = 0; trial < 12; ++trial) {
      decoding want(draw(rng, 1, 40), 160);
      want.rules = {.block = trial % 3 == 0 ? 4 : 32,
                    .steps = trial % 2 == 0 ? 0 : 3,
                    .commit_forwards = 1 + trial % 2,
                    .engine = trial % 4 < 2,
                    .commit_last = trial % 5 == 0 || trial % 4 >= 2,
                    .stop_in_prompt_block = trial % 7 != 0,
                    .stop_count = trial % 3 == 1 ? 0 : 2,
                    .stop_ids = stops.data()};
      want.run = {0, 0, 1000};
      for (int s = 0; s < want.sequences; ++s) {
        open_request(want, s, draw(rng, 1, 60), draw(rng, 1, 90));
        want.record[static_cast<std::size_t>(s)].running = draw(rng, 0, 5) > 0 ? 1 : 0;
      }
      decoding got = want;
      want.advance(reference_ops(), false);
      got.advance(device, false);
      expect_same(got, want);
      for (int step = 0; step < 60; ++step) {
        // Some masks of each block are decided; in some trials hardly any.
        for (int s = 0; s < want.sequences; ++s) {
          const auto i = static_cast<std::size_t>(s);
          int judged = 0, decided = 0;
          for (int p = want.step().candidate_first[s]; p < want.step().candidate_last[s]; ++p) {
            if (want.states(s)[p] != 0) continue;
            ++judged;
            if (trial == 3 || draw(rng, 0, 2) > 0) continue;
            ++decided;
            for (decoding* d : {&want, &got}) d->states(s)[p] = 1;
            const int token = draw(rng, 0, 40);
            for (decoding* d : {&want, &got}) d->tokens(s)[p] = token;
          }
          for (decoding* d : {&want, &got}) {
            d->committed[i] = decided;
            d->judged_begin[i + 1] = d->judged_begin[i] + judged;
          }
        }
        want.advance(reference_ops(), true);
        got.advance(device, true);
        expect_same(got, want);
        if (::testing::Test::HasFatalFailure()) return;
      }
      for (const block_record& r : want.record) {
        finished += r.finished;
        stuck += r.stuck;
      }
    }
  });
  EXPECT_GT(finished, 100);
  EXPECT_GT(stuck, 10);
}

// One request of two blocks of four, LMDeploy's rules: the budget ends inside the second block.
TEST(block_run, follows_a_request_to_its_end) {
  for (const ops* backend : test::host_backends()) {
    SCOPED_TRACE(backend->name());
    decoding d(1, 16);
    d.rules.block = 4;
    d.run = {0, 0, 100};
    open_request(d, 0, 2, 5);  // positions 2 .. 6 are answered, the canvas ends at 8
    d.advance(*backend, false);
    EXPECT_EQ(d.step().first[0], 0);
    EXPECT_EQ(d.step().last[0], 4);
    EXPECT_EQ(d.step().kind[0], static_cast<int>(step_kind::denoise));
    const auto decide = [&](std::vector<int> positions, int judged) {
      for (int p : positions) d.states(0)[p] = 1;
      d.committed[0] = static_cast<std::int32_t>(positions.size());
      d.judged_begin[1] = judged;
      d.advance(*backend, true);
    };
    decide({2, 3}, 2);
    EXPECT_EQ(d.step().kind[0], static_cast<int>(step_kind::commit));
    EXPECT_EQ(d.step().candidate_last[0], d.step().candidate_first[0]);
    EXPECT_EQ(d.committed[0], 0) << "set back";
    decide({}, 0);
    EXPECT_EQ(d.states(0)[3], 2) << "the block is cached";
    EXPECT_EQ(d.step().first[0], 4);
    EXPECT_EQ(d.step().kv_length[0], 8);
    decide({4, 6}, 4);
    EXPECT_EQ(d.run.go, 1);
    decide({5, 7}, 2);
    EXPECT_EQ(d.record[0].finished, 1);
    EXPECT_EQ(d.record[0].output_end, 7);
    EXPECT_EQ(d.run.go, 0);
    EXPECT_EQ(d.step().kind[0], static_cast<int>(step_kind::none));
    EXPECT_EQ(d.run.steps, 4);
    EXPECT_EQ(d.noise[0], 3 + 4);
    EXPECT_EQ(d.record[0].forwards, 4);
    EXPECT_EQ(d.record[0].commit_forwards, 1);
    EXPECT_EQ(d.record[0].denoise_steps, 3);
    EXPECT_EQ(d.record[0].committed, 6);
    EXPECT_EQ(d.record[0].judged, 8);
  }
}

TEST(block_run, ends_at_the_limit) {
  for (const ops* backend : test::host_backends()) {
    decoding d(2, 64);
    for (int s : {0, 1}) open_request(d, s, 3, 50);
    d.run = {0, 0, 2};
    d.advance(*backend, false);
    EXPECT_EQ(d.run.go, 1);
    d.committed = {1, 1};
    d.advance(*backend, true);
    EXPECT_EQ(d.run.go, 1);
    d.advance(*backend, true);
    EXPECT_EQ(d.run.go, 0) << "two steps were allowed";
  }
}

TEST(block_run, windows_tallies_and_budgets_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(8);
    for (int trial = 0; trial < 20; ++trial) {
      const int sequences = draw(rng, 1, 70), length = 96;
      indices sizes;
      for (int s = 0; s < sequences; ++s) sizes.push_back(draw(rng, 0, 64));
      const test::rows_fixture rows(rng, sizes, length);
      bytes state(static_cast<std::size_t>(sequences * length));
      for (auto& x : state) x = static_cast<std::uint8_t>(draw(rng, 0, 2));
      const tensor_view states = make_view(state.data(), dtype::u8, {sequences, length});
      const auto n = static_cast<std::size_t>(sequences);
      indices plan(static_cast<std::size_t>(step_array_count) * n), key_begin{0}, length_of;
      const step_arrays step = step_arrays_in(plan.data(), sequences);
      for (int s = 0; s < sequences; ++s) {
        step.kind[s] = draw(rng, 0, 5);
        step.first[s] = draw(rng, 0, 3) * 32;
        step.last[s] = step.first[s] + 32;
        key_begin.push_back(key_begin.back() + draw(rng, 0, 90));
        length_of.push_back(draw(rng, 0, 96));
      }
      indices windows[2], ends(n, 40);
      std::vector<std::int64_t> counts[2];
      for (int i = 0; i < 2; ++i) {
        const ops& with = i == 0 ? reference_ops() : device;
        windows[i].assign(2 * n, -7);
        with.pick_windows(sequences, step, block_kinds, windows[i].data(), windows[i].data() + n);
        counts[i].assign(8 * n, 5);
        std::int64_t* to = counts[i].data();
        for (const mask_kind mask : {mask_kind::full, mask_kind::causal, mask_kind::block_causal}) {
          key_set keys;
          keys.kv_length = length_of.data();
          keys.key_begin = mask == mask_kind::full ? key_begin.data() : nullptr;
          keys.mask = mask;
          keys.block = 16;
          with.tally(rows.set, keys, to, to + n);
          to += 2 * n;
        }
        with.synchronize();
      }
      ASSERT_EQ(windows[1], windows[0]);
      ASSERT_EQ(counts[1], counts[0]);

      const focus_rules rules{.fixed = trial % 4 == 0 ? 3 : 0,
                              .alpha = 1.5F,
                              .scope = static_cast<average_scope>(trial % 3),
                              .initial_k = trial % 2,
                              .count_empty = trial % 5 == 0};
      std::vector<focus_record> record(n);
      for (focus_record& r : record) {
        r.block = draw(rng, 0, 3) * 32;
        r.steps = draw(rng, 0, 9);
        r.decided = draw(rng, 0, 70);
        r.budget = draw(rng, 0, 12);
        r.processed_end = draw(rng, 0, 96);
      }
      std::vector<focus_record> records[2] = {record, record};
      indices out[2];
      for (int i = 0; i < 2; ++i) {
        const ops& with = i == 0 ? reference_ops() : device;
        focus_record* r = records[i].data();
        out[i].assign(7 * n, -7);
        std::int32_t* o = out[i].data();
        with.focus_targets(rows.set, states, step, rules, r,
                           {o, o + n, o + 2 * n, o + 3 * n, o + 4 * n, o + 5 * n, o + 6 * n});
        with.focus_processed(sequences, step, ends.data(), r);
        with.focus_decided(sequences, step, rules, length_of.data(), r);
        with.synchronize();
      }
      ASSERT_EQ(out[1], out[0]);
      for (std::size_t s = 0; s < n; ++s) {
        const focus_record &got = records[1][s], &want = records[0][s];
        ASSERT_EQ(got.block, want.block);
        ASSERT_EQ(got.budget, want.budget);
        ASSERT_EQ(got.decided, want.decided);
        ASSERT_EQ(got.steps, want.steps);
        ASSERT_EQ(got.processed_end, want.processed_end);
      }
    }
  });
}

// Three masked rows over a budget of two, one sequence that only repeats its rows.
TEST(block_run, targets_are_those_over_their_budget) {
  const indices begin{0, 4, 7, 7}, sequence{0, 0, 0, 0, 1, 1, 1}, position{4, 5, 6, 7, 0, 1, 2};
  const row_set rows{3, 7, begin.data(), sequence.data(), position.data(), nullptr};
  bytes state(24, 0);
  state[4] = 1;
  for (const ops* backend : test::host_backends()) {
    SCOPED_TRACE(backend->name());
    indices plan(static_cast<std::size_t>(step_array_count) * 3, 0);
    const step_arrays step = step_arrays_in(plan.data(), 3);
    step.kind[0] = static_cast<int>(step_kind::denoise);
    step.kind[1] = static_cast<int>(step_kind::again);
    step.first[0] = 4;
    step.last[0] = 8;
    std::vector<focus_record> record(3);
    record[0].processed_end = 6;
    indices o(21, -7);
    backend->focus_targets(rows, make_view(state.data(), dtype::u8, {3, 8}), step, {},
                           record.data(), {&o[0], &o[3], &o[6], &o[9], &o[12], &o[15], &o[18]});
    backend->synchronize();
    EXPECT_EQ(o, (indices{2, 0, 0, 2, 0, 0, 4, 0, 0, 8, 0, 0, 0, 0, 0, 4, 0, 0, 6, 0, 0}));
    EXPECT_EQ(record[0].block, 4);
    EXPECT_EQ(record[1].block, -1);
  }
}

}  // namespace
}  // namespace unmask
