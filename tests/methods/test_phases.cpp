// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The phases of a step (harness/profile/phases.h) for every registered method: what nests in what,
// which phases must be there, what the payloads count, and that the work told to a listener is the
// work that the step loop accounts for. Where NVTX is built in, the ranges that a profiler sees are
// recorded too and must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "harness/profile/phase_clock.h"
#include "harness/profile/phases.h"
#include "tests/methods/tiny_models.h"
#if UNMASK_HAS_NVTX
#include "tests/harness/profile/nvtx_recorder.h"
#include "tests/registered.h"
#endif

namespace unmask {
namespace {

using namespace testing;

struct seen_event {
  bool push = false;
  profile_phase phase = profile_phase::step;
  std::int64_t payload = 0;
};

class recorder final : public phase_listener {
 public:
  std::vector<seen_event> events;
  std::map<profile_phase, phase_work> total;

  void enter(profile_phase phase, std::int64_t payload) override {
    events.push_back({true, phase, payload});
  }
  void leave(profile_phase phase) override { events.push_back({false, phase, 0}); }
  void work(profile_phase phase, const phase_work& done) override {
    phase_work& t = total[phase];
    t.rows += done.rows;
    t.flops += done.flops;
    t.bytes = t.bytes.value_or(0) + done.bytes.value_or(0);
  }
};

// One range with what lies in it.
struct node {
  profile_phase phase = profile_phase::run;
  std::int64_t payload = 0;
  std::vector<node> inside;

  std::size_t count(profile_phase p) const {
    return static_cast<std::size_t>(
        std::count_if(inside.begin(), inside.end(), [p](const node& n) { return n.phase == p; }));
  }
};

// The tree of a sequence of events; empty when pushes and pops do not balance.
std::optional<std::vector<node>> tree_of(const std::vector<seen_event>& events) {
  std::vector<node> open(1);
  for (const seen_event& e : events) {
    if (e.push) {
      open.push_back({e.phase, e.payload, {}});
      continue;
    }
    if (open.size() < 2 || open.back().phase != e.phase) return std::nullopt;
    node done = std::move(open.back());
    open.pop_back();
    open.back().inside.push_back(std::move(done));
  }
  if (open.size() != 1) return std::nullopt;
  return std::move(open.front().inside);
}

bool is_forward(profile_phase p) {
  return p == profile_phase::prefill || p == profile_phase::denoise ||
         p == profile_phase::commit_forward || p == profile_phase::mixed_forward;
}

void check_layer(const node& layer, std::int64_t index, bool stored_outputs) {
  EXPECT_EQ(layer.phase, profile_phase::layer);
  EXPECT_EQ(layer.payload, index);
  for (const node& n : layer.inside) {
    EXPECT_TRUE(n.inside.empty()) << name_of(n.phase);
    EXPECT_EQ(n.payload, index) << name_of(n.phase);
    EXPECT_FALSE(is_container(n.phase)) << name_of(n.phase);
  }
  EXPECT_EQ(layer.count(profile_phase::accounting), 1U);
  EXPECT_GE(layer.count(profile_phase::selection), 1U);
  EXPECT_GE(layer.count(profile_phase::cache_update), 1U);
  for (const profile_phase p : {profile_phase::attention, profile_phase::attention_output,
                                profile_phase::feed_forward, profile_phase::project}) {
    if (stored_outputs) {  // a layer may have nothing due
      EXPECT_LE(layer.count(p), p == profile_phase::project ? 2U : 1U) << name_of(p);
    } else {
      EXPECT_EQ(layer.count(p), 1U) << name_of(p);
    }
  }
}

void check_forward(const node& forward, std::int64_t places, std::int64_t layers, bool stored) {
  EXPECT_GE(forward.payload, 1);
  EXPECT_LE(forward.payload, places);
  EXPECT_EQ(forward.count(profile_phase::selection), 1U);
  EXPECT_EQ(forward.count(profile_phase::embed), 1U);
  EXPECT_EQ(forward.count(profile_phase::final_norm), 1U);
  EXPECT_EQ(static_cast<std::int64_t>(forward.count(profile_phase::layer)), layers);
  std::int64_t index = 0;
  for (const node& n : forward.inside) {
    if (n.phase == profile_phase::layer) check_layer(n, index++, stored);
  }
}

// Returns true when the step decided something.
bool check_step(const node& step, std::int64_t index, std::int64_t places, std::int64_t layers,
                bool stored) {
  EXPECT_EQ(step.phase, profile_phase::step);
  EXPECT_EQ(step.payload, index);
  if (step.inside.size() < 2) {
    ADD_FAILURE() << "a step without a forward";
    return false;
  }
  EXPECT_EQ(step.inside[0].phase, profile_phase::plan);
  EXPECT_EQ(step.inside[0].payload, index);
  EXPECT_TRUE(is_forward(step.inside[1].phase)) << name_of(step.inside[1].phase);
  check_forward(step.inside[1], places, layers, stored);
  std::vector<profile_phase> rest;
  std::set<std::int64_t> candidates;
  for (std::size_t i = 2; i < step.inside.size(); ++i) {
    const node& n = step.inside[i];
    EXPECT_TRUE(n.inside.empty()) << name_of(n.phase);
    rest.push_back(n.phase);
    if (n.phase == profile_phase::lm_head || n.phase == profile_phase::decide ||
        n.phase == profile_phase::commit) {
      candidates.insert(n.payload);
    }
  }
  const std::vector<profile_phase> decides = {profile_phase::candidates, profile_phase::lm_head,
                                              profile_phase::decide,     profile_phase::commit,
                                              profile_phase::settle,     profile_phase::accounting};
  const std::vector<profile_phase> nothing = {profile_phase::candidates, profile_phase::settle,
                                              profile_phase::accounting};
  EXPECT_TRUE(rest == decides || rest == nothing) << "step " << index;
  if (rest != decides) return false;
  EXPECT_EQ(candidates.size(), 1U);
  EXPECT_GT(*candidates.begin(), 0);
  return true;
}

// A model that the method decodes, and parameters small enough for it.
struct fitting {
  model_family family = model_family::llada;
  parameter_map given;
};

std::optional<fitting> fit(const method_info& method) {
  for (const model_family family : {model_family::llada, model_family::sdar, model_family::qwen3,
                                    model_family::dream, model_family::qwen2}) {
    fitting f{family, {}};
    for (const parameter_spec& p : method.parameters) {
      if (p.name == "block_length") f.given["block_length"] = 8;
      if (p.name == "dense_layers") f.given["dense_layers"] = 1;
    }
    try {
      test::recipe_of(method.name, tiny_config(family), f.given);
      return f;
    } catch (const error&) {
    }
  }
  return std::nullopt;
}

class phases_of : public ::testing::TestWithParam<std::string> {};

TEST_P(phases_of, every_step_has_its_phases_and_their_work_is_the_work_counted) {
  const method_info& method = method_registry::instance().find(GetParam());
  const std::optional<fitting> fitted = fit(method);
  ASSERT_TRUE(fitted) << "no tiny model fits; extend fit()";
  const auto model = tiny_model(fitted->family, cpu_backend(), 512);
  const std::int32_t places = 2;
  const auto requests = tiny_requests(3, 16);

  recorder seen;
  closed_loop_result result;
#if UNMASK_HAS_NVTX
  take_nvtx_events();
#endif
  {
    const listening while_here(&seen);
    result = testing::decode_closed(*model, method.name, fitted->given, requests, places);
  }
#if UNMASK_HAS_NVTX
  const std::vector<nvtx_event> nvtx = take_nvtx_events();
  ASSERT_EQ(nvtx.size(), seen.events.size());
  for (std::size_t i = 0; i < nvtx.size(); ++i) {
    ASSERT_EQ(nvtx[i].domain, "unmask");
    ASSERT_EQ(nvtx[i].what == nvtx_event::kind::push, seen.events[i].push) << i;
    if (!seen.events[i].push) continue;
    ASSERT_EQ(nvtx[i].name, name_of(seen.events[i].phase)) << i;
    ASSERT_TRUE(nvtx[i].registered) << nvtx[i].name;
    ASSERT_EQ(nvtx[i].category, name_of(category_of(seen.events[i].phase))) << i;
    ASSERT_EQ(nvtx[i].payload, seen.events[i].payload) << i;
  }
#endif

  const auto tree = tree_of(seen.events);
  ASSERT_TRUE(tree) << "pushes and pops do not balance";
  ASSERT_EQ(tree->size(), 1U);
  const node& run = tree->front();
  EXPECT_EQ(run.phase, profile_phase::run);
  EXPECT_EQ(run.payload, 3);
  ASSERT_EQ(static_cast<std::int64_t>(run.inside.size()), result.steps);
  const bool stored =
      test::recipe_of(method.name, model->config(), fitted->given).features != nullptr;
  int deciding = 0;
  for (std::size_t i = 0; i < run.inside.size(); ++i) {
    deciding += check_step(run.inside[i], static_cast<std::int64_t>(i), places,
                           model->config().layers, stored);
    if (::testing::Test::HasFailure()) FAIL() << "first failure in step " << i;
  }
  EXPECT_GT(deciding, 0);

  double flops = 0, counted_flops = 0, selection = 0, rows = 0, head_rows = 0;
  for (const auto& [phase, work] : seen.total) flops += work.flops;
  for (const decoded_answer& a : result.answers) {
    counted_flops += a.counters.flops;
    selection += a.counters.selection_flops;
    rows += static_cast<double>(a.counters.rows);
    head_rows += static_cast<double>(a.counters.head_rows);
  }
  EXPECT_NEAR(flops, counted_flops, 1e-9 * counted_flops);
  EXPECT_NEAR(seen.total[profile_phase::selection].flops, selection, 1e-9 * counted_flops);
  EXPECT_EQ(seen.total[profile_phase::embed].rows, rows);
  EXPECT_EQ(seen.total[profile_phase::lm_head].rows, head_rows);
  for (const profile_phase p :
       {profile_phase::embed, profile_phase::project, profile_phase::cache_update,
        profile_phase::attention, profile_phase::attention_output, profile_phase::feed_forward,
        profile_phase::lm_head}) {
    EXPECT_GT(seen.total[p].bytes.value_or(0), 0) << name_of(p);
  }
}

INSTANTIATE_TEST_SUITE_P(method, phases_of,
                         ::testing::ValuesIn(method_registry::instance().names()),
                         [](const auto& test) { return test.param; });

TEST(phases, listening_changes_no_token) {
  const auto model = tiny_model(model_family::llada, cpu_backend(), 512);
  const auto requests = tiny_requests(2, 16);
  const parameter_map given = {{"block_length", 8}};
  const auto alone =
      testing::outputs(testing::decode_closed(*model, "fast_dllm", given, requests, 2));
  phase_clock clock;
  const listening while_here(&clock);
  EXPECT_EQ(testing::outputs(testing::decode_closed(*model, "fast_dllm", given, requests, 2)),
            alone);
}

TEST(phases, own_times_of_a_run_add_up_to_its_wall_time_and_to_what_the_loop_measures) {
  const auto model = tiny_model(model_family::llada, cpu_backend(), 512);
  phase_clock clock;
  closed_loop_result result;
  {
    const listening while_here(&clock);
    result = testing::decode_closed(*model, "sparse_dllm", {{"block_length", 8}},
                                    tiny_requests(2, 16), 2);
  }
  EXPECT_TRUE(clock.balanced());
  double own = 0, selection = 0, forward = 0, step = 0;
  for (const phase_total& t : clock.totals()) {
    own += t.own_seconds;
    if (t.phase == profile_phase::selection) selection = t.seconds;
    if (is_forward(t.phase)) forward += t.seconds;
    if (t.phase == profile_phase::step) step += t.seconds;
  }
  EXPECT_NEAR(own, clock.seconds(), 1e-6 * clock.seconds());
  // The loop's own stopwatches stand inside the ranges.
  EXPECT_GE(clock.seconds(), result.seconds);
  EXPECT_GE(step, result.all_seconds());
  EXPECT_GT(result.all_seconds(), result.step_seconds);
  EXPECT_GE(selection, result.selection_seconds);
  EXPECT_GT(selection, 0);
  EXPECT_LT(selection, forward);  // every range of it lies in one of a forward
}

}  // namespace
}  // namespace unmask
