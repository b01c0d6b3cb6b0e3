// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// With the whole suffix DPad is the method that it drops from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "methods/parts/suffix_choice.h"
#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map blocks = {{"block_length", 8}};
const parameter_map sure = {{"block_length", 8}, {"threshold", 0.4}};
const parameter_map plain = {{"block_length", 8}, {"early_termination", false}};
const parameter_map nothing_dropped = {{"dropout", std::string("none")}};

TEST(limits_dpad, with_the_whole_suffix_it_is_the_method_it_drops_from) {
  const parameter_map until_clean = {{"until_clean", true}, {"schedule", std::string("llada")}};
  const auto of = [&](model_family family, const parameter_map& more) {
    return decode_rows(family, "dpad", with(with(plain, nothing_dropped), more));
  };
  EXPECT_TRUE(of(model_family::llada, {}) ==
              decode_rows(model_family::llada, "vanilla", with(blocks, until_clean)));
  for (const char* cache : {"prefix", "dual"}) {
    const parameter_map cached = {{"cache", std::string(cache)}};
    EXPECT_EQ(of(model_family::llada, with(sure, cached)).answers,
              decode_rows(model_family::llada, "fast_dllm", with(sure, cached)).answers);
    EXPECT_TRUE(of(model_family::dream, with(sure, cached)) ==
                decode_rows(model_family::dream, "fast_dllm", with(sure, cached)));
    EXPECT_TRUE(of(model_family::dream, with(cached, {{"tokens_per_step", 2}})) ==
                decode_rows(model_family::dream, "fast_dllm",
                            with(with(blocks, cached), {{"tokens_per_step", 2}})));
  }
}

TEST(limits_dpad, probabilities_of_one_and_many_preserved_tokens_drop_nothing) {
  const auto of = [](const parameter_map& more) {
    return decode_rows(model_family::llada, "dpad", with(with(plain, sure), more));
  };
  const decoded_rows all = of(nothing_dropped);
  EXPECT_TRUE(of({{"sigma", 0.0}, {"scale", 3.0}, {"window", 24}}) == all);
  EXPECT_TRUE(of({{"dropout", std::string("uniform")}, {"preserved_tokens", 24}}) == all);
  EXPECT_LT(of({{"window", 8}}).rows[0], all.rows[0]);
}

// Everything dropped: the first block does not know that others follow.
TEST(limits_dpad, without_a_suffix_the_canvas_ends_with_the_block) {
  for (const char* cache : {"none", "prefix", "dual"}) {
    const parameter_map zero = {{"scale", 0.0}, {"cache", std::string(cache)}};
    const decoded_rows three = decode_rows(model_family::llada, "dpad", with(plain, zero));
    const decoded_rows one = decode_rows(model_family::llada, "dpad", with(plain, zero), 8);
    for (std::size_t i = 0; i < one.answers.size(); ++i) {
      EXPECT_TRUE(
          std::equal(one.answers[i].begin(), one.answers[i].end(), three.answers[i].begin()))
          << cache;
    }
  }
}

// Means of many draws against the probabilities that the paper's code computes.
TEST(limits_dpad, positions_stay_as_often_as_their_probability_says) {
  const dpad::dropout_settings s{.kind = "gaussian", .window = 32, .sigma = 4, .scale = 2};
  EXPECT_NEAR(dpad::keep_probability(s, 0), 2 / std::sqrt(2 * M_PI), 1e-6);
  EXPECT_NEAR(dpad::keep_probability(s, 31), 2 * std::exp(-8.0) / std::sqrt(2 * M_PI), 1e-8);
  EXPECT_EQ(dpad::keep_probability(s, 32), 0);
  std::vector<int> stayed(40, 0);
  const int trials = 4000;
  for (int i = 0; i < trials; ++i) {
    sequence_request request;
    request.seed = static_cast<std::uint64_t>(i);
    for (const std::int32_t p : dpad::choose_suffix(s, request, 2, 100, 140)) {
      ++stayed[static_cast<std::size_t>(p - 100)];
    }
  }
  for (int d = 0; d < 40; ++d) {
    // Five standard deviations of a mean of so many draws.
    const double p = dpad::keep_probability(s, d);
    EXPECT_NEAR(stayed[static_cast<std::size_t>(d)] / double{trials}, p,
                5 * std::sqrt(p * (1 - p) / trials) + 1e-9)
        << d;
  }
}

TEST(limits_dpad, an_end_token_in_a_clean_block_ends_the_answer) {
  model_config c = tiny_config(model_family::llada);
  const auto requests = tiny_requests(1, 24);
  const auto of = [&](bool early) {
    const auto model = tiny_model(c, reference_backend(), 512, 7, dtype::f32);
    const parameter_map given = with(with(plain, nothing_dropped), {{"early_termination", early}});
    return decode_closed(*model, "dpad", given, requests, 1).answers[0];
  };
  c.eos_id = of(false).output[5];  // in the first block
  const decoded_answer whole = of(false), ended = of(true);
  EXPECT_EQ(ended.output,
            (std::vector<std::int32_t>(whole.output.begin(), whole.output.begin() + 8)));
  EXPECT_EQ(ended.counters.forwards, 8);
  EXPECT_EQ(ended.counters.committed, 8);
}

// Far masks dropped under Sparse-dLLM: with all K/V kept it is DPad over the dual cache, and with all
// masks kept it is Sparse-dLLM.
TEST(limits_dpad, under_sparse_dllm_it_drops_the_same_masks) {
  const parameter_map bound = with(blocks, {{"gamma", 3.0}});
  const parameter_map keep = {{"retention_ratio", 1.0}, {"delay", std::int64_t{0}}};
  for (const parameter_map& drop : std::vector<parameter_map>{
           {{"dropout", std::string("gaussian")}, {"window", 12}, {"scale", 1.5}},
           {{"dropout", std::string("uniform")}, {"window", 12}, {"preserved_tokens", 3}}}) {
    const decoded under = decode(model_family::llada, "sparse_dllm", with(with(bound, keep), drop));
    EXPECT_TRUE(under == decode(model_family::llada, "dpad",
                                with(with(bound, drop), {{"cache", std::string("dual")},
                                                         {"early_termination", false}})));
    EXPECT_TRUE(under != decode(model_family::llada, "sparse_dllm", with(bound, keep)));
  }
  const parameter_map all = {{"dropout", std::string("uniform")}, {"preserved_tokens", 1000}};
  for (const model_family family : {model_family::llada, model_family::dream}) {
    EXPECT_TRUE(decode(family, "sparse_dllm", with(blocks, all)) ==
                decode(family, "sparse_dllm", blocks));
  }
}

}  // namespace
}  // namespace unmask::testing
