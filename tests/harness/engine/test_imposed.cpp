// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Commits imposed on computed layers: a recording replayed on its own weights is the recorded run,
// counter by counter; on other weights, and with drawn commits, what each step commits is what the
// trajectory says.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "harness/engine/trajectory.h"
#include "tests/methods/tiny_models.h"
#include "tests/support.h"

namespace unmask {
namespace {

using namespace testing;

struct imposed_case {
  const char* method;
  model_family family;
  parameter_map given;
};

const std::vector<imposed_case>& cases() {
  constexpr std::int64_t eight = 8;
  static const parameter_map edits = {{"block_length", eight},
                                      {"threshold", 0.3},
                                      {"editing_threshold", 0.15},
                                      {"max_post_steps", std::int64_t{3}}};
  static const std::vector<imposed_case> all = {
      {"block_diffusion", model_family::sdar, {{"threshold", 0.5}}},
      {"block_diffusion", model_family::llada2_moe, {{"threshold", 0.5}}},
      {"delayed_cache_plus", model_family::sdar, {{"threshold", 0.5}}},
      {"focus", model_family::sdar, {{"threshold", 0.5}}},
      {"optimus", model_family::sdar, {{"threshold", 0.5}, {"chunk", 4}}},
      {"optimus", model_family::sdar, {}},
      {"vanilla", model_family::llada, {{"block_length", eight}}},
      {"fast_dllm", model_family::llada, {{"block_length", eight}, {"threshold", 0.5}}},
      {"sparse_dllm", model_family::llada, {{"block_length", eight}}},
      {"dllm_cache", model_family::llada, {{"block_length", eight}}},
      {"focus_dllm", model_family::llada, {{"block_length", eight}, {"dense_layers", 1}}},
      {"ada_dlm", model_family::llada, {}},
      {"llada21", model_family::llada2_moe, edits}};
  return all;
}

struct decoded {
  std::vector<std::vector<std::int32_t>> output;
  std::vector<sequence_counters> counters;
  std::vector<std::vector<std::int32_t>> committed;  // by every step, of each request
};

// Notes what each step commits, and records.
class watcher final : public step_observer {
 public:
  explicit watcher(std::size_t requests) : committed(requests) {}
  void on_step(const step_view& step) override {
    recorder.on_step(step);
    const std::int32_t* begin = step.candidates.begin.as<std::int32_t>();
    for (std::int32_t s = 0; s < step.state.capacity(); ++s) {
      if (begin[s + 1] == begin[s]) continue;
      const std::uint8_t* accept = step.candidates.accept.as<std::uint8_t>();
      committed[static_cast<std::size_t>(step.state.at(s).request.id)].push_back(
          std::accumulate(accept + begin[s], accept + begin[s + 1], 0));
    }
  }
  trajectory_recorder recorder;
  std::vector<std::vector<std::int32_t>> committed;
};

decoded decode(const transformer& model, const imposed_case& c, trajectory_recorder* record,
               const trajectory_source* source, bool ranks, std::int32_t answer = 24) {
  method_info method = method_registry::instance().find(c.method);
  if (source != nullptr) {
    method.make = [make = method.make, source, ranks](const model_config& config,
                                                      const parameters& p) {
      return with_imposed(make(config, p), *source, config, 1, ranks);
    };
  }
  std::vector<sequence_request> requests = tiny_requests(3, answer);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].id = static_cast<std::int64_t>(i);
  const parameters settings(resolve_parameters(c.method, method.parameters, c.given));
  watcher watch(requests.size());
  const closed_loop_result result = run_closed_loop(model, method, settings, requests, 2, &watch);
  decoded d;
  for (const decoded_answer& a : result.answers) {
    d.output.push_back(a.output);
    d.counters.push_back(a.counters);
  }
  d.committed = watch.committed;
  if (record != nullptr) *record = watch.recorder;
  return d;
}

void expect_equal_counters(const sequence_counters& got, const sequence_counters& want) {
#define UNMASK_EXPECT(type, field, metric, unit, whole, meaning) \
  EXPECT_EQ(got.field, want.field) << metric;
  UNMASK_COUNTERS(UNMASK_EXPECT)
#undef UNMASK_EXPECT
}

TEST(imposed, a_recording_on_its_own_weights_is_the_recorded_run) {
  for (const imposed_case& c : cases()) {
    SCOPED_TRACE(c.method);
    const auto model = tiny_model(c.family, cpu_backend());
    trajectory_recorder recorder;
    const decoded real = decode(*model, c, &recorder, nullptr, false);
    const trajectory_source source = [&](std::int64_t id) { return recorder.of(id); };
    const decoded imposed = decode(*model, c, nullptr, &source, false);
    EXPECT_EQ(imposed.output, real.output);
    EXPECT_EQ(imposed.committed, real.committed);
    for (std::size_t i = 0; i < real.counters.size(); ++i) {
      expect_equal_counters(imposed.counters[i], real.counters[i]);
    }
  }
}

TEST(imposed, a_recording_on_other_weights_commits_as_recorded) {
  for (const imposed_case& c : cases()) {
    if (std::string(c.method) == "ada_dlm" || std::string(c.method) == "focus_dllm") {
      continue;  // which rows enter is theirs to choose, by activations
    }
    SCOPED_TRACE(c.method);
    trajectory_recorder recorder;
    const decoded real =
        decode(*tiny_model(c.family, cpu_backend(), 512, 1), c, &recorder, nullptr, false);
    const trajectory_source source = [&](std::int64_t id) { return recorder.of(id); };
    const decoded imposed =
        decode(*tiny_model(c.family, cpu_backend(), 512, 99), c, nullptr, &source, true);
    EXPECT_EQ(imposed.output, real.output);
    EXPECT_EQ(imposed.committed, real.committed);
    for (std::size_t i = 0; i < real.counters.size(); ++i) {
      EXPECT_EQ(imposed.counters[i].forwards, real.counters[i].forwards);
      EXPECT_EQ(imposed.counters[i].rows, real.counters[i].rows);
      // The file predicts the steps: one for each recorded. Forwards that edit may decide nothing.
      if (std::string(c.method) == "llada21") continue;
      const std::vector<std::int32_t> of = recorder.of(static_cast<std::int64_t>(i)).steps();
      std::set<std::int32_t> steps(of.begin(), of.end());
      steps.erase(-1);
      EXPECT_EQ(imposed.committed[i].size(), steps.size());
    }
  }
}

// Edits go through a file, are repeated without a layer, and by the method and settings that made
// them alone.
TEST(imposed, edits_are_repeated_from_a_file) {
  imposed_case c = cases().back();
  ASSERT_EQ(std::string(c.method), "llada21");
  const auto model = tiny_model(c.family, cpu_backend());
  trajectory_recorder recorder;
  const decoded real = decode(*model, c, &recorder, nullptr, false);
  std::int64_t flips = 0;
  for (const sequence_counters& n : real.counters) flips += n.flips;
  EXPECT_GT(flips, 0);
  const scratch_folder folder;
  const std::string path = (folder.path() / "trajectories").string();
  recorder.save(path);
  const trajectory_source file = load_trajectories(path);
  for (std::int64_t id = 0; id < 3; ++id) {
    EXPECT_EQ(file(id).events, recorder.of(id).events);
    EXPECT_EQ(file(id).length, recorder.of(id).length);
  }
  std::vector<sequence_request> requests = tiny_requests(3, 24);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].id = static_cast<std::int64_t>(i);
  method_info method = method_registry::instance().find(c.method);
  method.make = [make = method.make, file](const model_config& config, const parameters& p) {
    return with_trajectory(make(config, p), file, 1);
  };
  const auto again = [&](const parameter_map& given) {
    const parameters settings(resolve_parameters(c.method, method.parameters, given));
    return run_closed_loop(*model, method, settings, requests, 2);
  };
  const closed_loop_result repeated = again(c.given);
  for (std::size_t i = 0; i < real.output.size(); ++i) {
    EXPECT_EQ(repeated.answers[i].output, real.output[i]);
    EXPECT_EQ(repeated.answers[i].counters.flips, real.counters[i].flips);
    EXPECT_EQ(repeated.answers[i].counters.forwards, real.counters[i].forwards);
  }
  parameter_map other = c.given;
  other["block_length"] = std::int64_t{4};
  test::expect_error(exit_code::run_failed,
                     "can be unmasked here. The recording must come from the same method and "
                     "settings, without interruptions",
                     [&] { again(other); });
  const trajectory_source drawn = [](std::int64_t) { return steady_trajectory(8, 2, 5, 24, 1); };
  test::expect_error(exit_code::usage, "a drawn order has no tokens",
                     [&] { decode(*model, c, nullptr, &drawn, false); });
}

TEST(imposed, steady_commits_are_what_every_step_commits_and_focus_still_drops_rows) {
  for (const imposed_case& c : cases()) {
    // A small chunk may hold one token of a step and not the other, which then comes later.
    if (c.family != model_family::sdar || c.given.contains("chunk")) continue;
    SCOPED_TRACE(c.method);
    const auto model = tiny_model(c.family, cpu_backend());
    const std::vector<sequence_request> requests = tiny_requests(3, 24);
    const trajectory_source source = [&](std::int64_t id) {
      const auto prompt =
          static_cast<std::int32_t>(requests[static_cast<std::size_t>(id)].prompt.size());
      return steady_trajectory(8, 2, prompt, 64, static_cast<std::uint64_t>(id));
    };
    const decoded imposed = decode(*model, c, nullptr, &source, true);
    std::int64_t dropped = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      // Nothing ends an answer but its length: every position is decided, two at a time, a block's
      // odd one by itself.
      EXPECT_EQ(imposed.output[i].size(), 24u);
      std::int64_t alone = 0;
      for (const std::int32_t n : imposed.committed[i]) {
        EXPECT_TRUE(n == 1 || n == 2) << n;
        alone += n == 1;
      }
      EXPECT_LE(alone, 2) << "the first and the last block may be cut";
      dropped += imposed.counters[i].rows_dropped;
    }
    if (std::string(c.method) == "focus") {
      EXPECT_GT(dropped, 0);
    }
  }
}

TEST(imposed, steady_trajectories_fill_blocks_on_absolute_positions) {
  const std::vector<std::int32_t> step =
      steady_trajectory(8, 3, 5, 12, 7).steps();  // blocks: 3 tokens, 8 tokens, 1 token
  std::vector<std::int32_t> count(8);
  for (const std::int32_t s : step) ++count[static_cast<std::size_t>(s)];
  EXPECT_EQ(count, (std::vector<std::int32_t>{3, 3, 3, 2, 1, 0, 0, 0}));
  EXPECT_LT(*std::max_element(step.begin(), step.begin() + 3), step[3]);
}

}  // namespace
}  // namespace unmask
