// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every batching policy on examples small enough to be followed by hand.
#include <gtest/gtest.h>

#include "tests/harness/engine/support.h"

namespace unmask {
namespace {

using namespace testing_engine;

const auto second = std::make_shared<constant>(1.0);

std::vector<double> finishes(const collector& seen, std::size_t n) {
  std::vector<double> times;
  for (std::size_t i = 0; i < n; ++i) times.push_back(seen.of(i).finish);
  return times;
}

// Optimus Fig. 6: 16 tokens per second, blocks of 16; R1 at 0 needs two forwards, R2 at 1 one.
TEST(policies, optimus_figure_6) {
  scripted_case c;
  c.shape = {16, 16, true};
  c.scripts = {{0, {2}}, {0, {1}}};
  c.arrivals = {0, 1};
  c.places = 2;
  EXPECT_EQ(finishes(run(c, std::make_shared<stairs>(16)), 2), (std::vector<double>{3, 3}));
  c.places = 1;
  EXPECT_EQ(finishes(run(c, std::make_shared<stairs>(16)), 2), (std::vector<double>{2, 3}));
}

// Two requests of two blocks, 1 + 3 and 3 + 1 forwards, a third that arrives at 2.
scripted_case three() {
  scripted_case c;
  c.scripts = {{40, {1, 3}}, {40, {3, 1}}, {40, {1}}};
  c.arrivals = {0, 0, 2};
  return c;
}

// Prefill 0-1; both denoise 1-2; C arrives at 2 and is prefilled at once, so everybody waits; 3-4 A
// commits, B denoises and C is done; 4-7 A denoises; B denoises 4-5, commits 5-6, denoises 6-7.
TEST(policies, iter_changes_the_batch_after_every_forward) {
  const collector seen = run(three(), second);
  EXPECT_EQ(seen.trace(), "P2 D2 P1 D3 D2 D2 D2");
  EXPECT_EQ(finishes(seen, 3), (std::vector<double>{7, 7, 4}));
  EXPECT_EQ(seen.of(0).emissions.size(), 2u);
  EXPECT_EQ(seen.of(0).emissions[0].time, 2);
  EXPECT_EQ(seen.of(0).emissions[0].tokens, 32);
  EXPECT_EQ(seen.of(2).prefill_done, 3);
  EXPECT_EQ(seen.of(1).emissions[0].time, 5);
}

// LMDeploy: turns of 4 forwards for blocks of 32. The third request waits for the turn's end, and
// half of eight places is not reached, so its prefill comes before the next decode turn.
TEST(policies, lmd_turns_are_frozen_and_finished_requests_stay_in_them) {
  EXPECT_EQ(lmdeploy_forwards({32}), 4);
  EXPECT_EQ(lmdeploy_forwards({16}), 8);
  EXPECT_EQ(lmdeploy_forwards({64}), 2);
  EXPECT_EQ(lmdeploy_forwards({1}), 16);
  EXPECT_EQ(lmdeploy_forwards({4}), 16);
  EXPECT_EQ(lmdeploy_forwards({32, 32, true, 1}), 1);
  scripted_case c = three();
  c.settings.policy = batching::lmd;
  const collector seen = run(c, second);
  // Turn 1-5: A denoise, commit, two of three; B three, commit. Prefill of C 5-6. Turn 6-10: all
  // three are done after its first forward, so the turn ends.
  EXPECT_EQ(seen.trace(), "P2 D2 D2 D2 D2 P1 D3");
  EXPECT_EQ(finishes(seen, 3), (std::vector<double>{7, 7, 7}));

  // With one slow request the finished one is computed to the end of the turn.
  c.scripts = {{40, {1}}, {40, {6}}};
  c.arrivals = {0, 0};
  const collector slow = run(c, second);
  EXPECT_EQ(slow.trace(), "P2 D2 D2-1 D2-1 D2-1 D1 D1");
  EXPECT_EQ(finishes(slow, 2), (std::vector<double>{2, 7}));
  EXPECT_EQ(slow.iterations[2].recomputed_rows, 32);
  EXPECT_EQ(slow.of(0).answer.counters.decode_rows, 4 * 32);
}

TEST(policies, lmd_waits_with_prefill_until_four_wait_or_half_the_batch_is_empty) {
  scripted_case c;
  c.settings.policy = batching::lmd;
  c.places = 4;
  c.scripts.assign(3, {40, {8}});
  c.arrivals = {0, 0, 1.5};
  // Two of four run: that is not less than half, and one waits: it has to wait for the first two.
  EXPECT_EQ(run(c, second).trace(), "P2 D2 D2 D2 D2 D2 D2 D2 D2 P1 D1 D1 D1 D1 D1 D1 D1 D1");
  c.places = 5;  // now it is less than half
  EXPECT_EQ(run(c, second).trace(), "P2 D2 D2 D2 D2 P1 D3 D3 D3 D3 D1 D1 D1 D1");
}

// SGLang: forwards over everybody until nobody has a mask, one more that writes K/V, then
// admissions. A finished request is computed to the end, the K/V forward included.
TEST(policies, block_sync_waits_for_the_slowest_block) {
  scripted_case c = three();
  c.settings.policy = batching::block_sync;
  const collector seen = run(c, second);
  // Block 1: A resolved after one forward, B after three, then K/V; C's prefill; block 2: A three
  // forwards, B and C one each, then K/V for all.
  EXPECT_EQ(seen.trace(), "P2 D2 D2-1 D2-1 D2 P1 D3 D3-2 D3-2 D3-3");
  EXPECT_EQ(finishes(seen, 3), (std::vector<double>{10, 10, 10}));
  EXPECT_EQ(seen.of(0).emissions[0].time, 5);  // seen when the whole block returns
  EXPECT_EQ(seen.iterations[4].commits, 2);
}

// At worst 33 forwards per block of 32: one token each and the K/V forward.
TEST(policies, block_sync_takes_33_forwards_at_worst) {
  scripted_case c;
  c.settings.policy = batching::block_sync;
  c.scripts = {{0, {32, 1}}, {0, {1, 1}}};
  c.arrivals = {0, 0};
  const collector seen = run(c, second);
  EXPECT_EQ(seen.of(0).emissions[0].time, 33);
  EXPECT_EQ(seen.of(1).emissions[0].time, 33);
}

// First done, first out: with rounds of one forward the same batches as iter; in longer rounds a
// resolved request leaves instead of being recomputed, and waits for the round's end.
TEST(policies, fdfo_lets_resolved_requests_leave) {
  scripted_case c = three();
  c.settings.policy = batching::fdfo;
  EXPECT_EQ(run(c, second).trace(), run(three(), second).trace());
  c.settings.forwards_per_turn = 3;
  // Round 1-4: A resolves at 2 and leaves, B at 4. Prefill of C 4-5. Round 5-8: A commits and goes
  // on, B commits, C resolves: C leaves. A: 5-6 commit, 6-8 denoise; B: 5-6 commit, 6-7 done.
  const collector seen = run(c, second);
  EXPECT_EQ(seen.trace(), "P2 D2 D1 D1 P1 D3 D2 D1 D1");
  EXPECT_EQ(seen.of(1).finish, 8);  // handed over at the end of the round
  EXPECT_EQ(seen.of(0).finish, 9);
}

TEST(policies, prefill_takes_prompts_up_to_its_budget_and_at_least_one) {
  scripted_case c;
  c.scripts = {{100, {1}}, {40, {1}}, {40, {1}}, {40, {1}}};
  c.arrivals = {0, 0, 0, 0};
  c.settings.prefill_tokens = 90;
  const collector seen = run(c, second);
  EXPECT_EQ(seen.trace(), "P1 P2 P1 D4");
  EXPECT_EQ(seen.iterations[0].rows, 100);
}

TEST(policies, token_by_token_methods_have_no_commit_forward_under_any_policy) {
  for (const std::string& name : batching_names()) {
    scripted_case c;
    c.shape = {1, 1, false};
    c.scripts = {{5, {1, 1, 1}}, {5, {1, 1}}};
    c.arrivals = {0, 0};
    c.settings.policy = parse_batching(name);
    const std::string expected = name == "lmd" ? "P2 D2 D2 D2-1" : "P2 D2 D2 D1";
    EXPECT_EQ(run(c, second).trace(), expected) << name;
  }
  EXPECT_THROW(parse_batching("fifo"), error);
}

// Four pages of 64: two requests of 64 + 96 positions need three each.
TEST(policies, pages_admit_and_growing_pages_preempt_the_latest_arrival) {
  scripted_case c;
  c.scripts = {{64, {1, 1, 1}}, {64, {1, 1, 1}}};
  c.arrivals = {0, 0};
  c.pages = 4;
  // Reserved: the second request waits until the first is over.
  const collector reserved = run(c, second);
  EXPECT_EQ(reserved.trace(), "P1 D1 D1 D1 D1 D1 P1 D1 D1 D1 D1 D1");
  EXPECT_EQ(reserved.of(1).preemptions, 0);

  // Growing: both start with two pages, and everybody has pages for one block beyond the current
  // one. At 2, with the second block next, the first wants a third page: the second request, with
  // one block decided and kept, gives way and is prefilled again with 64 + 32 rows.
  c.settings.grow_pages = true;
  const collector grown = run(c, second);
  EXPECT_EQ(grown.of(0).preemptions, 0);
  EXPECT_EQ(grown.of(1).preemptions, 1);
  EXPECT_EQ(grown.trace(), "P2 D2 D1 D1 D1 D1 P1 D1 D1 D1");
  EXPECT_EQ(grown.iterations[6].rows, 96);
  EXPECT_EQ(grown.of(1).emissions.size(), 3u);
  EXPECT_EQ(grown.of(1).answer.counters.committed, 96);

  c.settings.keep_on_preemption = false;
  const collector again = run(c, second);
  EXPECT_EQ(again.trace(), "P2 D2 D1 D1 D1 D1 P1 D1 D1 D1 D1 D1");
  EXPECT_EQ(again.of(1).emissions.size(), 3u);  // no block is handed out twice
}

TEST(policies, what_can_never_fit_is_rejected_and_the_rest_is_served) {
  scripted_case c;
  c.pages = 2;
  c.scripts = {{64, {1, 1, 1}}, {64, {1}}};
  c.arrivals = {0, 0};
  const collector seen = run(c, second);
  EXPECT_EQ(seen.of(0).end, outcome::rejected);
  EXPECT_EQ(seen.of(1).end, outcome::finished);
}

TEST(policies, cancelled_requests_free_their_place_between_turns) {
  scripted_runner runner(
      1, {32, 32, true},
      [](std::size_t) {
        return request_script{0, {10}};
      },
      10);
  const std::vector<request_order> orders = {{0, 2.5}, {0, 1.0}, {0}};
  engine_clock clock(second);
  collector seen;
  run_engine(runner, orders, {}, clock, seen);
  EXPECT_EQ(seen.of(0).end, outcome::cancelled);
  EXPECT_EQ(seen.of(0).finish, 3);  // after the forward it was in
  EXPECT_EQ(seen.of(1).end, outcome::cancelled);
  EXPECT_TRUE(std::isnan(seen.of(1).admitted));
  EXPECT_EQ(seen.of(2).finish, 13);
  EXPECT_EQ(runner.free_pages(), 10);
  // What was computed for it: three of ten forwards of one block, whose tokens it never got.
  EXPECT_EQ(seen.of(0).answer.counters.forwards, 3);
  EXPECT_EQ(seen.of(0).answer.counters.committed, 9);
  EXPECT_TRUE(seen.of(0).answer.output.empty());
  EXPECT_EQ(seen.of(1).answer.counters.rows, 0);
}

// Two blocks of two forwards and a K/V forward after the first; the client leaves with the first.
TEST(policies, clients_leave_when_they_were_handed_enough_blocks) {
  for (const batching policy :
       {batching::iter, batching::lmd, batching::block_sync, batching::fdfo}) {
    scripted_runner runner(
        2, {32, 32, true},
        [](std::size_t) {
          return request_script{0, {2, 2}};
        },
        10);
    const std::vector<request_order> orders = {{0, 1e9, 1}, {0, 1e9, 2}, {0, 1e9, 3}, {0}};
    engine_settings settings;
    settings.policy = policy;
    settings.forwards_per_turn = 1;
    engine_clock clock(second);
    collector seen;
    run_engine(runner, orders, settings, clock, seen);
    const request_record& left = seen.of(0);
    EXPECT_EQ(left.end, outcome::cancelled) << name_of(policy);
    ASSERT_EQ(left.emissions.size(), 1u) << name_of(policy);
    EXPECT_EQ(left.finish, left.emissions[0].time);
    EXPECT_EQ(left.answer.output.size(), 32u);
    EXPECT_EQ(left.answer.counters.committed, 32);
    // The second block is the last one: the answer is done before the client can leave.
    for (const std::size_t i : {1, 2, 3}) {
      EXPECT_EQ(seen.of(i).end, outcome::finished) << name_of(policy) << i;
    }
    EXPECT_EQ(runner.free_pages(), 10);
  }
}

}  // namespace
}  // namespace unmask
