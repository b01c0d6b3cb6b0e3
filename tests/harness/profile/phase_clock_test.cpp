// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/phase_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "harness/base/error.h"

namespace unmask {
namespace {

phase_total total_of(const phase_clock& clock, profile_phase phase) {
  for (const phase_total& t : clock.totals()) {
    if (t.phase == phase) return t;
  }
  return {};
}

void wait_ms(int n) {
  std::this_thread::sleep_for(std::chrono::milliseconds(n));
}

TEST(phases, names_are_unique_and_found_again) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < profile_phases; ++i) {
    const auto phase = static_cast<profile_phase>(i);
    names.insert(name_of(phase));
    EXPECT_EQ(phase_named(name_of(phase)), phase);
    EXPECT_STRNE(name_of(category_of(phase)), "none");
  }
  EXPECT_EQ(names.size(), profile_phases);
  EXPECT_THROW(phase_named("atention"), error);
}

TEST(phase_clock, own_time_leaves_out_what_lies_inside) {
  phase_clock clock(100);
  {
    const listening here(&clock);
    const phase_range step(profile_phase::step, 3);
    wait_ms(4);
    {
      const phase_range inner(profile_phase::attention, 0);
      wait_ms(8);
    }
    { const phase_range inner(profile_phase::attention, 1); }
  }
  const phase_total step = total_of(clock, profile_phase::step);
  const phase_total inner = total_of(clock, profile_phase::attention);
  EXPECT_EQ(step.calls, 1);
  EXPECT_EQ(inner.calls, 2);
  EXPECT_GE(inner.seconds, 0.008);
  EXPECT_DOUBLE_EQ(inner.seconds, inner.own_seconds);
  EXPECT_GE(step.own_seconds, 0.004);
  EXPECT_NEAR(step.seconds, step.own_seconds + inner.seconds, 1e-12);
  EXPECT_NEAR(clock.seconds(), step.seconds, 1e-12);
  ASSERT_EQ(clock.events().size(), 3U);  // in the order they end
  EXPECT_EQ(clock.events()[0].payload, 0);
  EXPECT_EQ(clock.events()[2].phase, profile_phase::step);
  EXPECT_EQ(clock.events()[2].payload, 3);
  EXPECT_LE(clock.events()[2].begin, clock.events()[0].begin);
}

TEST(phase_clock, bytes_are_unknown_as_soon_as_one_report_lacks_them) {
  phase_clock clock;
  clock.work(profile_phase::project, {2, 10, 100.0});
  clock.work(profile_phase::project, {3, 20, 200.0});
  clock.work(profile_phase::selection, {0, 5, std::nullopt});
  const phase_total project = total_of(clock, profile_phase::project);
  EXPECT_EQ(project.rows, 5);
  EXPECT_EQ(project.flops, 30);
  EXPECT_EQ(project.bytes, 300);
  EXPECT_TRUE(project.bytes_known);
  EXPECT_FALSE(total_of(clock, profile_phase::selection).bytes_known);
}

TEST(phase_clock, events_beyond_the_limit_are_counted_and_totals_are_whole) {
  phase_clock clock(2);
  for (int i = 0; i < 5; ++i) {
    clock.enter(profile_phase::embed, i);
    clock.leave(profile_phase::embed);
  }
  EXPECT_EQ(clock.events().size(), 2U);
  EXPECT_EQ(clock.events_left_out(), 3);
  EXPECT_EQ(total_of(clock, profile_phase::embed).calls, 5);
}

TEST(phase_clock, ranges_that_do_not_nest_are_refused) {
  phase_clock clock;
  EXPECT_THROW(clock.leave(profile_phase::step), std::logic_error);
  clock.enter(profile_phase::step, 0);
  clock.enter(profile_phase::layer, 0);
  EXPECT_FALSE(clock.balanced());
  EXPECT_THROW(clock.leave(profile_phase::step), std::logic_error);
}

TEST(listening, belongs_to_one_thread_and_one_scope) {
  phase_clock outer, inner;
  EXPECT_EQ(current_listener(), nullptr);
  {
    const listening a(&outer);
    {
      const listening b(&inner);
      EXPECT_EQ(current_listener(), &inner);
      std::thread([] { EXPECT_EQ(current_listener(), nullptr); }).join();
    }
    EXPECT_EQ(current_listener(), &outer);
  }
  EXPECT_EQ(current_listener(), nullptr);
}

TEST(listening, a_range_reports_to_the_listener_it_began_with) {
  phase_clock clock;
  {
    const phase_range before(profile_phase::step, 0);
    const listening here(&clock);
    const phase_range inside(profile_phase::layer, 0);
  }
  EXPECT_EQ(total_of(clock, profile_phase::step).calls, 0);
  EXPECT_EQ(total_of(clock, profile_phase::layer).calls, 1);
}

TEST(chrome_trace, is_json_with_processes_threads_and_nested_events) {
  const std::vector<phase_event> events = {{profile_phase::attention, 1, 1500, 2500},
                                           {profile_phase::layer, 1, 1500, 9000},
                                           {profile_phase::step, 0, 1000, 10001}};
  const std::vector<device_slice> slices = {
      {"kernel<\"a\">\xff", 2000, 4321, 0, 7, profile_phase::attention, true},
      {"stray", 5000, 5001, 1, 9, profile_phase::step, false}};
  std::ostringstream out;
  write_chrome_trace(out, "title \"quoted\"", events, slices);
  const auto trace = nlohmann::json::parse(out.str());
  std::vector<nlohmann::json> complete;
  std::set<int> processes;
  for (const auto& e : trace["traceEvents"]) {
    ASSERT_TRUE(e["ph"] == "X" || e["ph"] == "M");
    if (e["ph"] == "X") complete.push_back(e);
    if (e["ph"] == "M" && e["name"] == "process_name") processes.insert(e["pid"].get<int>());
  }
  EXPECT_EQ(processes, (std::set<int>{1, 2, 3}));
  ASSERT_EQ(complete.size(), 5U);
  // Outer before inner, also where both begin at once.
  EXPECT_EQ(complete[0]["name"], "step");
  EXPECT_EQ(complete[1]["name"], "layer");
  EXPECT_EQ(complete[2]["name"], "attention");
  EXPECT_DOUBLE_EQ(complete[0]["ts"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(complete[0]["dur"].get<double>(), 9.001);
  EXPECT_EQ(complete[2]["args"]["payload"], 1);
  EXPECT_EQ(complete[3]["pid"], 2);
  EXPECT_EQ(complete[3]["tid"], 7);
  EXPECT_EQ(complete[3]["args"]["phase"], "attention");
  EXPECT_DOUBLE_EQ(complete[3]["dur"].get<double>(), 2.321);
  EXPECT_EQ(complete[4]["args"]["phase"], "unattributed");
}

// Two steps with one forward each; request 7 is in both, request 9 in the first.
TEST(chrome_trace, draws_counters_from_the_step_on_and_a_flow_for_each_request) {
  const std::vector<phase_event> events = {{profile_phase::denoise, 2, 2000, 4000},
                                           {profile_phase::step, 0, 1000, 6000},
                                           {profile_phase::commit_forward, 1, 11000, 13000},
                                           {profile_phase::step, 1, 10000, 15000}};
  step_numbers first{2, 64, 20, 300, 4096, 30, 2, {7, 9}}, second{1, 32, 32, 150, 4096, 30, 0, {7}};
  std::ostringstream out;
  write_chrome_trace(out, "t", events, {}, {{5000, first}, {14000, second}},
                     {{"power, W", {{1500, 400.5}}}});
  const auto trace = nlohmann::json::parse(out.str());
  std::map<std::string, std::vector<std::pair<double, double>>> counters;
  std::map<std::int64_t, std::string> flow;
  std::vector<double> bound;
  for (const auto& e : trace["traceEvents"]) {
    const std::string kind = e["ph"];
    if (kind == "C") {
      counters[e["name"]].emplace_back(e["ts"].get<double>(), e["args"]["value"].get<double>());
    } else if (kind == "s" || kind == "t" || kind == "f") {
      flow[e["id"].get<std::int64_t>()] += kind;
      bound.push_back(e["ts"].get<double>());
    }
  }
  using points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(counters["masked left"], (points{{1, 30}, {10, 30}}));
  EXPECT_EQ(counters["committed"], (points{{1, 2}, {10, 0}}));
  EXPECT_EQ(counters["rows, last layer"], (points{{1, 20}, {10, 32}}));
  EXPECT_EQ(counters["K/V bytes"], (points{{1, 4096}, {10, 4096}}));
  EXPECT_EQ(counters["power, W"], (points{{1.5, 400.5}}));
  EXPECT_EQ(counters.size(), 8U);
  EXPECT_EQ(flow, (std::map<std::int64_t, std::string>{{7, "sf"}})) << "one forward is no flow";
  EXPECT_EQ(bound, (std::vector<double>{3, 12})) << "inside the forwards";
}

}  // namespace
}  // namespace unmask
