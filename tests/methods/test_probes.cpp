// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The probes of decisions on real trajectories of small models: what must hold whatever the weights are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/methods/probed.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using enum model_family;

using nlohmann::json;
using namespace testing;

TEST(probes, all_are_there_and_change_no_token) {
  EXPECT_EQ(probe_names(), (std::vector<std::string>{"attention", "confidence", "contradiction",
                                                     "decode_trace", "decoding", "importance",
                                                     "kv_change", "peak_oracle", "stagnation"}));
  probe_settings unknown;
  unknown.names = {"atention"};
  std::ostringstream nothing;
  EXPECT_THROW(probe_recorder(unknown, {}, nothing), error);
  const tried runs[] = {{"vanilla", llada, blocks_of_8},
                        {"vanilla", dream, {}},
                        {"ada_dlm", dream, {{"k", 0.3}}},
                        {"ada_dlm", llada, {{"execution", "ffn_only"}}},
                        {"block_diffusion", sdar, {{"threshold", 0.5}}},
                        {"autoregressive", qwen3, {}}};
  for (const auto& r : runs) {
    const probed all = look(probe_names(), r.method, r.family, r.given);
    const auto model = tiny_model(r.family, reference_backend());
    EXPECT_EQ(outputs(all.run),
              outputs(decode_closed(*model, r.method, r.given, tiny_requests(3, 16), 1)));
    for (const std::string& name : probe_names()) {
      EXPECT_EQ(all.results.at(name).at("requests"), 3) << r.method << " " << name;
    }
  }
}

TEST(probes, decoding_counts_what_the_loop_counts) {
  for (const model_family family : {llada, sdar}) {
    const bool blocks = family == sdar;
    const probed p = look({"decoding"}, blocks ? "block_diffusion" : "vanilla", family,
                          {{"block_length", 8}, {"threshold", 0.4}});
    std::int64_t committed = 0, rows = 0, steps = 0, head = 0, weighted = 0, counted = 0;
    for (const decoded_answer& a : p.run.answers) {
      committed += a.counters.committed;
      rows += a.counters.decode_rows;
      head += a.counters.head_rows;
    }
    const json& d = p.results.at("decoding");
    const auto histogram = d.at("histogram").get<std::vector<std::int64_t>>();
    for (std::size_t n = 0; n < histogram.size(); ++n) {
      steps += histogram[n];
      weighted += histogram[n] * static_cast<std::int64_t>(n);
      counted += n > 1 ? histogram[n] : 0;
    }
    EXPECT_EQ(d.at("steps"), steps);
    EXPECT_EQ(d.at("decided"), weighted);
    // A vanilla loop may decide the mask id, which commits nothing.
    EXPECT_GE(weighted, committed);
    if (blocks) {
      EXPECT_EQ(weighted, committed);
    }
    EXPECT_EQ(d.at("rows"), rows);
    EXPECT_EQ(d.at("judged"), head);
    EXPECT_GT(counted, 0);
  }
}

// One token per step and block: within the block every step before judged all that is left, so the
// sixteen most confident hold every token, and the best one alone holds fewer.
TEST(probes, recall_ends_at_one) {
  const probed p = look({"confidence"}, "vanilla", llada, blocks_of_8);
  const json& c = p.results.at("confidence");
  const auto recall = c.at("recall").at("value").get<std::vector<double>>();
  EXPECT_EQ(c.at("recall").at("k"), json({1, 2, 4, 8, 16}));
  EXPECT_EQ(recall[4], 1);
  EXPECT_LT(recall[0], 1);
  EXPECT_GT(recall[0], 0);
  for (std::size_t i = 1; i < recall.size(); ++i) EXPECT_GE(recall[i], recall[i - 1]);
  EXPECT_EQ(c.at("recall").at("tokens"), 3 * 2 * 7);  // all but the first of each block
  EXPECT_EQ(c.at("pairs"), 3 * 2 * (7 + 6 + 5 + 4 + 3 + 2 + 1));
  EXPECT_LE(std::fabs(c.at("correlation").get<double>()), 1);
}

TEST(probes, stagnation_follows_its_threshold) {
  const auto share = [](double tau) {
    probe_settings s;
    s.tau = tau;
    return look({"stagnation"}, "vanilla", llada, blocks_of_8, s).results.at("stagnation");
  };
  const json none = share(0), some = share(0.5), all = share(1.1);
  EXPECT_EQ(none.at("stagnant"), 0);
  EXPECT_EQ(none.at("missed_stable").at("share"), 0);
  EXPECT_EQ(all.at("missed_stable").at("share"), 1);
  EXPECT_LE(none.at("stagnant"), some.at("stagnant"));
  EXPECT_LE(some.at("stagnant"), all.at("stagnant"));
  EXPECT_LT(none.at("stagnant"), all.at("stagnant"));
  EXPECT_EQ(all.at("active_by_step").get<std::vector<double>>(),
            (std::vector<double>{8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1}));
  std::int64_t decided = 0;
  for (const std::int64_t n : all.at("decided_confidence").get<std::vector<std::int64_t>>()) {
    decided += n;
  }
  EXPECT_EQ(decided, 3 * steps_per_request);
  EXPECT_EQ(all.at("decline").at("decided"), decided);
}

struct shown_candidate {
  std::int32_t position, token;
  float confidence;
  bool accepted;
  std::uint8_t edit = decision_keep;  // of a decided position
};
using shown_trace = std::vector<std::vector<shown_candidate>>;

// Shows an observer a trace written by hand: prompt of two tokens, positions 2 .. 5.
void play(probe_recorder& observer, const shown_trace& trace) {
  const backend& backend = reference_backend();
  const model_config model = tiny_config(llada);
  batch b(backend, model, 1, 6);
  sequence_request request;
  request.prompt = {1, 1};
  request.gen_length = 4;
  b.admit(0, request, 6);
  step_choice plan;
  plan.of.resize(1);
  candidate_lists c = make_candidate_lists(backend, 1, 4);
  for (const auto& step : trace) {
    c.count = static_cast<std::int32_t>(step.size());
    for (std::size_t i = 0; i < step.size(); ++i) {
      c.position.as<std::int32_t>()[i] = step[i].position;
      c.token.as<std::int32_t>()[i] = step[i].token;
      c.probability.as<float>()[i] = step[i].confidence;
    }
    std::vector<decision_event> events;
    for (const auto& [position, token, confidence, accepted, edit] : step) {
      const std::uint8_t what = accepted ? std::uint8_t{decision_take} : edit;
      if (what == decision_keep) continue;
      events.push_back({0, position, what == decision_reopen ? -1 : token, what, confidence});
    }
    observer.on_step({b, plan, {}, nullptr, {}, c, {}, events});
    for (const decision_event& e : events) {
      b.set_state(0, e.position, e.position + 1,
                  e.what == decision_reopen ? state_masked : state_decoded);
    }
    b.advance_step(0);
  }
}

// Two requests. The first: position 2 declines from 0.8 (token 5) to 0.6 (token 6), 3 from 0.91
// to 0.7 with one token, 4 is decided at once, 5 last. The second: all at once.
const shown_trace by_hand_first = {
    {{2, 5, 0.8F, false}, {3, 7, 0.91F, false}, {4, 8, 0.95F, true}, {5, 9, 0.1F, false}},
    {{2, 6, 0.6F, true}, {3, 7, 0.7F, true}, {5, 9, 0.2F, false}},
    {{5, 9, 0.99F, true}}};
const shown_trace by_hand_second = {
    {{2, 1, 0.91F, true}, {3, 2, 0.91F, true}, {4, 3, 0.91F, true}, {5, 60, 0.91F, true}}};

json played(const std::string& name, const probe_source& source) {
  probe_settings settings;
  settings.names = {name};
  std::ostringstream written;
  probe_recorder recorder(settings, source, written);
  play(recorder, by_hand_first);
  play(recorder, by_hand_second);
  recorder.finish();
  return computed(written).at(name);
}

// Reference answers: 5 7 8 9 and 1 2 3 60; a score is the share of their tokens.
std::optional<double> by_hand_score(std::size_t request, std::span<const std::int32_t> canvas) {
  const std::vector<std::int32_t> right =
      request == 0 ? std::vector<std::int32_t>{5, 7, 8, 9} : std::vector<std::int32_t>{1, 2, 3, 60};
  double same = 0;
  for (std::size_t i = 0; i < 4; ++i) same += canvas[i] == right[i];
  return same / 4;
}

TEST(probes, stagnation_by_hand) {
  probe_source source;
  source.score = by_hand_score;
  const json s = played("stagnation", source);
  EXPECT_EQ(s.at("requests"), 2);
  const json& d = s.at("decline");
  EXPECT_EQ(d.at("decided"), 8);
  EXPECT_EQ(d.at("declined"), 2);
  EXPECT_EQ(d.at("share"), 0.25);
  EXPECT_EQ(d.at("other_token"), 1);
  EXPECT_EQ(d.at("other_token_share"), 0.5);
  EXPECT_NEAR(d.at("mean_drop").get<double>(), 0.205, 1e-6);
  // Token 5 at the peak was right, the committed 6 was not.
  EXPECT_EQ(d.at("scored"), 1);
  EXPECT_EQ(d.at("peak_better"), 1);
  EXPECT_EQ(d.at("committed_better"), 0);
  EXPECT_EQ(d.at("equal"), 0);
  // Stable and below 0.9 in the first request: in step 0 position 5 of 3, 4, 5; in step 1 all of 2,
  // 3, 5; in step 2 none of one. In the second: none of four.
  const json& m = s.at("missed_stable");
  EXPECT_EQ(m.at("stable"), 3 + 3 + 1 + 4);
  EXPECT_EQ(m.at("missed"), 1 + 3);
  EXPECT_NEAR(m.at("step_mean").get<double>(), (1.0 / 3 + 1 + 0 + 0) / 4, 1e-12);
  EXPECT_EQ(m.at("step_max"), 1);
  EXPECT_NEAR(m.at("sample_mean").get<double>(), (4.0 / 7 + 0) / 2, 1e-12);
  EXPECT_NEAR(m.at("sample_max").get<double>(), 4.0 / 7, 1e-12);
  EXPECT_EQ(s.at("active_by_step"), json({4, 1.5, 0.5}));
  // Without a scorer nobody is right.
  EXPECT_EQ(played("stagnation", {}).at("decline").at("scored"), 0);
}

// By position: the step that decided it, -1 for none, and its token.
trajectory decided_at(const std::vector<std::int32_t>& step,
                      const std::vector<std::int32_t>& token) {
  trajectory t{static_cast<std::int32_t>(step.size()), {}};
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i] >= 0) t.events.push_back({step[i], static_cast<std::int32_t>(i), token[i]});
  }
  std::ranges::stable_sort(t.events, {}, &trajectory_event::step);
  return t;
}

TEST(probes, contradiction_by_hand) {
  probe_source source;
  source.score = by_hand_score;
  source.reference = [](std::int64_t block) {
    EXPECT_EQ(block, 32);
    return probe_decode{
        {decided_at({0, 1, 2, 3}, {5, 7, 8, 9}), decided_at({0, 1, -1, 2}, {1, 4, 0, 60})}, 7, ""};
  };
  const json c = played("contradiction", source);
  EXPECT_EQ(c.at("steps"), 4);
  EXPECT_EQ(c.at("reference_steps"), 7);
  EXPECT_EQ(c.at("canvas"), json({{"compared", 7}, {"differ", 2}, {"share", 0.28571}}));
  EXPECT_EQ(c.at("answer"), c.at("canvas"));  // 60 is the stop token, at the end
  EXPECT_EQ(c.at("requests_that_differ"), 2);
  // 0.6 against the reference's 5; 0.91 of the second request.
  EXPECT_EQ(c.at("by_confidence").at("differ"), json({0, 0, 0, 0, 0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(c.at("by_confidence").at("compared"), json({0, 0, 0, 0, 0, 0, 1, 1, 0, 5}));
  EXPECT_EQ(c.at("score"),
            json({{"scored", 2}, {"better", 1}, {"reference_better", 1}, {"equal", 0}}));
  // What cannot be compared says why.
  EXPECT_TRUE(played("contradiction", {}).contains("not_run"));
  source.reference = [](std::int64_t) { return probe_decode{{}, 0, "no such model"}; };
  EXPECT_EQ(played("contradiction", source).at("not_run"), "no such model");
}

// Peaks of the first request: 2 and 3 and 4 in step 0, 5 in step 2.
TEST(probes, peak_oracle_by_hand) {
  probe_source source;
  source.score = by_hand_score;
  source.again = [](const trajectory_source& order) {
    EXPECT_EQ(order(0).steps(), (std::vector<std::int32_t>{0, 0, 0, 2}));
    EXPECT_EQ(order(0).tokens(), (std::vector<std::int32_t>{5, 7, 8, 9}));
    EXPECT_EQ(order(1).steps(), (std::vector<std::int32_t>{0, 0, 0, 0}));
    return probe_decode{
        {decided_at({0, 0, 0, 1}, {5, 7, 8, 4}), decided_at({0, 0, 0, 0}, {1, 2, 3, 60})}, 3, ""};
  };
  const json o = played("peak_oracle", source);
  EXPECT_EQ(o.at("steps"), 4);
  EXPECT_EQ(o.at("oracle_steps"), 3);
  EXPECT_EQ(o.at("steps_ratio"), 1.3333);
  EXPECT_EQ(o.at("decided"), 8);
  EXPECT_EQ(o.at("peaked_before"), 2);
  EXPECT_EQ(o.at("tokens"), json({{"compared", 8}, {"differ", 2}, {"share", 0.25}}));
  // Method 6 7 8 9: 3 of 4; oracle 5 7 8 4: 3 of 4; the peaks' own tokens: all.
  EXPECT_EQ(o.at("score"),
            json({{"scored", 2}, {"method", 0.875}, {"oracle", 0.875}, {"peak_tokens", 1.0}}));
  EXPECT_TRUE(played("peak_oracle", {}).contains("not_run"));
}

// The decodes that probes ask for, on real loops.
probed look_twice(const std::vector<std::string>& names, const std::string& method,
                  model_family family, const parameter_map& given,
                  const probe_settings& settings = {}) {
  const auto model = tiny_model(family, reference_backend());
  std::vector<sequence_request> requests = tiny_requests(3, 16);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].id = static_cast<std::int64_t>(i);
  const parameters resolved = test::resolved(method, given);
  const method_info& info = method_registry::instance().find(method);
  probe_source source;
  source.again = [&](const trajectory_source& order) {
    return decode_again(*model, info, resolved, requests, &order);
  };
  source.reference = [&](std::int64_t block) { return decode_reference(*model, requests, block); };
  return observed(*model, requests, names, method, given, settings, source);
}

TEST(probes, the_reference_does_not_contradict_itself) {
  probe_settings settings;
  settings.reference_block = 8;
  const struct {
    const char* method;
    model_family family;
    parameter_map given;
    bool same;
  } runs[] = {{"vanilla", llada, blocks_of_8, true},
              {"vanilla", llada, {{"block_length", 16}}, false},
              {"vanilla", dream, {}, true},
              {"ada_dlm", llada, {}, false},
              {"block_diffusion", sdar, {{"remasking", "low_confidence_static"}}, true},
              {"block_diffusion", sdar, {{"threshold", 0.2}}, false}};
  for (const auto& r : runs) {
    const json c = look_twice({"contradiction"}, r.method, r.family, r.given, settings)
                       .results.at("contradiction");
    EXPECT_GT(c.at("canvas").at("compared"), 0) << r.method << c.dump();
    EXPECT_EQ(c.at("canvas").at("differ") == 0, r.same) << r.method << c.dump();
    if (r.same) {
      EXPECT_EQ(c.at("steps"), c.at("reference_steps")) << r.method;
    }
  }
  // No order to choose: no reference. Lengths it cannot have: its own words.
  EXPECT_TRUE(look_twice({"contradiction"}, "autoregressive", qwen3, {})
                  .results.at("contradiction")
                  .contains("not_run"));
  settings.reference_block = 7;
  const json refused =
      look_twice({"contradiction"}, "ada_dlm", llada, {}, settings).results.at("contradiction");
  EXPECT_NE(refused.at("not_run").get<std::string>().find("multiple of block_length 7"),
            std::string::npos);
}

// The oracle waits for nothing: it never takes more steps, and where a position is judged once it
// changes nothing.
TEST(probes, the_oracle_is_no_slower) {
  const tried runs[] = {{"vanilla", llada, blocks_of_8},
                        {"fast_dllm", llada, {{"threshold", 0.3}, {"block_length", 8}}},
                        {"ada_dlm", llada, {}},
                        {"ada_dlm", dream, {{"k", 0.3}}},
                        {"block_diffusion", sdar, {{"threshold", 0.5}}},
                        {"autoregressive", qwen3, {}}};
  for (const auto& r : runs) {
    const json o =
        look_twice({"peak_oracle"}, r.method, r.family, r.given).results.at("peak_oracle");
    EXPECT_LE(o.at("oracle_steps"), o.at("steps")) << r.method << o.dump();
    EXPECT_GT(o.at("oracle_steps"), 0) << r.method;
    EXPECT_EQ(o.at("decided"), o.at("tokens").at("compared")) << r.method;
    if (std::string(r.method) == "autoregressive") {
      EXPECT_EQ(o.at("tokens").at("differ"), 0);
      EXPECT_EQ(o.at("peaked_before"), 0);
      EXPECT_EQ(o.at("oracle_steps"), o.at("steps"));
    }
    if (std::string(r.method) == "vanilla") {
      EXPECT_GT(o.at("peaked_before"), 0);
    }
  }
}

// What a pass decides for good is what probes of decisions read: with tokens replaced and reopened their
// canvas is the answer, and the token of an answer has the confidence that it was given with.
TEST(probes, of_decisions_read_the_answer_of_a_pass_that_revised_some) {
  const parameter_map blocks = {{"block_length", 8}, {"threshold", 0.3}, {"stop", "none"}};
  const struct {
    tried run;
    bool revises;
  } runs[] = {
      {{"llada21", llada2_moe, with(blocks, {{"editing_threshold", 0.15}, {"max_post_steps", 3}})},
       true},
      {{"llada21", llada2_moe, with(blocks, {{"editing_threshold", 1.0}})}, false},
      {{"wino", llada, {{"block_length", 8}, {"threshold", 0.1}, {"threshold_back", 0.9}}}, true},
      {{"wino", llada, {{"block_length", 8}, {"threshold_back", 0.0}}}, false}};
  const std::vector<std::string> of_decisions = {"confidence", "contradiction", "decoding",
                                                 "peak_oracle", "stagnation"};
  for (const auto& [run, revises] : runs) {
    probe_settings settings;
    settings.reference_block = 8;
    const probed p = look_twice(of_decisions, run.method, run.family, run.given, settings);
    std::int64_t revised = 0, decided = 0;
    for (const decoded_answer& a : p.run.answers) {
      revised += a.counters.replaced + a.counters.reopened;
      decided += a.counters.committed;
    }
    EXPECT_EQ(revised > 0, revises) << run.method;
    for (const char* name : {"confidence", "contradiction", "decoding", "stagnation"}) {
      EXPECT_FALSE(p.results.at(name).contains("not_run")) << run.method << " " << name;
    }
    // The tokens that were decided, less those that were masked again: each once, whatever became of it.
    EXPECT_EQ(p.results.at("stagnation").at("decline").at("decided"), decided) << run.method;
    EXPECT_EQ(p.results.at("contradiction").at("canvas").at("compared"), decided) << run.method;
    const json& oracle = p.results.at("peak_oracle");  // an order has no way back
    if (revises) {
      EXPECT_EQ(oracle.at("not_run"), "the method replaced or reopened " + std::to_string(revised) +
                                          " tokens; peak_oracle decides every position once");
    }
    EXPECT_TRUE(oracle.contains("not_run"));
  }
}

// Position 3 is decided as 7 and replaced by 6, 4 is decided as 8, masked again and decided as 1. The
// answer is 5 6 1 9.
const shown_trace by_hand_edited = {
    {{2, 5, 0.8F, false}, {3, 7, 0.95F, true}, {4, 8, 0.6F, true}, {5, 9, 0.4F, false}},
    {{2, 5, 0.7F, true}, {3, 6, 0.85F, false, decision_replace}, {5, 9, 0.5F, false}},
    {{4, 8, 0.3F, false, decision_reopen}, {5, 9, 0.95F, true}},
    {{4, 1, 0.75F, true}}};

TEST(probes, of_edits_by_hand) {
  probe_settings settings;
  settings.names = {"confidence", "contradiction", "decoding", "peak_oracle", "stagnation"};
  probe_source source;
  source.score = by_hand_score;  // the right answer is 5 7 8 9
  source.reference = [](std::int64_t) {
    return probe_decode{{decided_at({0, 1, 2, 3}, {5, 7, 8, 9})}, 4, ""};
  };
  std::ostringstream written;
  probe_recorder recorder(settings, source, written);
  play(recorder, by_hand_edited);
  recorder.finish();
  const json all = computed(written);
  // Masked and judged in two steps in a row: 2 and 5, then 5. All keep their arg-max, two below 0.9.
  const json& s = all.at("stagnation");
  EXPECT_EQ(s.at("active"), 3);
  EXPECT_EQ(s.at("stagnant"), 2);
  // At the token that they end with: 2 and 5 in the first two steps, then 5, then 4, all but the 5 of
  // step 2 below 0.9. Position 3 ends as 6 and was never masked with it.
  EXPECT_EQ(s.at("missed_stable").at("stable"), 6);
  EXPECT_EQ(s.at("missed_stable").at("missed"), 5);
  EXPECT_EQ(s.at("missed_stable").at("step_mean"), 0.75);
  // 2 fell from 0.8 to 0.7 and 3 from 0.95 (token 7) to 0.85; 4 rose. The 7 of 3 was right.
  const json& d = s.at("decline");
  EXPECT_EQ(d.at("decided"), 4);
  EXPECT_EQ(d.at("declined"), 2);
  EXPECT_EQ(d.at("other_token"), 1);
  EXPECT_EQ(d.at("scored"), 1);
  EXPECT_EQ(d.at("peak_better"), 1);
  EXPECT_NEAR(d.at("mean_drop").get<double>(), 0.1, 1e-6);
  EXPECT_EQ(s.at("decided_confidence"), json({0, 0, 0, 0, 0, 0, 0, 2, 1, 1}));
  // 3 and 4 differ from the reference.
  const json& c = all.at("contradiction");
  EXPECT_EQ(c.at("canvas"), json({{"compared", 4}, {"differ", 2}, {"share", 0.5}}));
  EXPECT_EQ(c.at("by_confidence").at("compared"), json({0, 0, 0, 0, 0, 0, 0, 2, 1, 1}));
  EXPECT_EQ(c.at("by_confidence").at("differ"), json({0, 0, 0, 0, 0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(c.at("score").at("reference_better"), 1);
  // 2 and 5 were the most confident of what was masked a step before; nothing was known of 4.
  EXPECT_EQ(all.at("confidence").at("pairs"), 3);
  EXPECT_EQ(all.at("confidence").at("recall").at("tokens"), 2);
  EXPECT_EQ(all.at("confidence").at("recall").at("value")[0], 1);
  EXPECT_EQ(all.at("decoding").at("decided"), 5);
  EXPECT_EQ(all.at("peak_oracle").at("not_run"),
            "the method replaced or reopened 2 tokens; peak_oracle decides every position once");
  std::istringstream lines(written.str());
  for (std::string line; std::getline(lines, line);) {
    const json of = json::parse(line);
    if (of.at("kind") == "request") {
      EXPECT_EQ(of.at("score"), 0.5);  // 5 and 9
    }
  }
}

// Decided in the recorded order with its own tokens, a recipe repeats its own decode.
TEST(probes, an_order_repeats_its_own_recording) {
  for (const char* method : {"vanilla", "fast_dllm", "ada_dlm"}) {
    const auto model = tiny_model(llada, reference_backend());
    std::vector<sequence_request> requests = tiny_requests(3, 32);
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].id = static_cast<std::int64_t>(i);
    trajectory_recorder recorder;
    decode_closed(*model, method, {}, requests, 1, "", &recorder);
    const parameters resolved = test::resolved(method);
    const trajectory_source order = [&](std::int64_t id) {
      trajectory t = recorder.of(id);
      for (trajectory_event& e : t.events) e.token = -1;
      return t;
    };
    const probe_decode again =
        decode_again(*model, method_registry::instance().find(method), resolved, requests, &order);
    ASSERT_EQ(again.problem, "");
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(again.of[i].tokens(), recorder.of(static_cast<std::int64_t>(i)).tokens()) << method;
      EXPECT_EQ(again.of[i].steps(), recorder.of(static_cast<std::int64_t>(i)).steps()) << method;
    }
  }
}

// In layer 0, K and V depend on a position's own token: outside the block they do not change at
// all. Higher up they hear of the tokens that were decided.

}  // namespace
}  // namespace unmask
