// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The engine against closed forms of queueing theory, and under random load.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <map>

#include "harness/engine/arrivals.h"
#include "kernels/random.h"
#include "tests/harness/engine/support.h"

namespace unmask {
namespace {

using namespace testing_engine;

class waits final : public engine_sink {
 public:
  void on_request(request_record&& r) override {
    wait += r.admitted - r.arrival;
    stay += r.finish - r.arrival;
    ++n;
  }
  double wait = 0, stay = 0, n = 0;
};

// A null method (one forward of constant duration D, one place) is an M/D/1 queue: the mean wait
// is rho D / (2 (1 - rho)) (Pollaczek and Khinchine).
TEST(queueing, a_null_method_is_an_m_d_1_queue) {
  const double service = 0.01;
  for (const double load : {0.3, 0.5, 0.8}) {
    const std::size_t n = load > 0.7 ? 2000000 : 400000;
    scripted_runner runner(
        1, {1, 1, false},
        [](std::size_t) {
          return request_script{0, {1}};
        },
        1);
    const auto orders = at_times(poisson_arrivals(load / service, n, 5));
    engine_clock clock(std::make_shared<constant>(service));
    waits seen;
    run_engine(runner, orders, {}, clock, seen);
    const double expected = load * service / (2 * (1 - load));
    EXPECT_EQ(seen.n, static_cast<double>(n));
    EXPECT_NEAR(seen.wait / seen.n, expected, 0.02 * expected) << load;
    EXPECT_NEAR(seen.stay / seen.n, expected + service, 0.02 * (expected + service)) << load;
  }
}

// Gaps have the mean and the coefficient of variation asked for; prefixes agree.
TEST(queueing, arrival_processes_have_their_moments) {
  const auto moments = [](const std::vector<double>& times) {
    double mean = 0, square = 0, last = 0;
    for (const double t : times) {
      mean += t - last;
      square += (t - last) * (t - last);
      last = t;
    }
    const auto n = static_cast<double>(times.size());
    mean /= n;
    return std::pair(mean, std::sqrt(square / n - mean * mean) / mean);
  };
  for (const double cv : {0.5, 1.0, 2.0}) {
    const auto [mean, variation] = moments(gamma_arrivals(4, cv, 200000, 3));
    EXPECT_NEAR(mean, 0.25, 0.005) << cv;
    EXPECT_NEAR(variation, cv, 0.02 * std::max(cv, 1.0)) << cv;
  }
  const auto [mean, variation] = moments(poisson_arrivals(4, 200000, 3));
  EXPECT_NEAR(mean, 0.25, 0.002);
  EXPECT_NEAR(variation, 1, 0.02);
  EXPECT_EQ(gamma_arrivals(2, 0, 3, 1), (std::vector<double>{0.5, 1.0, 1.5}));
  auto longer = poisson_arrivals(4, 20, 3);
  longer.resize(10);
  EXPECT_EQ(poisson_arrivals(4, 10, 3), longer);
  EXPECT_NE(poisson_arrivals(4, 10, 4), longer);
  EXPECT_THROW(poisson_arrivals(0, 1, 1), error);
}

struct load {
  batching policy;
  bool grow, keep;
};

class random_load : public testing::TestWithParam<load> {};

// 10,000 requests with random lengths, arrivals near saturation, one in eight cancelled, a few too
// long for the pages, and too few pages for all.
TEST_P(random_load, nothing_is_lost_doubled_or_leaked) {
  constexpr std::size_t n = 10000;
  constexpr std::int32_t pages = 40;
  const auto draw = [](std::size_t i, std::uint64_t what) {
    return uniform_open(stream_key(11, what), i);
  };
  const auto script = [&](std::size_t i) {
    request_script s;
    s.prompt = draw(i, 1) < 0.1 ? 0 : 32 * (1 + static_cast<std::int32_t>(draw(i, 2) * 20));
    if (draw(i, 3) < 0.01) s.prompt = 64 * pages;  // can never fit
    const int blocks = 1 + static_cast<int>(draw(i, 4) * 12);
    for (int b = 0; b < blocks; ++b) {
      s.steps.push_back(
          1 + static_cast<std::int32_t>(draw(i * 16 + static_cast<std::size_t>(b), 5) * 6));
    }
    return s;
  };
  std::vector<request_order> orders = at_times(gamma_arrivals(0.1, 2, n, 9));
  for (std::size_t i = 0; i < n; ++i) {
    if (draw(i, 6) < 0.125) orders[i].cancel = orders[i].arrival + 200 * draw(i, 7);
    if (draw(i, 8) < 0.05) orders[i].cancel_blocks = 1 + static_cast<std::int32_t>(draw(i, 9) * 4);
  }

  class checker final : public engine_sink {
   public:
    void on_request(request_record&& r) override {
      ++seen[r.request];
      ++ends[r.end];
      rows -= r.answer.counters.rows;
      forwards -= r.answer.counters.forwards;
      if (r.end == outcome::finished) {
        ASSERT_LE(r.arrival, r.admitted);
        ASSERT_LE(r.admitted, r.prefill_done);
        ASSERT_LE(r.prefill_done, r.finish);
        double last = 0;
        std::int32_t tokens = 0;
        for (const emission& e : r.emissions) {
          ASSERT_GT(e.tokens, tokens);
          ASSERT_GE(e.time, last);
          last = e.time;
          tokens = e.tokens;
        }
        ASSERT_EQ(static_cast<std::size_t>(tokens), r.answer.output.size());
        ASSERT_EQ(r.answer.counters.committed, tokens);
        total += tokens;
        if (r.preemptions > 0) ++preempted;
      }
      if (seen.size() == 3000) early = mallinfo2().uordblks;
      if (seen.size() == 9000) late = mallinfo2().uordblks;
    }
    void on_iteration(const iteration_record& it) override {
      ASSERT_GE(it.free_pages, 0);
      ASSERT_GE(it.requests, it.recomputed);  // block_sync ends with a forward for all
      rows += it.rows;
      forwards += it.requests;
    }
    std::map<std::size_t, int> seen;
    std::map<outcome, int> ends;
    std::int64_t total = 0, preempted = 0;
    std::int64_t rows = 0, forwards = 0;  // of forwards, less those that requests account for
    std::size_t early = 0, late = 0;
  } sink;

  const load& p = GetParam();
  scripted_runner runner(12, {32, 32, true}, script, pages);
  engine_settings settings;
  settings.policy = p.policy;
  settings.grow_pages = p.grow;
  settings.keep_on_preemption = p.keep;
  settings.prefill_tokens = 512;
  engine_clock clock(std::make_shared<constant>(1));
  run_engine(runner, orders, settings, clock, sink);

  ASSERT_EQ(sink.seen.size(), n);
  for (const auto& [request, times] : sink.seen) ASSERT_EQ(times, 1) << request;
  EXPECT_EQ(runner.free_pages(), pages);
  // Work for clients that left is in their records: nothing is computed for nobody.
  EXPECT_EQ(sink.rows, 0);
  EXPECT_EQ(sink.forwards, 0);
  EXPECT_GT(sink.ends[outcome::cancelled], 300);
  EXPECT_GT(sink.ends[outcome::rejected], 50);
  EXPECT_GT(sink.ends[outcome::finished], 8000);
  if (p.grow) {
    EXPECT_GT(sink.preempted, 100);
  }
  // What is kept per request is this test's own map: under 200 bytes each. A record that stayed
  // would be several hundred.
  EXPECT_LT(static_cast<double>(sink.late) - static_cast<double>(sink.early), 6000 * 200.0);
}

INSTANTIATE_TEST_SUITE_P(
    engine, random_load,
    testing::Values(load{batching::iter, false, true}, load{batching::iter, true, true},
                    load{batching::lmd, true, true}, load{batching::lmd, true, false},
                    load{batching::block_sync, false, true}, load{batching::block_sync, true, true},
                    load{batching::fdfo, true, true}),
    [](const auto& p) {
      return std::string(name_of(p.param.policy)) + (p.param.grow ? "_grow" : "_reserve") +
             (p.param.keep ? "_keep" : "_restart");
    });

// Order of arrival is order of service when every request is alike.
TEST(queueing, first_come_is_first_served) {
  scripted_case c;
  c.places = 3;
  c.scripts.assign(50, {40, {2}});
  c.arrivals = poisson_arrivals(0.5, 50, 1);
  const collector seen = run(c, std::make_shared<constant>(1));
  for (std::size_t i = 1; i < 50; ++i) {
    EXPECT_GE(seen.of(i).admitted, seen.of(i - 1).admitted);
  }
}

TEST(queueing, virtual_time_repeats_exactly) {
  scripted_case c;
  for (int i = 0; i < 200; ++i) {
    c.scripts.push_back({30 + i % 70, std::vector<std::int32_t>(1 + i % 5, 1 + i % 4)});
  }
  c.arrivals = gamma_arrivals(0.2, 1.5, 200, 4);
  c.settings.policy = batching::lmd;
  const auto cost = std::make_shared<table_cost>(parse_cost("32:10 64:11 512:40", 1e-4, 1e-7));
  const collector one = run(c, cost), two = run(c, cost);
  ASSERT_EQ(one.requests.size(), two.requests.size());
  for (std::size_t i = 0; i < one.requests.size(); ++i) {
    EXPECT_EQ(one.requests[i].request, two.requests[i].request);
    EXPECT_EQ(one.requests[i].finish, two.requests[i].finish);
  }
}

TEST(cost, interpolates_and_extends_the_last_piece) {
  const table_cost cost = parse_cost("64:20 32:10 128:20 128:40");
  EXPECT_EQ(cost.text(), "32:10 64:20 128:30");
  EXPECT_DOUBLE_EQ(cost.seconds({16, 1, 0}), 0.010);
  EXPECT_DOUBLE_EQ(cost.seconds({48, 1, 0}), 0.015);
  EXPECT_DOUBLE_EQ(cost.seconds({128, 1, 0}), 0.030);
  EXPECT_DOUBLE_EQ(cost.seconds({256, 1, 0}), 0.050);
  EXPECT_DOUBLE_EQ(parse_cost("32:10", 0.001, 1e-5).seconds({32, 2, 100}), 0.013);
  for (const char* wrong : {"", "32", "32:", "x:1", "32:0", "-1:3", "32:1x"}) {
    EXPECT_THROW(parse_cost(wrong), error) << wrong;
  }
}

TEST(clock, real_time_passes_and_the_overhead_is_added) {
  engine_clock clock(0.003);
  const double before = clock.now();
  clock.begin_forward();
  EXPECT_GE(clock.end_forward({}), 0.003);
  clock.wait_until(before + 0.01);
  EXPECT_GE(clock.now(), before + 0.01);
}

}  // namespace
}  // namespace unmask
