// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What is said of several methods at once. An identity of one method lies in its folder (cases.cpp).
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/plan/expected_memory.h"
#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using namespace testing;

const parameter_map blocks = {{"block_length", 8}};

// The controls choose other keys than the score does, and the same ones in any batch.
TEST(limits_full, keys_that_are_not_scored_are_others_in_any_batch) {
  const parameter_map focus =
      with(blocks, {{"dense_layers", 1}, {"prompt_block_size", 4}, {"alpha", 0.5}});
  struct control {
    const char* method;
    parameter_map given;
    std::vector<std::string> selections;
  };
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(4, 24);
  for (const control& c : {control{"sparse_dllm", blocks, {"random"}},
                           control{"focus_dllm", focus, {"random", "last"}}}) {
    const auto scored = decode_closed(*model, c.method, c.given, requests, 1);
    for (const std::string& selection : c.selections) {
      const parameter_map given = with(c.given, {{"selection", selection}});
      const auto alone = decode_closed(*model, c.method, given, requests, 1);
      EXPECT_NE(outputs(alone), outputs(scored)) << c.method << ", " << selection;
      EXPECT_EQ(outputs(alone), outputs(decode_closed(*model, c.method, given, requests, 3)));
    }
  }
}

// What is evicted, unselected or settled costs nothing: fewer rows, fewer keys, fewer FLOPs.
TEST(limits_full, work_falls_with_what_is_left_out) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(3, 24);
  const auto total = [&](const std::string& method, const parameter_map& more) {
    sequence_counters sum;
    for (const auto& a : decode_closed(*model, method, with(blocks, more), requests, 1).answers) {
      sum.rows += a.counters.rows;
      sum.keys_seen += a.counters.keys_seen;
      sum.flops += a.counters.flops;
    }
    return sum;
  };
  const auto vanilla = total("vanilla", {});
  const auto prefix = total("fast_dllm", {{"cache", "prefix"}});
  const auto dual = total("fast_dllm", {});
  EXPECT_LT(prefix.rows, vanilla.rows);
  EXPECT_LT(dual.rows, prefix.rows);
  EXPECT_LT(dual.flops, prefix.flops);
  double last = 1e300;
  for (const double ratio : {0.9, 0.5, 0.1}) {
    const auto sparse = total("sparse_dllm", {{"retention_ratio", ratio}, {"delay", 0}});
    EXPECT_EQ(sparse.rows, dual.rows);
    EXPECT_LT(sparse.keys_seen, std::min(last, dual.keys_seen));
    EXPECT_LT(sparse.flops, dual.flops);
    last = sparse.keys_seen;
  }
  const parameter_map focus = {
      {"dense_layers", 1}, {"prompt_block_size", 4}, {"window", 2}, {"rho", 1.0}};
  const auto narrow = total("focus_dllm", focus);
  EXPECT_LT(narrow.rows, dual.rows);
  EXPECT_LT(total("focus_dllm", with(focus, {{"alpha", 0.2}})).keys_seen,
            total("focus_dllm", with(focus, {{"alpha", 1.0}})).keys_seen);
}

TEST(limits_full, methods_refuse_models_they_cannot_decode) {
  const auto block_model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(1, 8);
  for (const char* method : {"fast_dllm", "dkv_cache", "sparse_dllm", "focus_dllm"}) {
    EXPECT_THROW(decode_closed(*block_model, method, {}, requests, 1), error) << method;
  }
  const auto llada = tiny_model(model_family::llada, reference_backend());
  const auto refused = [&](const char* method, const parameter_map& given) {
    EXPECT_THROW(decode_closed(*llada, method, given, requests, 1), error) << method;
  };
  refused("sparse_dllm", {{"kernel_size", 4}});
  refused("dkv_cache", {{"variant", "pd"}});
  refused("focus_dllm", {{"dense_layers", 0}});
  refused("fast_dllm", with(blocks, {{"threshold", 0.9}, {"factor", 1.0}}));
}

// "paper" is the text to the letter: eqs. 2 and 5 over the block, 17 to 19 over every step of the request
// without a floor, full commits, every K/V that is there is seen, and none is made twice.
TEST(limits_blocks, the_paper_presets_are_literal) {
  const method_info& focus = method_registry::instance().find("focus");
  const parameter_map expected = {{"stop_in_prompt_block", false},
                                  {"importance_set", "block"},
                                  {"deviation_rule", "deviation"},
                                  {"deviation_set", "block"},
                                  {"average_scope", "request"},
                                  {"count_empty_steps", true},
                                  {"count_prefill", true},
                                  {"mean_floor", false},
                                  {"unprocessed", "flag"},
                                  {"commit", "full"},
                                  {"keys", "stored"}};
  EXPECT_EQ(focus.presets.at("paper"), expected);
  const method_info& optimus = method_registry::instance().find("optimus");
  const parameter_map cost = {{"request_cost", false}, {"chunk_rows", "full"}};
  EXPECT_EQ(optimus.presets.at("paper_cost"), cost);
  parameter_map letter = cost;
  letter["estimator"] = "prefix_count";
  EXPECT_EQ(optimus.presets.at("paper"), letter);
  // A baseline that draws, for the published quality of FOCUS, and one to compare exactly.
  const auto& baseline = method_registry::instance().find("block_diffusion").presets;
  EXPECT_EQ(to_string(baseline.at("hf").at("sampler")), "multinomial");
  EXPECT_EQ(to_string(baseline.at("hf_argmax").at("sampler")), "argmax");
}

// Three places with room for the two rows that one of the requests shows.
TEST(pictures, rows_are_in_the_expected_memory) {
  const model_config config = tiny_config(model_family::sdar);
  const method_info& method = method_registry::instance().find("block_diffusion");
  run_settings run;
  run.device = "cpu";
  auto requests = tiny_requests(3, 16);
  const auto kept = [&] {
    return expected_memory(config, method, test::resolved("block_diffusion"), run, requests).kept;
  };
  const double text = kept();
  requests[1].prompt[0] = -1;
  requests[1].prompt[1] = -2;
  EXPECT_EQ(kept() - text, 3 * 2 * config.hidden * 4);
}

}  // namespace
}  // namespace unmask
