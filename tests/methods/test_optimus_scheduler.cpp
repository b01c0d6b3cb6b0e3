// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The elastic scheduler without a model: latency fits, estimates of tokens per step on the toy, and
// the choice.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.h"
#include "kernels/random.h"
#include "methods/optimus/elastic_scheduler.h"
#include "tests/methods/chunk_toy.h"

namespace unmask {
namespace {

using testing::run_toy;
using testing::toy_settings;
using testing::toy_step;

// ---- latency ----------------------------------------------------------------------------------

std::vector<latency_sample> sampled(double (*f)(double), int from = 1, int to = 8192) {
  std::vector<latency_sample> s;
  for (double x = from; x <= to; x *= 1.5) s.push_back({std::floor(x), f(std::floor(x))});
  return s;
}

TEST(latency_model, recovers_three_pieces) {
  // Memory-bound to 64, a transition, compute-bound from 512 on.
  const auto truth = [](double x) {
    return 0.010 + 1e-6 * std::min(x, 64.0) + 8e-6 * std::clamp(x - 64, 0.0, 448.0) +
           4e-5 * std::max(0.0, x - 512);
  };
  const latency_model m = latency_model::pwl3(sampled(truth), true);
  EXPECT_EQ(m.report().kind, "pwl3");
  EXPECT_LT(m.report().mape, 0.02);
  for (const double x : {1.0, 40.0, 200.0, 700.0, 5000.0}) {
    EXPECT_NEAR(m.seconds(x), truth(x), 0.04 * truth(x)) << x;
  }
  // Beyond the samples the last slope goes on.
  EXPECT_NEAR(m.seconds(20000) - m.seconds(19000), 1000 * 4e-5, 1e-3);
  double before = 0;
  for (double x = 1; x < 9000; x += 7) {
    EXPECT_GE(m.seconds(x), before);
    before = m.seconds(x);
  }
  EXPECT_LE(m.report().slope[0], m.report().slope[1] + 1e-12);
  EXPECT_LE(m.report().slope[1], m.report().slope[2] + 1e-12);
}

// Loading experts: steep first, flat later. Convex pieces cannot follow, free ones can.
TEST(latency_model, a_mixture_needs_pieces_that_flatten) {
  const auto truth = [](double x) { return 0.004 + 1e-4 * std::min(x, 100.0) + 2e-6 * x; };
  const latency_model free_form = latency_model::pwl3(sampled(truth), false);
  EXPECT_EQ(free_form.report().kind, "pwl3");
  EXPECT_LT(free_form.report().mape, 0.02);
  const latency_model convex = latency_model::pwl3(sampled(truth), true);
  EXPECT_EQ(convex.report().kind, "table");
  EXPECT_NE(convex.report().note.find("interpolating"), std::string::npos);
  EXPECT_GT(convex.report().mape, 0.05);
  for (const latency_sample& s : sampled(truth))
    EXPECT_DOUBLE_EQ(convex.seconds(s.tokens), s.seconds);
}

TEST(latency_model, few_points_are_interpolated) {
  const latency_model m = latency_model::pwl3({{8, 0.02}, {2, 0.01}, {8, 0.04}, {4, 0.01}}, true);
  EXPECT_EQ(m.report().kind, "table");
  EXPECT_FALSE(m.report().note.empty());
  EXPECT_DOUBLE_EQ(m.seconds(8), 0.03);  // median of the two
  EXPECT_DOUBLE_EQ(m.seconds(6), 0.02);
  EXPECT_DOUBLE_EQ(m.seconds(1), 0.01);
  EXPECT_DOUBLE_EQ(m.seconds(12), 0.05);
  EXPECT_THROW(latency_model::table({}), error);
  EXPECT_THROW(latency_model::table({{4, -1}}), error);
}

TEST(latency_model, samples_as_text) {
  const auto s = parse_latency_samples("optimus", "2:0.5,64:1e-3");
  ASSERT_EQ(s.size(), 2U);
  EXPECT_EQ(s[1].tokens, 64);
  EXPECT_EQ(s[1].seconds, 1e-3);
  EXPECT_EQ(parse_latency_samples("optimus", to_text(s)).size(), 2U);
  EXPECT_TRUE(parse_latency_samples("optimus", "").empty());
  for (const char* wrong : {"2", "2:", "a:1", "2:1;3:1", "2:1,3"}) {
    EXPECT_THROW(parse_latency_samples("optimus", wrong), error) << wrong;
  }
}

TEST(latency_model, roofline_is_a_floor_and_a_slope) {
  const latency_model m = latency_model::roofline(0.01, 1e-4);
  EXPECT_DOUBLE_EQ(m.seconds(10), 0.01);
  EXPECT_DOUBLE_EQ(m.seconds(1000), 0.1);
}

// ---- tokens per step --------------------------------------------------------------------------

step_observation seen(std::int32_t size, bool complete, std::vector<std::uint8_t> passed,
                      std::vector<std::int32_t> slot) {
  return {size, complete, std::move(passed), std::move(slot)};
}

TEST(commit_estimator, one_full_step_by_hand) {
  commit_estimator e(8, 3);
  e.observe(seen(8, true, {0, 1, 1, 0}, {1, 2, 5, 7}));
  EXPECT_DOUBLE_EQ(e.passes(1), 1);  // nobody passed: the forced one
  EXPECT_DOUBLE_EQ(e.passes(2), 1);
  EXPECT_DOUBLE_EQ(e.passes(3), 2);
  EXPECT_DOUBLE_EQ(e.passes(4), 2);
  EXPECT_DOUBLE_EQ(e.passes(8), 2);  // no mask was left outside
  EXPECT_DOUBLE_EQ(e.passes(2.5), 1.5);
  EXPECT_DOUBLE_EQ(e.pass_rate(2), 1);
  EXPECT_DOUBLE_EQ(e.expected(1, estimator_kind::slot_count), 0);  // row 0 is no mask
  EXPECT_DOUBLE_EQ(e.expected(3, estimator_kind::slot_count), 1);
  EXPECT_DOUBLE_EQ(e.expected(6, estimator_kind::slot_count), 2);
  EXPECT_DOUBLE_EQ(e.expected(3, estimator_kind::prefix_count), 2);
  EXPECT_NEAR(e.expected(2, estimator_kind::fixed_point), 1, 1e-6);    // N = G(2 - N)
  EXPECT_NEAR(e.expected(4, estimator_kind::fixed_point), 1.5, 1e-6);  // N = G(4 - N)
  e.observe(seen(8, true, {}, {}));  // a refresh-only step halves the literal reading
  EXPECT_DOUBLE_EQ(e.mask_free(), 0.5);
  EXPECT_DOUBLE_EQ(e.expected(3, estimator_kind::prefix_count), 1);
  EXPECT_DOUBLE_EQ(e.passes(3), 2);
}

// A smaller chunk updates what it saw; what lies beyond keeps its distance.
TEST(commit_estimator, unseen_ranks_keep_their_increments) {
  commit_estimator e(4, 2.5);
  const double beyond = e.passes(4) - e.passes(2);
  e.observe(seen(2, false, {1, 1}, {0, 1}));
  EXPECT_DOUBLE_EQ(e.passes(2), 2);
  EXPECT_DOUBLE_EQ(e.passes(4) - e.passes(2), beyond);
}

TEST(commit_estimator, forgets_with_one_in_64) {
  commit_estimator e(2, 1);
  for (int i = 0; i < 64; ++i) e.observe(seen(2, true, {1, 1}, {0, 1}));
  EXPECT_NEAR(e.passes(2), 2, 1e-9);
  e.observe(seen(2, true, {0, 0}, {0, 1}));
  EXPECT_NEAR(e.passes(2), 2 - 1.0 / 64, 1e-3);
}

// Positions need 0, 1, 2 or 4 of their four left neighbours; shares of these four kinds.
std::vector<int> mixture(const std::array<double, 4>& share, int blocks) {
  std::vector<int> d;
  const int need[] = {0, 1, 2, 4};
  for (int i = 0; i < blocks * 32; ++i) {
    double u = uniform_open(stream_key(11, static_cast<std::uint64_t>(i)), 0);
    int kind = 0;
    while (kind < 3 && u > share[static_cast<std::size_t>(kind)]) {
      u -= share[static_cast<std::size_t>(kind++)];
    }
    d.push_back(need[kind]);
  }
  return d;
}

struct toy_case {
  const char* name;
  std::array<double, 4> share;
};
// Block rates N(32) of about 6.0, 3.9 and 2.4, N(8) of 3.1, 2.8 and 2.2.
const toy_case mixtures[] = {{"easy", {0.40, 0.20, 0.30, 0.10}},
                             {"middle", {0.25, 0.40, 0.10, 0.25}},
                             {"hard", {0.15, 0.00, 0.50, 0.35}}};

double true_rate(const std::vector<int>& difficulty, std::int32_t c) {
  toy_settings s;
  s.neighbours = 4;
  s.size = c;
  const auto run = run_toy(difficulty, s);
  return static_cast<double>(run.commits) / static_cast<double>(run.steps.size());
}

// Only full-size steps are seen; every smaller size must be predicted. A plain mean: the estimator
// weighs the last steps most, so the run is read through one made for many blocks.
void watch_full(const std::vector<int>& difficulty,
                const std::function<void(const step_observation&)>& to) {
  toy_settings full;
  full.neighbours = 4;
  run_toy(difficulty, full,
          [&](const toy_step& step, const std::vector<std::int32_t>& masks,
              const std::vector<std::uint8_t>& ready, bool complete) {
            step_observation o{32, complete, ready, {}};
            for (const std::int32_t p : masks) {
              o.slot.push_back(static_cast<std::int32_t>(
                  std::find(step.chunk.begin(), step.chunk.end(), p) - step.chunk.begin()));
            }
            to(o);
          });
}

TEST(commit_estimator, prints_toy_errors) {
  for (const toy_case& m : mixtures) {
    const std::vector<int> d = mixture(m.share, 400);
    std::vector<double> sum(33, 0), fixed(33, 0), prefix(33, 0), slot(33, 0);
    int reads = 0;
    commit_estimator e(32, 4);
    watch_full(d, [&](const step_observation& o) {
      e.observe(o);
      if (++reads <= 64) return;
      for (int c = 2; c <= 32; c += 2) {
        const auto i = static_cast<std::size_t>(c);
        sum[i] += e.expected(c, estimator_kind::capped);
        fixed[i] += e.expected(c, estimator_kind::fixed_point);
        prefix[i] += e.expected(c, estimator_kind::prefix_count);
        slot[i] += e.expected(c, estimator_kind::slot_count);
      }
    });
    for (int c = 2; c <= 32; c += 2) {
      const auto i = static_cast<std::size_t>(c);
      const double t = true_rate(d, c), n = reads - 64;
      printf("%s c=%d true %.2f capped %+.1f%% fixed %+.1f%% prefix %+.1f%% slot %+.1f%%\n", m.name,
             c, t, 100 * (sum[i] / n / t - 1), 100 * (fixed[i] / n / t - 1),
             100 * (prefix[i] / n / t - 1), 100 * (slot[i] / n / t - 1));
    }
  }
}

}  // namespace
}  // namespace unmask
