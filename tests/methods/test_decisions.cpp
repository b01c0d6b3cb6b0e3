// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decisions are one list of events, and the answer is what they make: for every method, what the last
// event of a position says is what the answer holds there, wherever the events are read.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "harness/engine/trajectory.h"
#include "harness/measure/probe.h"
#include "methods/settings.h"
#include "tests/methods/cases.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;
using nlohmann::json;
using token_list = std::vector<std::int32_t>;

// Of each request what its events made of the canvas; -1 where it is masked.
struct event_canvases final : step_observer {
  void on_step(const step_view& step) override {
    recorder.on_step(step);
    for (const decision_event& d : step.decisions) {
      const sequence& q = step.state.at(d.sequence);
      ASSERT_GE(d.position, q.prompt_length);
      ASSERT_LT(d.position, q.length);
      token_list& canvas = of[q.request.id];
      canvas.resize(static_cast<std::size_t>(q.length - q.prompt_length), -1);
      canvas[static_cast<std::size_t>(d.position - q.prompt_length)] = d.token;
      revised += d.what == decision_replace || d.what == decision_reopen;
    }
  }
  trajectory_recorder recorder;
  std::map<std::int64_t, token_list> of;
  std::int64_t revised = 0;
};

// The answer of this canvas: its first positions. Where nothing was decided it has the filler, or behind a
// stop the stop once more, as loops that end a whole canvas write it.
token_list answer_of(const token_list& canvas, const token_list& answer, const model_config& c) {
  token_list made(canvas.begin(), canvas.begin() + static_cast<std::ptrdiff_t>(answer.size()));
  const std::int32_t filler = c.mask_id >= 0 ? c.mask_id : std::max(c.eos_id, 0);
  bool stopped = false;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i] >= 0) {
      stopped = stopped || std::ranges::find(c.stop_ids, made[i]) != c.stop_ids.end();
    } else {
      made[i] = stopped && answer[i] == c.stop_ids.front() ? answer[i] : filler;
    }
  }
  return made;
}

std::vector<sequence_request> numbered_requests(std::uint64_t seed) {
  std::vector<sequence_request> requests = tiny_requests(5, 24, seed);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].id = static_cast<std::int64_t>(i);
  return requests;
}

parameters resolved(const setting& p, const parameter_map& given) {
  return parameters(method_registry::instance().find(p.method).resolve(p.preset, given));
}

// The setting, and if the method can draw its tokens under it, the same with a temperature.
std::vector<parameter_map> variants(const setting& p, const model_config& model) {
  std::vector<parameter_map> all = {p.given};
  const method_registry& methods = method_registry::instance();
  const auto& declared = methods.find(p.method).parameters;
  if (p.given.contains("temperature") ||
      std::ranges::find(declared, "temperature", &parameter_spec::name) == declared.end()) {
    return all;
  }
  const parameter_map drawn = with(p.given, {{"temperature", 0.7}});
  const test::failure refused =
      test::failure_of([&] { methods.make(p.method, model, resolved(p, drawn)); });
  if (refused.sentence.empty()) all.push_back(drawn);
  return all;
}

class every_decision : public ::testing::TestWithParam<setting> {};

TEST_P(every_decision, of_a_batch_make_its_answers) {
  const setting& p = GetParam();
  static const auto edits = all_cases("edits");
  const auto model = tiny_model(p.family, reference_backend());
  for (const parameter_map& given : variants(p, model->config())) {
    for (const std::uint64_t seed : {3U, 11U}) {
      const auto requests = numbered_requests(seed);
      event_canvases seen;
      const closed_loop_result run =
          decode_closed(*model, p.method, given, requests, 3, p.preset, &seen);
      std::vector<token_list> of_events, of_trajectories;
      std::int64_t revised = 0;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const decoded_answer& answer = run.answers[i];
        const auto id = static_cast<std::int64_t>(i);
        of_events.push_back(answer_of(seen.of.at(id), answer.output, model->config()));
        const trajectory t = seen.recorder.of(id);
        const token_list step = t.steps();
        token_list canvas = t.tokens();
        for (std::size_t at = 0; at < canvas.size(); ++at) {
          if (step[at] < 0) canvas[at] = -1;
        }
        of_trajectories.push_back(answer_of(canvas, answer.output, model->config()));
        revised += answer.counters.replaced + answer.counters.reopened;
      }
      EXPECT_EQ(of_events, outputs(run)) << p.label << " seed " << seed;
      EXPECT_EQ(of_trajectories, outputs(run)) << p.label << " seed " << seed;
      EXPECT_LE(seen.revised, revised);  // a mask that was decided as a mask is counted alone
      if (edits.contains(p.method)) {
        EXPECT_GT(seen.revised, 0) << p.label;
      }
    }
  }
}

// What the probes write down: forward by forward for the player, and every candidate's fate.
TEST_P(every_decision, that_are_written_down_make_the_answers) {
  const setting& p = GetParam();
  const auto model = tiny_model(p.family, reference_backend());
  for (const parameter_map& given : variants(p, model->config())) {
    auto requests = numbered_requests(5);
    requests.resize(2);
    probe_settings settings;
    settings.names = {"stagnation"};
    // Layers of rows that see keys by views are not shown, so the player has no trace of them.
    const method_registry& methods = method_registry::instance();
    const recipe made_of = methods.make(p.method, model->config(), resolved(p, given));
    const bool plays = made_of.rows->traits().views == 0;
    if (plays) settings.names.emplace_back("decode_trace");
    std::ostringstream written;
    const probe_source source;
    probe_recorder recorder(settings, source, written);
    const closed_loop_result run =
        decode_closed(*model, p.method, given, requests, 1, p.preset, &recorder);
    recorder.finish();
    std::map<std::string, std::vector<token_list>> made;
    std::istringstream lines(written.str());
    for (std::string line; std::getline(lines, line);) {
      const json of = json::parse(line);
      const auto kind = of.at("kind").get<std::string>();
      if (kind != "decode" && kind != "request") continue;
      const std::size_t prompt =
          kind == "decode" ? of.at("prompt").size() : of.at("prompt").get<std::size_t>();
      const std::size_t length = kind == "decode" ? of.at("length").get<std::size_t>() - prompt
                                                  : of.at("canvas").get<std::size_t>();
      token_list canvas(length, -1);
      const auto put = [&](const json& position, std::int32_t token) {
        canvas.at(position.get<std::size_t>() - prompt) = token;
      };
      for (const json& step : of.at("steps")) {
        const json &position = step.at("position"), &token = step.at("token");
        if (kind == "request") {
          for (std::size_t i = 0; i < position.size(); ++i) {
            if (step.at("accepted")[i]) put(position[i], token[i]);
          }
          for (const json& e : step.value("edits", json::array())) put(e[0], e[1]);
          continue;
        }
        for (const char* list : {"accepted", "replaced"}) {
          for (const std::size_t i : step.value(list, json::array())) put(position[i], token[i]);
        }
        for (const std::size_t i : step.value("reopened", json::array())) put(position[i], -1);
      }
      const token_list& answer = run.answers[made[kind].size()].output;
      made[kind].push_back(answer_of(canvas, answer, model->config()));
    }
    if (plays) {
      EXPECT_EQ(made["decode"], outputs(run)) << p.label;
    }
    EXPECT_EQ(made["request"], outputs(run)) << p.label;
  }
}

INSTANTIATE_TEST_SUITE_P(methods, every_decision, ::testing::ValuesIn(all_settings()),
                         [](const auto& setting) { return setting.param.label; });

TEST(decisions, of_every_method_are_tried) {
  std::vector<std::string> tried;
  for (const method_settings& m : all_method_settings()) tried.push_back(m.method);
  EXPECT_EQ(tried, method_registry::instance().names());
}

// Its folder says with which parameters such a method edits, so that the tests of edits meet it.
TEST(decisions, that_a_method_may_revise_are_a_case_in_its_folder) {
  std::set<std::string> revising, in_folders;
  for (const setting& p : all_settings()) {
    const recipe made =
        method_registry::instance().make(p.method, tiny_config(p.family), resolved(p, p.given));
    if (made.unmask->traits().revises()) revising.insert(p.method);
  }
  for (const auto& [method, edits] : all_cases("edits")) in_folders.insert(method);
  EXPECT_EQ(revising, in_folders);
}

}  // namespace
}  // namespace unmask
