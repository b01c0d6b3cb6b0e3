// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities of the methods that move borders or drop positions: adablock, dpad, dsb.
#include <gtest/gtest.h>

#include <algorithm>

#include "methods/parts/suffix_choice.h"
#include "tests/methods/tiny_models.h"

namespace unmask::testing {
namespace {

struct decoded {
  std::vector<std::vector<std::int32_t>> answers;
  std::vector<std::int64_t> forwards, rows;
  bool operator==(const decoded&) const = default;
};

decoded decode(model_family family, const std::string& method, const parameter_map& given,
               std::int32_t gen_length = 24) {
  const auto model = tiny_model(family, reference_backend());
  const auto r = decode_closed(*model, method, given, tiny_requests(4, gen_length), 2);
  decoded d{outputs(r), {}, {}};
  for (const decoded_answer& a : r.answers) {
    d.forwards.push_back(a.counters.forwards);
    d.rows.push_back(a.counters.rows);
  }
  return d;
}

const parameter_map sure = {{"block_length", 8}, {"threshold", 0.4}};

std::string every_token() {
  std::string ids = "0";
  for (int v = 1; v < 61; ++v) ids += "," + std::to_string(v);
  return ids;
}

TEST(limits_adablock, without_delimiters_blocks_have_their_usual_length) {
  for (const parameter_map& none :
       std::vector<parameter_map>{{{"delimiter_threshold", 2.0}, {"delimiter_ids", every_token()}},
                                  {{"delimiter_ids", std::string()}},
                                  {{"window_fraction", 0.0}, {"delimiter_ids", every_token()}}}) {
    const auto of = [&](model_family family, const char* cache) {
      return decode(family, "adablock", with(with(sure, none), {{"cache", std::string(cache)}}));
    };
    const parameter_map schedule = {{"schedule", std::string("llada")}};
    EXPECT_TRUE(of(model_family::llada, "none") ==
                decode(model_family::llada, "vanilla", with(sure, schedule)));
    // fast_dllm spends a second forward on a block that its first one has cleaned, which is lost.
    EXPECT_EQ(of(model_family::llada, "dual").answers,
              decode(model_family::llada, "fast_dllm", sure).answers);
    EXPECT_EQ(
        of(model_family::llada, "prefix").answers,
        decode(model_family::llada, "fast_dllm", with(sure, {{"cache", std::string("prefix")}}))
            .answers);
    EXPECT_EQ(of(model_family::dream, "dual").answers,
              decode(model_family::dream, "fast_dllm", sure).answers);
  }
}

// Every token is a delimiter: a block ends at the most confident position of its window, which the
// forward that opens it decides.
TEST(limits_adablock, any_delimiter_ends_a_block_at_the_surest_position) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const parameter_map any = {{"delimiter_ids", every_token()},
                             {"delimiter_threshold", 0.0},
                             {"cache", std::string("none")}};
  struct borders final : step_observer {
    std::vector<std::int32_t> first;
    void on_step(const step_view& s) override {
      const sequence_step& step = s.plan.of[0];
      if (step.step != 0) return;
      const std::int32_t* position = s.candidates.position.as<std::int32_t>();
      const float* probability = s.candidates.probability.as<float>();
      std::int32_t best = -1;
      for (std::int32_t c = 0; c < s.candidates.count; ++c) {
        if (position[c] < step.block_first || position[c] >= step.block_first + 6) continue;
        if (best < 0 || probability[c] > probability[best]) best = c;
      }
      ASSERT_GE(best, 0);
      if (!first.empty()) {
        EXPECT_EQ(step.block_first, next);
      }
      first.push_back(step.block_first);
      next = position[best] + 1;
      EXPECT_EQ(s.candidates.accept.as<std::uint8_t>()[best], 1);
    }
    std::int32_t next = 0;
  } seen;
  const auto requests = tiny_requests(1, 24);
  decode_closed(*model, "adablock", with(sure, any), requests, 1, "", &seen);
  const auto end = static_cast<std::int32_t>(requests[0].prompt.size()) + 24;
  EXPECT_EQ(seen.next, end);
  EXPECT_GE(seen.first.size(), 4U);  // a window has a quarter of the canvas
}

TEST(limits_adablock, refuses_what_is_not_published) {
  const model_config dream = tiny_config(model_family::dream);
  EXPECT_NE(refusal_of("adablock", dream, {{"cache", std::string("prefix")}}), "");
  EXPECT_EQ(refusal_of("adablock", dream, {{"delimiter_ids", std::string("3,x")}}),
            "adablock: delimiter_ids must be token ids with commas, not '3,x'");
}

const parameter_map plain = {{"block_length", 8}, {"early_termination", false}};
const parameter_map nothing_dropped = {{"dropout", std::string("none")}};

TEST(limits_dpad, with_the_whole_suffix_it_is_the_method_it_drops_from) {
  const parameter_map blocks = {{"block_length", 8}};
  const parameter_map until_clean = {{"until_clean", true}, {"schedule", std::string("llada")}};
  const auto of = [&](model_family family, const parameter_map& more) {
    return decode(family, "dpad", with(with(plain, nothing_dropped), more));
  };
  EXPECT_TRUE(of(model_family::llada, {}) ==
              decode(model_family::llada, "vanilla", with(blocks, until_clean)));
  for (const char* cache : {"prefix", "dual"}) {
    const parameter_map cached = {{"cache", std::string(cache)}};
    EXPECT_EQ(of(model_family::llada, with(sure, cached)).answers,
              decode(model_family::llada, "fast_dllm", with(sure, cached)).answers);
    EXPECT_TRUE(of(model_family::dream, with(sure, cached)) ==
                decode(model_family::dream, "fast_dllm", with(sure, cached)));
    EXPECT_TRUE(of(model_family::dream, with(cached, {{"tokens_per_step", 2}})) ==
                decode(model_family::dream, "fast_dllm",
                       with(with(blocks, cached), {{"tokens_per_step", 2}})));
  }
}

TEST(limits_dpad, probabilities_of_one_and_many_preserved_tokens_drop_nothing) {
  const auto of = [](const parameter_map& more) {
    return decode(model_family::llada, "dpad", with(with(plain, sure), more));
  };
  const decoded all = of(nothing_dropped);
  EXPECT_TRUE(of({{"sigma", 0.0}, {"scale", 3.0}, {"window", 24}}) == all);
  EXPECT_TRUE(of({{"dropout", std::string("uniform")}, {"preserved_tokens", 24}}) == all);
  EXPECT_LT(of({{"window", 8}}).rows[0], all.rows[0]);
}

// Everything dropped: the first block does not know that others follow.
TEST(limits_dpad, without_a_suffix_the_canvas_ends_with_the_block) {
  for (const char* cache : {"none", "prefix", "dual"}) {
    const parameter_map zero = {{"scale", 0.0}, {"cache", std::string(cache)}};
    const decoded three = decode(model_family::llada, "dpad", with(plain, zero));
    const decoded one = decode(model_family::llada, "dpad", with(plain, zero), 8);
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

const parameter_map uncached = {{"cache", std::string("none")}};

TEST(limits_dsb, a_window_of_the_canvas_is_the_threshold_rule_on_it) {
  const parameter_map whole = {{"block_length", 24}, {"threshold", 0.4}};
  const parameter_map schedule = {{"schedule", std::string("llada")}};
  for (const model_family family : {model_family::llada, model_family::dream}) {
    const decoded vanilla = decode(family, "vanilla", with(whole, schedule));
    EXPECT_TRUE(decode(family, "dsb", with(whole, uncached)) == vanilla);
  }
  // With every row left of the window computed, DSB Cache computes all.
  EXPECT_TRUE(decode(model_family::llada, "dsb", with(whole, {{"prefix_window", 1000}})) ==
              decode(model_family::llada, "vanilla", whole));
}

TEST(limits_dsb, a_cache_that_computes_every_row_changes_no_token) {
  const parameter_map all_rows = {{"prefix_window", 1000}, {"suffix_window", 1000}};
  for (const std::int64_t most : {-1, 8, 12}) {
    const parameter_map limit = {{"max_block_length", most}};
    const decoded cached = decode(model_family::llada, "dsb", with(with(sure, all_rows), limit));
    const decoded none = decode(model_family::llada, "dsb", with(with(sure, uncached), limit));
    EXPECT_EQ(cached.answers, none.answers) << most;
  }
}

TEST(limits_dsb, a_window_of_one_position_is_left_to_right) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct leftmost final : step_observer {
    void on_step(const step_view& s) override { EXPECT_EQ(s.candidates.count, 1); }
  } watch;
  const parameter_map one = {{"max_block_length", 1}, {"block_length", 1}};
  const auto r = decode_closed(*model, "dsb", with(with(sure, uncached), one), tiny_requests(1, 24),
                               1, "", &watch);
  EXPECT_EQ(r.answers[0].counters.forwards, 24);
}

// The greedy window holds as many masks as it began with until the canvas ends.
TEST(limits_dsb, a_greedy_window_keeps_its_number_of_masks) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct full_window final : step_observer {
    void on_step(const step_view& s) override {
      const std::int32_t length = s.state.at(0).length;
      if (s.plan.of[0].block_last < length) {
        EXPECT_EQ(s.candidates.count, 8);
      }
    }
  } watch;
  decode_closed(*model, "dsb", with(sure, uncached), tiny_requests(1, 48), 1, "", &watch);
}

TEST(limits_dsb, refuses_what_its_code_cannot_do) {
  const model_config dream = tiny_config(model_family::dream);
  EXPECT_NE(refusal_of("dsb", dream, {{"threshold", 0.0}}).find("threshold alone"),
            std::string::npos);
  EXPECT_NE(refusal_of("dsb", dream, {{"prefix_window", 0}}).find("prefix_window"),
            std::string::npos);
  EXPECT_NE(refusal_of("dsb", tiny_config(model_family::llada), {{"factor", 1.0}}).find("exclude"),
            std::string::npos);
}

}  // namespace
}  // namespace unmask::testing
