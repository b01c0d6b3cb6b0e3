// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities of the rules that decide by entropies, runs, credits and histories: with its knob
// open each is a threshold or a schedule.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/error.h"
#include "harness/decode/step_loop.h"
#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask::testing {
namespace {

using texts = std::vector<std::vector<std::int32_t>>;

struct decoded {
  texts answers;
  std::vector<std::int64_t> forwards;
  bool operator==(const decoded&) const = default;
};

decoded decode(model_family family, const std::string& method, const parameter_map& given,
               int requests = 4, std::int32_t gen_length = 24) {
  const auto model = tiny_model(family, reference_backend());
  const auto r = decode_closed(*model, method, given, tiny_requests(requests, gen_length), 2);
  decoded d{outputs(r), {}};
  for (const decoded_answer& a : r.answers) d.forwards.push_back(a.counters.forwards);
  return d;
}

const parameter_map blocks = {{"block_length", 8}};

// One token in every forward, the most confident of the block.
decoded one_by_one(model_family family = model_family::llada) {
  return decode(family, "vanilla",
                with(blocks, {{"threshold", 1.5}, {"schedule", std::string("llada")}}));
}

TEST(limits_eb_sampler, no_entropy_allowed_is_one_token_a_forward) {
  for (const model_family family : {model_family::llada, model_family::dream}) {
    for (const char* rule : {"sum_minus_max", "sum_before"}) {
      const parameter_map zero = {
          {"gamma", 0.0}, {"order", std::string("confidence")}, {"rule", std::string(rule)}};
      EXPECT_TRUE(decode(family, "eb_sampler", with(blocks, zero)) == one_by_one(family)) << rule;
    }
  }
}

TEST(limits_eb_sampler, any_entropy_allowed_is_one_forward_a_block) {
  const parameter_map all = {{"gamma", 1e6}, {"ban_mask_token", true}};
  const decoded d = decode(model_family::llada, "eb_sampler", with(blocks, all));
  EXPECT_EQ(d.forwards, std::vector<std::int64_t>(4, 3));
}

// The rule in the place of another method's own decides what it does in its own.
TEST(limits_eb_sampler, under_other_methods_it_is_the_same_rule) {
  const parameter_map bound = with(blocks, {{"gamma", 3.0}});
  const auto own = [&](const char* cache) {
    return decode(model_family::llada, "eb_sampler", with(bound, {{"cache", std::string(cache)}}));
  };
  for (const char* cache : {"none", "prefix", "dual"}) {
    EXPECT_TRUE(decode(model_family::llada, "fast_dllm",
                       with(bound, {{"cache", std::string(cache)}})) == own(cache))
        << cache;
  }
  EXPECT_TRUE(decode(model_family::llada, "dpad",
                     with(bound, {{"dropout", std::string("none")},
                                  {"early_termination", false}})) == own("none"));
  EXPECT_TRUE(decode(model_family::llada, "sparse_dllm",
                     with(bound, {{"retention_ratio", 1.0}, {"delay", std::int64_t{0}}})) ==
              own("dual"));
}

TEST(limits_eb_sampler, in_blocks_any_entropy_allowed_is_a_threshold_of_zero) {
  const parameter_map rule = {{"remasking", std::string("entropy_bound")}};
  const parameter_map eight = {{"block_length", std::int64_t{8}}};
  for (const char* method : {"block_diffusion", "delayed_cache"}) {
    const decoded all =
        decode(model_family::sdar, method, with(with(eight, rule), {{"gamma", 1e6}}));
    EXPECT_TRUE(all == decode(model_family::sdar, method, with(eight, {{"threshold", 0.0}})))
        << method;
    const decoded one =
        decode(model_family::sdar, method, with(with(eight, rule), {{"gamma", 0.0}}));
    EXPECT_GT(one.forwards[0], all.forwards[0]) << method;
  }
  // Whole chunks without caching are block_diffusion, by this rule too.
  const parameter_map three = with(with(eight, rule), {{"gamma", 3.0}});
  EXPECT_EQ(decode(model_family::sdar, "optimus",
                   with(three, {{"chunk", std::int64_t{8}}, {"cache_rule", std::string("none")}}))
                .answers,
            decode(model_family::sdar, "block_diffusion", three).answers);
}

TEST(limits_eb_sampler, what_does_not_combine_is_refused_by_name) {
  const auto refusal = [](model_family family, const std::string& method, const parameter_map& p) {
    try {
      decode(family, method, p);
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(model_family::llada, "fast_dllm", {{"gamma", 0.1}, {"threshold", 0.9}}),
            "fast_dllm: gamma and threshold exclude each other");
  EXPECT_EQ(refusal(model_family::llada, "fast_dllm", {{"gamma", 0.1}, {"factor", 1.0}}),
            "fast_dllm: gamma and factor exclude each other");
  EXPECT_EQ(refusal(model_family::dream, "sparse_dllm", {{"gamma", 0.1}}),
            "sparse_dllm: gamma is of LLaDA's loop; Dream's decides by a schedule of time");
}

// In another order they can differ: tests/kernels/test_histories.cpp, by hand.
TEST(limits_eb_sampler, the_last_of_an_entropy_order_is_its_largest) {
  const auto of = [](const char* rule) {
    return decode(model_family::llada, "eb_sampler", {{"gamma", 3.0}, {"rule", std::string(rule)}});
  };
  EXPECT_TRUE(of("sum_before") == of("sum_minus_max"));
}

TEST(limits_eb_sampler, min_tokens_of_a_block_is_one_forward_a_block) {
  const parameter_map eight = {{"gamma", 0.0}, {"min_tokens", 8}, {"ban_mask_token", true}};
  const decoded d = decode(model_family::llada, "eb_sampler", with(blocks, eight));
  EXPECT_EQ(d.forwards, std::vector<std::int64_t>(4, 3));
}

// llada2's strict rule has no bidirectional twin: a threshold that no confidence equals is as strict.
decoded threshold_rule(double threshold, model_family family = model_family::llada) {
  return decode(family, "vanilla",
                with(blocks, {{"threshold", threshold}, {"schedule", std::string("llada")}}));
}

const parameter_map endless = {{"stop", std::string("none")}};

TEST(limits_hierarchical, without_runs_it_is_a_threshold) {
  const auto of = [](double threshold) {
    const parameter_map given = {{"low_threshold", 1.0}, {"threshold", threshold}};
    return decode(model_family::llada, "hierarchical", with(with(blocks, endless), given));
  };
  EXPECT_TRUE(of(1.0) == one_by_one());
  EXPECT_TRUE(of(0.35) == threshold_rule(0.35));
  EXPECT_TRUE(of(0.35) != of(1.0));
}

// In the first forward of a block of n masks all of them are one run, so one is decided; two runs
// follow, and so on: the tokens of k forwards are at most 1 + 2 + 4 + ...
TEST(limits_hierarchical, runs_double_at_most) {
  const parameter_map any = {{"low_threshold", 0.0}};
  const decoded d = decode(model_family::llada, "hierarchical", with(with(blocks, endless), any));
  for (const std::int64_t forwards : d.forwards) EXPECT_GE(forwards, 3 * 4);
  EXPECT_TRUE(d != one_by_one());
}

// A stop id ends the answer with its block. What then lies behind it, that id or masks, was not decided
// and is no part of the answer.
TEST(limits_hierarchical, a_stop_id_ends_the_answer_with_its_block) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(4, 24);
  const auto of = [&](const std::string& stop, bool early) {
    const parameter_map given = {{"low_threshold", 0.1}, {"stop", stop}, {"early_stop", early}};
    return decode_closed(*model, "hierarchical", with(blocks, given), requests, 2);
  };
  const auto whole = of("none", true);
  const std::int32_t stop = whole.answers[0].output[3];  // in the first block
  for (const bool early : {true, false}) {
    const decoded_answer ended = of(std::to_string(stop), early).answers[0];
    const auto& all = whole.answers[0].output;
    EXPECT_EQ(ended.output, (std::vector<std::int32_t>(all.begin(), all.begin() + 8)));
    EXPECT_LT(ended.counters.forwards, whole.answers[0].counters.forwards);
    EXPECT_EQ(ended.counters.committed, 8);
  }
}

// The canvas behind the answer, as the official loops return it.
TEST(limits_hierarchical, early_stop_fills_the_canvas_behind_the_answer) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto canvas_of = [&](const std::string& stop, bool early) {
    const parameter_map given = {{"low_threshold", 0.1}, {"stop", stop}, {"early_stop", early}};
    step_loop loop(*model, test::recipe_of("hierarchical", model->config(), with(blocks, given)),
                   {1, 80, 0});
    loop.admit(tiny_requests(1, 24)[0]);
    while (loop.step()) {
    }
    return loop.canvas(0);
  };
  const std::int32_t stop = canvas_of("none", true)[3];
  const auto filled = canvas_of(std::to_string(stop), true);
  const auto masked = canvas_of(std::to_string(stop), false);
  EXPECT_EQ(std::count(filled.begin() + 8, filled.end(), stop), 16);
  EXPECT_EQ(std::count(masked.begin() + 8, masked.end(), model->config().mask_id), 16);
}

TEST(limits_credit_decoding, without_credit_it_is_the_threshold_rule) {
  const auto of = [](double alpha, double threshold) {
    const parameter_map given = {{"threshold", threshold}, {"credit_alpha", alpha}};
    return decode(model_family::llada, "credit_decoding", with(with(blocks, endless), given));
  };
  EXPECT_TRUE(of(0, 0.35) == threshold_rule(0.35));
  EXPECT_TRUE(of(0, 0.9) == threshold_rule(0.9));
  EXPECT_TRUE(of(5, 0.9) != threshold_rule(0.9));
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

TEST(limits_klass, where_nothing_can_be_ready_it_is_the_schedule) {
  for (const parameter_map& never : std::vector<parameter_map>{
           {{"confidence_threshold", 1.0}}, {{"kl_threshold", 0.0}}, {{"kl_history", 9}}}) {
    const parameter_map given = with({{"confidence_threshold", 0.1}, {"kl_threshold", 1e6}}, never);
    EXPECT_TRUE(decode(model_family::llada, "klass", with(blocks, given)) == one_by_one());
  }
}

TEST(limits_klass, any_movement_allowed_is_the_threshold_rule) {
  const parameter_map given = {
      {"confidence_threshold", 0.35}, {"kl_threshold", 1e6}, {"kl_history", 1}};
  EXPECT_TRUE(decode(model_family::llada, "klass", with(blocks, given)) == threshold_rule(0.35));
}

// The first distribution of a position is held against none, which is far from any: no token is ready
// before a second forward has confirmed it.
TEST(limits_klass, a_first_forward_decides_by_the_schedule) {
  const auto model = tiny_model(model_family::dream, reference_backend());
  const parameter_map given = {
      {"confidence_threshold", 0.01}, {"kl_threshold", 10.0}, {"kl_history", 1}};
  struct first_counts final : step_observer {
    std::vector<std::int64_t> taken;
    void on_step(const step_view& s) override {
      const std::uint8_t* accept = s.candidates.accept.as<std::uint8_t>();
      taken.push_back(std::count(accept, accept + s.candidates.count, 1));
    }
  } seen;
  decode_closed(*model, "klass", given, tiny_requests(1, 16), 1, "", &seen);
  ASSERT_GE(seen.taken.size(), 2U);
  EXPECT_EQ(seen.taken[0], 1);
  EXPECT_GT(seen.taken[1], 1);
}

// Under blocks, over an exact cache and a delayed one.
TEST(limits_klass, in_blocks_it_is_the_schedule_or_the_threshold_rule) {
  const parameter_map rule = {{"remasking", std::string("klass")}, {"block_length", 8}};
  for (const char* method : {"block_diffusion", "delayed_cache", "delayed_cache_plus"}) {
    const auto of = [&](const parameter_map& given) {
      return decode(model_family::sdar, method, with({{"block_length", 8}}, given));
    };
    for (const parameter_map& never :
         std::vector<parameter_map>{{{"threshold", 1.0}, {"accept_compare", std::string(">")}},
                                    {{"kl_threshold", 0.0}},
                                    {{"kl_history", 9}}}) {
      const parameter_map given = with({{"threshold", 0.1}, {"kl_threshold", 1e6}}, never);
      EXPECT_TRUE(of(with(rule, given)) ==
                  of({{"remasking", std::string("low_confidence_static")}}))
          << method;
    }
    const parameter_map threshold = {{"threshold", 0.35}};
    EXPECT_TRUE(of(with(with(rule, threshold), {{"kl_threshold", 1e6}, {"kl_history", 1}})) ==
                of(threshold))
        << method;
    // A distribution is never held against one of an earlier block or request in the same place.
    const parameter_map still = {{"threshold", 0.1}, {"kl_threshold", 10.0}, {"kl_history", 1}};
    EXPECT_GT(of(with(rule, still)).forwards[0],
              of(with(rule, with(still, {{"kl_threshold", 1e6}}))).forwards[0])
        << method;
  }
}

TEST(limits_klass, a_request_decodes_alike_after_any_other) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const parameter_map rule = {{"remasking", std::string("klass")},
                              {"block_length", 8},
                              {"threshold", 0.1},
                              {"kl_threshold", 0.3},
                              {"kl_history", 1}};
  const auto of = [&](std::int32_t places) {
    return outputs(decode_closed(*model, "delayed_cache", rule, tiny_requests(5, 24), places));
  };
  EXPECT_EQ(of(1), of(5));
}

TEST(limits_klass, what_does_not_combine_is_refused_by_name) {
  const auto refusal = [](const std::string& method, const parameter_map& more) {
    try {
      decode(model_family::sdar, method, with({{"remasking", std::string("klass")}}, more));
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("focus", {}).find("drops rows of masks"), std::string::npos);
  EXPECT_NE(refusal("optimus", {}).find("klass"), std::string::npos);
  for (const parameter_map& other : std::vector<parameter_map>{
           {{"sampler", std::string("multinomial")}}, {{"temperature", 0.5}}}) {
    EXPECT_NE(refusal("block_diffusion", other).find("the model's own distributions"),
              std::string::npos);
  }
}

TEST(limits_klass, masks_stay_where_the_steps_run_out) {
  const auto model = tiny_model(model_family::dream, reference_backend());
  const parameter_map given = {{"confidence_threshold", 1.0}, {"steps", 10}};
  const auto r = decode_closed(*model, "klass", given, tiny_requests(3, 16), 2);
  for (const decoded_answer& a : r.answers) {
    EXPECT_EQ(a.counters.forwards, 10);
    EXPECT_EQ(std::count(a.output.begin(), a.output.end(), model->config().mask_id),
              16 - a.counters.committed);
    EXPECT_GE(16 - a.counters.committed, 6);
  }
}

TEST(limits_pc_sampler, without_place_and_table_it_is_vanilla) {
  const auto of = [](double lambda) {
    const parameter_map given = {{"lambda", lambda}, {"alpha", 1e6}};
    return decode(model_family::llada, "pc_sampler", with(blocks, given));
  };
  EXPECT_TRUE(of(0) == decode(model_family::llada, "vanilla", blocks));
  EXPECT_TRUE(of(0.5) != of(0));
}

// Where every place differs by more than any confidence can, the order is left to right.
TEST(limits_pc_sampler, a_steep_weight_is_left_to_right) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct in_order final : step_observer {
    void on_step(const step_view& s) override {
      if (s.candidates.count > 0) {
        EXPECT_EQ(s.candidates.accept.as<std::uint8_t>()[0], 1);
      }
    }
  } watch;
  decode_closed(*model, "pc_sampler", with(blocks, {{"lambda", 8.0}}), tiny_requests(1, 24), 1, "",
                &watch);
}

TEST(limits_pc_sampler, tables_that_do_not_fit_are_refused) {
  const model_config c = tiny_config(model_family::llada);
  EXPECT_EQ(refusal_of("pc_sampler", c, {{"frequencies", std::string("1,2,3")}}),
            "pc_sampler: frequencies: the list has 3 counts, the model 61 tokens");
  EXPECT_NE(refusal_of("pc_sampler", c, {{"frequencies", std::string("1,.,3")}}).find("entry 1"),
            std::string::npos);
}

}  // namespace
}  // namespace unmask::testing
