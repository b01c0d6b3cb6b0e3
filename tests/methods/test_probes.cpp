// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The layer observer and the probes on real trajectories of small models: what must hold whatever
// the weights are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/base/files.h"
#include "harness/measure/probe.h"
#include "kernels/attention.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using enum model_family;

using nlohmann::json;
using namespace testing;

const parameter_map blocks_of_8 = {{"block_length", 8}};
constexpr int steps_per_request = 16;

struct tried {
  const char* method;
  model_family family;
  parameter_map given;
};

struct probed {
  json results;
  closed_loop_result run;
};

// What the package computes from what a recorder wrote.
json computed(const std::ostringstream& written) {
  const scratch_folder scratch;
  write_file(scratch.path() / "trace.jsonl", written.str());
  json results;
  const auto all = probe_results(scratch.path() / "trace.jsonl");
  for (const auto& [name, text] : all) results[name] = json::parse(text);
  return results;
}

probed observed(const transformer& model, const std::vector<sequence_request>& requests,
                const std::vector<std::string>& names, const std::string& method,
                const parameter_map& given, probe_settings settings, const probe_source& source) {
  settings.names = names;
  std::ostringstream written;
  probe_recorder recorder(settings, source, written);
  probed p;
  p.run = decode_closed(model, method, given, requests, 1, "", &recorder);
  recorder.finish();
  p.results = computed(written);
  return p;
}

probed look(const std::vector<std::string>& names, const std::string& method, model_family family,
            const parameter_map& given, const probe_settings& settings = {}) {
  const auto model = tiny_model(family, reference_backend());
  return observed(*model, tiny_requests(3, 16), names, method, given, settings, {});
}

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
  step_plan plan;
  plan.of.resize(1);
  candidate_lists c = make_candidate_lists(backend, 1, 4);
  for (const auto& step : trace) {
    c.count = static_cast<std::int32_t>(step.size());
    for (std::size_t i = 0; i < step.size(); ++i) {
      c.position.as<std::int32_t>()[i] = step[i].position;
      c.token.as<std::int32_t>()[i] = step[i].token;
      c.probability.as<float>()[i] = step[i].confidence;
      c.accept.as<std::uint8_t>()[i] = step[i].accepted ? 1 : 0;
    }
    observer.on_step({b, plan, {}, nullptr, {}, c, {}});
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
  std::ranges::stable_sort(t.events, {}, &decision_event::step);
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
  parameter_map resolved;
  method_registry::instance().make(method, model->config(), "", given, &resolved);
  const method_info& info = method_registry::instance().find(method);
  probe_source source;
  source.again = [&](const trajectory_source& order) {
    return decode_again(*model, info, parameters(resolved), requests, &order);
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

// What such a probe would read is the first decision of a position, which is not the answer.
TEST(probes, of_first_decisions_refuse_a_pass_that_revised_some) {
  const parameter_map blocks = {{"block_length", 8}, {"threshold", 0.3}, {"stop", "none"}};
  const auto with = [&](const parameter_map& more) {
    parameter_map all = blocks;
    for (const auto& [name, value] : more) all[name] = value;
    return all;
  };
  const struct {
    tried run;
    bool revises;
  } runs[] = {
      {{"llada21", llada2_moe, with({{"editing_threshold", 0.15}, {"max_post_steps", 3}})}, true},
      {{"llada21", llada2_moe, with({{"editing_threshold", 1.0}})}, false},
      {{"wino", llada, {{"block_length", 8}, {"threshold", 0.1}, {"threshold_back", 0.9}}}, true},
      {{"wino", llada, {{"block_length", 8}, {"threshold_back", 0.0}}}, false}};
  const std::vector<std::string> of_decisions = {"confidence", "contradiction", "decoding",
                                                 "peak_oracle", "stagnation"};
  for (const auto& [run, revises] : runs) {
    probe_settings settings;
    settings.reference_block = 8;
    const probed p = look_twice(of_decisions, run.method, run.family, run.given, settings);
    std::int64_t revised = 0;
    for (const decoded_answer& a : p.run.answers) {
      revised += a.counters.replaced + a.counters.reopened;
    }
    EXPECT_EQ(revised > 0, revises) << run.method;
    for (const char* name : {"confidence", "contradiction", "stagnation"}) {
      const json& result = p.results.at(name);
      EXPECT_EQ(result.contains("not_run"), revises) << run.method << " " << name;
      if (!revises) continue;
      EXPECT_EQ(result.at("not_run"), "the method replaced or reopened " + std::to_string(revised) +
                                          " tokens; " + name +
                                          " reads the first decision of a position only");
    }
    EXPECT_TRUE(p.results.at("peak_oracle").contains("not_run"));  // an order has no way back
    EXPECT_FALSE(p.results.at("decoding").contains("not_run"));
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
    parameter_map resolved;
    method_registry::instance().make(method, model->config(), "", {}, &resolved);
    const trajectory_source order = [&](std::int64_t id) {
      trajectory t = recorder.of(id);
      for (decision_event& e : t.events) e.token = -1;
      return t;
    };
    const probe_decode again = decode_again(*model, method_registry::instance().find(method),
                                            parameters(resolved), requests, &order);
    ASSERT_EQ(again.problem, "");
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(again.of[i].tokens(), recorder.of(static_cast<std::int64_t>(i)).tokens()) << method;
      EXPECT_EQ(again.of[i].steps(), recorder.of(static_cast<std::int64_t>(i)).steps()) << method;
    }
  }
}

// In layer 0, K and V depend on a position's own token: outside the block they do not change at
// all. Higher up they hear of the tokens that were decided.
TEST(probes, kv_changes_above_the_first_layer_only) {
  const probed p = look({"kv_change"}, "vanilla", llada, blocks_of_8);
  const json& c = p.results.at("kv_change");
  for (const char* side : {"k", "v"}) {
    const auto layers = c.at("layers").at(side).get<std::vector<double>>();
    ASSERT_EQ(layers.size(), 3U);
    EXPECT_EQ(layers[0], 0);
    EXPECT_GT(layers[1], 0);
    EXPECT_GT(layers[2], 0);
    EXPECT_EQ(c.at("steps").at(side).size(), 7U);  // 0 -> 1 .. 6 -> 7
    for (const char* region : {"prompt", "before", "block", "after"}) {
      EXPECT_GT(c.at("regions").at(region).at(side), 0) << region;
    }
  }
  // Positions of each step: all outside the block, in every layer.
  std::int64_t outside = 0;
  for (const sequence_request& r : tiny_requests(3, 16)) {
    outside += 2 * (static_cast<std::int64_t>(r.prompt.size()) + 8);
  }
  EXPECT_EQ(c.at("steps").at("positions")[0], 3 * outside);
  // Rows that are not computed again leave nothing to compare: a cache of committed blocks.
  const probed cached = look({"kv_change"}, "block_diffusion", sdar, {});
  EXPECT_EQ(cached.results.at("kv_change").at("regions").at("before").at("positions"), 0);
}

// The importance of n masked rows sums to n times the number of heads, in every layer.
TEST(probes, importance_sums_to_the_heads) {
  for (const model_family family : {llada, sdar}) {
    const bool blocks = family == sdar;
    const probed p =
        look({"importance"}, blocks ? "block_diffusion" : "vanilla", family, blocks_of_8);
    const json& i = p.results.at("importance");
    ASSERT_EQ(i.at("layers").size(), 3U);
    for (const json& l : i.at("layers")) {
      double sum = 0, n = 0;
      for (const char* kind : {"decodable", "not_decodable"}) {
        sum += l.at("masked").at(kind).get<double>() * l.at("tokens").at(kind).get<double>();
        n += l.at("tokens").at(kind).get<double>();
      }
      EXPECT_NEAR(sum / n, 4, 2e-3);  // heads; the row keeps five digits
      EXPECT_GT(l.at("with_decoded").at("decoded"), 0);
      const double auc = l.at("auc").get<double>();
      EXPECT_GE(auc, 0);
      EXPECT_LE(auc, 1);
    }
    EXPECT_TRUE(i.at("layers")[0].at("auc_delta").is_null());
    EXPECT_FALSE(i.at("layers")[1].at("auc_delta").is_null());
    // The differences of a step add up to nothing, so the others' mean follows from the decodable.
    const json& tokens = i.at("layers")[1].at("tokens");
    const double others = tokens.at("not_decodable").get<double>();
    EXPECT_NEAR(i.at("gamma_separation").get<double>(),
                i.at("gamma").get<double>() * (1 + tokens.at("decodable").get<double>() / others),
                1e-4);
    // For the same reason the others' mean is below 0 where that of the decodable is above it.
    EXPECT_LT(i.at("delta_mean_of_others").get<double>() * i.at("gamma").get<double>(), 0);
    EXPECT_GT(i.at("decided_mass"), 0);
    EXPECT_LT(i.at("decided_mass"), 1);
    EXPECT_GE(i.at("delta_skewness"), 0);
    EXPECT_GE(i.at("layer1_skewness"), 0);
    EXPECT_GE(i.at("eviction_error"), 0);
    EXPECT_LE(i.at("eviction_error"), 1);
    // Quintiles hold a fifth of the tokens each, as far as numbers divide.
    const auto yes = i.at("delta_percentiles").at("decodable").get<std::vector<std::int64_t>>();
    const auto no = i.at("delta_percentiles").at("not_decodable").get<std::vector<std::int64_t>>();
    std::int64_t total = 0;
    for (int b = 0; b < 5; ++b) total += yes[b] + no[b];
    for (int b = 0; b < 5; ++b) {
      EXPECT_NEAR(static_cast<double>(yes[b] + no[b]) / static_cast<double>(total), 0.2, 0.1);
    }
  }
}

// The attention probe with one sink beside the largest share of one key, found another way.
struct attention_checker : step_observer {
  attention_checker() {
    settings.names = {"attention"};
    settings.sink_share = 1e-9;  // one key
    settings.every = 1;
    mine = std::make_unique<probe_recorder>(settings, source, written);
  }
  virtual double largest_share(const layer_view& l) = 0;
  bool wants_layers() const override { return true; }
  void on_layer(const layer_view& l) override {
    held.push_back(largest_share(l));
    mine->on_layer(l);
  }
  void on_step(const step_view& s) override { mine->on_step(s); }

  // What the probe found, whose shares are those found here.
  json expect_agreement() {
    mine->finish();
    json found = computed(written).at("attention");
    const auto mass = found.at("sink_mass").get<std::vector<double>>();
    EXPECT_EQ(mass.size(), 3U);
    for (std::size_t l = 0; l < mass.size(); ++l) {
      double sum = 0;
      for (std::size_t i = l; i < held.size(); i += 3) sum += held[i];
      EXPECT_NEAR(mass[l], sum / (static_cast<double>(held.size()) / 3), 1e-4);
    }
    return found;
  }

  probe_settings settings;
  probe_source source;
  std::ostringstream written;
  std::unique_ptr<probe_recorder> mine;
  std::vector<double> held;  // by layer
};

// What the probe sums by itself is what op::attention reports.
TEST(probes, attention_agrees_with_the_kernel) {
  struct checker : attention_checker {
    double largest_share(const layer_view& l) override {
      const std::int32_t slots = l.keys.kv_length[0];
      std::vector<float> mass(static_cast<std::size_t>(slots), 0.0F);
      std::vector<float> out(static_cast<std::size_t>(l.q.rows() * l.q.columns()));
      const tensor_view q = l.q;
      l.state.backend().run(
          op::attention{l.rows, q, l.cache, l.keys, l.scale,
                        make_view(out.data(), dtype::f32, {q.rows(), q.shape[1], q.shape[2]}),
                        make_view(mass.data(), dtype::f32, {slots})});
      return *std::max_element(mass.begin(), mass.end()) /
             static_cast<double>(q.rows() * q.shape[1]);
    }
  };
  for (const model_family family : {llada, sdar, qwen3}) {
    checker both;
    const auto model = tiny_model(family, reference_backend());
    const char* method = family == llada  ? "vanilla"
                         : family == sdar ? "block_diffusion"
                                          : "autoregressive";
    decode_closed(*model, method, {}, tiny_requests(1, 32), 1, "", &both);
    const json a = both.expect_agreement();
    for (std::size_t x = 0; x < 3; ++x) EXPECT_EQ(a.at("layer_overlap")[x][x], 1);
    EXPECT_FALSE(a.at("maps").empty());
  }
}

TEST(probes, attention_with_every_key_a_sink) {
  probe_settings settings;
  settings.sink_share = 1;
  settings.every = 4;
  const probed p = look({"attention"}, "vanilla", llada, blocks_of_8, settings);
  const json& a = p.results.at("attention");
  EXPECT_EQ(a.at("looks"), 3 * 4);
  EXPECT_GT(a.at("keys_for_90_max"), 0);
  EXPECT_LE(a.at("keys_for_90_max"), 0.95);
  EXPECT_GT(a.at("first_token_mass"), 0);
  EXPECT_LT(a.at("first_token_mass"), 0.5);
  EXPECT_GT(a.at("outside_overlap_mean"), 0.1);  // by chance
  EXPECT_LE(a.at("outside_overlap_mean"), 1);
  for (std::size_t x = 0; x < 3; ++x) {
    EXPECT_NEAR(a.at("sink_mass")[x].get<double>(), 1, 1e-4);
    EXPECT_EQ(a.at("step_overlap")[x], 1);
    for (std::size_t y = 0; y < 3; ++y) EXPECT_EQ(a.at("layer_overlap")[x][y], 1);
  }
  // Each row of a map averages to 1 over all keys: cells hold means, so 1 / keys on average.
  for (const json& m : a.at("maps")) {
    double sum = 0;
    for (const double v : m.at("values").get<std::vector<double>>()) sum += v;
    EXPECT_NEAR(sum / m.at("values").size(), 1.0 / m.at("keys").get<double>(),
                0.3 / m.at("keys").get<double>());
  }
}

// A compacted cache holds other positions in its slots than their numbers: what the policy says
// about them is what lies there, in every layer and for every sequence of a ragged batch.
TEST(layer_observer, slot_positions_name_the_keys_that_were_kept) {
  struct checker : step_observer {
    // [layer][position]: key of the last full forward.
    std::vector<std::vector<std::vector<float>>> full =
        std::vector<std::vector<std::vector<float>>>(3);
    std::int64_t kept = 0, moved = 0;
    bool wants_layers() const override { return true; }
    void on_step(const step_view&) override {}
    void on_layer(const layer_view& l) override {
      const auto width = static_cast<std::size_t>(l.k.columns());
      auto& mine = full[static_cast<std::size_t>(l.layer)];
      if (l.plan.of.front().active && l.plan.of.front().step <= 1) {
        EXPECT_TRUE(l.slot_position.empty());
        mine.clear();
        for (std::int32_t r = 0; r < l.rows.row_begin[1]; ++r) {
          mine.emplace_back(l.k.row<float>(r), l.k.row<float>(r) + width);
        }
        return;
      }
      if (!l.plan.of.front().active) return;
      ASSERT_FALSE(l.slot_position.empty());
      for (std::size_t slot = 0; slot < l.slot_position.size(); ++slot, ++kept) {
        const auto at = static_cast<std::size_t>(l.slot_position[slot]);
        const std::int32_t page = l.cache.page_table[slot / kv_page_size];
        const float* key = l.cache.keys.row<float>(page) + slot % kv_page_size * width;
        ASSERT_TRUE(std::equal(key, key + width, mine.at(at).begin())) << l.layer << " " << slot;
        moved += at != slot;
      }
    }
  };
  for (const std::int32_t batch_size : {1, 3}) {
    for (const char* eviction : {"bidirectional", "prefix"}) {
      checker seen;
      const auto model = tiny_model(llada, reference_backend());
      decode_closed(*model, "sparse_dllm",
                    {{"block_length", 8}, {"eviction", std::string(eviction)}},
                    tiny_requests(3, 24), batch_size, "", &seen);
      EXPECT_GT(seen.kept, 100);
      EXPECT_GT(seen.moved, seen.kept / 2);
    }
  }
}

// With every key a sink, the sinks are the positions in view: of a compacted cache those that were
// kept and the block, of packed chunks those that rows have written.
TEST(probes, sinks_are_positions_whatever_the_slots) {
  probe_settings settings;
  settings.sink_share = 1;
  settings.every = 1;
  const tried runs[] = {{"sparse_dllm", llada, blocks_of_8}, {"optimus", sdar, {{"chunk", 3}}}};
  for (const auto& r : runs) {
    const probed p = look({"attention", "decode_trace"}, r.method, r.family, r.given, settings);
    const json& trace = p.results.at("decode_trace").at("decodes")[0].at("steps");
    int compared = 0;
    for (const json& m : p.results.at("attention").at("maps")) {
      // The rows of a forward are among the keys they see.
      const auto sinks = m.at("sinks").get<std::vector<std::int32_t>>();
      EXPECT_TRUE(std::is_sorted(sinks.begin(), sinks.end()));
      EXPECT_EQ(std::adjacent_find(sinks.begin(), sinks.end()), sinks.end()) << r.method;
      const json& rows = trace.at(m.at("step").get<std::size_t>()).at("rows");
      for (const json& range : rows) {
        for (std::int32_t row = range[0]; row < range[1].get<std::int32_t>(); ++row, ++compared) {
          EXPECT_TRUE(std::binary_search(sinks.begin(), sinks.end(), row))
              << r.method << " " << row;
        }
      }
      EXPECT_EQ(m.at("key_positions"), json({sinks.front(), sinks.back()}));
    }
    EXPECT_GT(compared, 20) << r.method;
  }
}

// Keys outside a head's pattern get no attention.
TEST(probes, attention_follows_a_pattern_of_tiles) {
  struct checker : attention_checker {
    // From the definition, with the tiles as a mask.
    double largest_share(const layer_view& l) override {
      const std::int64_t heads = l.q.shape[1], dim = l.q.shape[2];
      std::vector<double> mass(static_cast<std::size_t>(l.keys.kv_length[0]), 0.0);
      for (std::int32_t r = 0; r < l.rows.rows; ++r) {
        for (std::int64_t h = 0; h < heads; ++h) {
          std::vector<double> w(mass.size(), 0.0);
          double sum = 0;
          for (std::size_t j = 0; j < w.size(); ++j) {
            const block_mask& t = l.keys.tiles;
            const auto slot = static_cast<std::int32_t>(j);
            if (t.keep && t.applies[0] != 0 &&
                !t.keep[(h * t.blocks + l.rows.position[r] / t.size) * t.blocks + slot / t.size]) {
              ++hidden;
              continue;
            }
            const float* key = l.cache.keys.row<float>(l.cache.page_table[slot / kv_page_size]) +
                               (slot % kv_page_size * l.k.shape[1] + h) * dim;
            double dot = 0;
            for (std::int64_t d = 0; d < dim; ++d) {
              dot += double{l.q.row<float>(r)[h * dim + d]} * key[d];
            }
            sum += w[j] = std::exp(dot * l.scale);
          }
          for (std::size_t j = 0; j < w.size(); ++j) {
            mass[j] += w[j] / sum / static_cast<double>(heads * l.rows.rows);
          }
        }
      }
      return *std::max_element(mass.begin(), mass.end());
    }
    std::int64_t hidden = 0;
  } both;
  const auto model = tiny_model(llada, reference_backend());
  decode_closed(*model, "sparse_d",
                {{"block_length", 8}, {"block_size", 4}, {"skip", 0.1}, {"select", 0.2}},
                tiny_requests(1, 16), 1, "", &both);
  EXPECT_GT(both.hidden, 0);
  both.expect_agreement();
}

std::int64_t positions_in(const json& ranges) {
  std::int64_t n = 0;
  for (const json& r : ranges) n += r[1].get<std::int64_t>() - r[0].get<std::int64_t>();
  return n;
}

// What is written down adds up to what the loop counts, and replays to the tokens that came out.
TEST(probes, a_decode_trace_closes_with_the_loop) {
  const struct {
    const char* method;
    model_family family;
    parameter_map given;
    bool drops;
  } runs[] = {{"block_diffusion", sdar, {{"threshold", 0.5}}, false},
              {"delayed_cache", sdar, {{"threshold", 0.5}}, false},
              {"focus", sdar, {{"threshold", 0.5}, {"alpha", 1.0}}, true},
              {"autoregressive", qwen3, {}, false}};
  for (const auto& r : runs) {
    const probed p = look({"decode_trace"}, r.method, r.family, r.given);
    const json& trace = p.results.at("decode_trace");
    EXPECT_EQ(trace.at("text"), json::object());  // no tokenizer here
    ASSERT_EQ(trace.at("decodes").size(), p.run.answers.size());
    std::int64_t dropped = 0, cached = 0;
    for (std::size_t i = 0; i < p.run.answers.size(); ++i) {
      const json& d = trace.at("decodes")[i];
      const sequence_counters& counted = p.run.answers[i].counters;
      const std::size_t begin = d.at("prompt").size();
      EXPECT_EQ(d.at("prompt"), tiny_requests(3, 16)[i].prompt);
      std::vector<std::int32_t> canvas(d.at("length").get<std::size_t>(), -1);
      std::int64_t rows = 0, head = 0, committed = 0;
      for (const json& step : d.at("steps")) {
        if (step.at("phase") != "prefill") rows += positions_in(step.at("rows"));
        dropped += positions_in(step.at("dropped"));
        cached += positions_in(step.at("cached"));
        EXPECT_LE(positions_in(step.at("dropped")), positions_in(step.at("rows")));
        head += static_cast<std::int64_t>(step.at("position").size());
        EXPECT_EQ(step.at("token").size(), step.at("position").size());
        EXPECT_EQ(step.at("confidence").size(), step.at("position").size());
        EXPECT_GT(step.at("keys"), 0);
        EXPECT_EQ(positions_in(step.at("visible")), step.at("keys").get<std::int64_t>());
        for (const std::size_t c : step.at("accepted")) {
          const double confidence = step.at("confidence")[c];
          EXPECT_TRUE(confidence > 0 && confidence <= 1) << confidence;
          canvas[step.at("position")[c].get<std::size_t>()] = step.at("token")[c];
          ++committed;
        }
      }
      EXPECT_EQ(d.at("steps").size(), static_cast<std::size_t>(counted.forwards)) << r.method;
      EXPECT_EQ(rows, counted.decode_rows) << r.method;
      EXPECT_EQ(head, counted.head_rows) << r.method;
      EXPECT_EQ(committed, counted.committed) << r.method;
      const std::vector<std::int32_t>& output = p.run.answers[i].output;
      ASSERT_LE(begin + output.size(), canvas.size());
      EXPECT_TRUE(std::equal(output.begin(), output.end(),
                             canvas.begin() + static_cast<std::ptrdiff_t>(begin)))
          << r.method;
    }
    EXPECT_EQ(dropped > 0, r.drops) << r.method;
    EXPECT_EQ(cached > 0, r.family == sdar) << r.method;
  }
}

TEST(probes, a_decode_trace_keeps_four_requests_and_names_their_tokens) {
  probe_settings settings;
  settings.names = {"decode_trace"};
  const auto model = tiny_model(sdar, reference_backend());
  probe_source source;
  source.text = [](std::int32_t token) { return "<" + std::to_string(token) + ">"; };
  std::ostringstream written;
  probe_recorder recorder(settings, source, written);
  decode_closed(*model, "block_diffusion", {}, tiny_requests(6, 16), 1, "", &recorder);
  recorder.finish();
  const json trace = computed(written).at("decode_trace");
  EXPECT_EQ(trace.at("requests"), 6);
  ASSERT_EQ(trace.at("decodes").size(), 4u);
  for (const json& step : trace.at("decodes")[3].at("steps")) {
    for (const std::int32_t token : step.at("token")) {
      EXPECT_EQ(trace.at("text").at(std::to_string(token)), source.text(token));
    }
  }
}

}  // namespace
}  // namespace unmask
