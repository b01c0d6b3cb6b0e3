// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// With no entropy allowed EB-sampler decides one token a forward, with any a block.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map blocks = {{"block_length", 8}};

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
            "sparse_dllm: gamma is of LLaDA's loop; Dream's unmasks by a schedule of time");
}

// In another order they can differ: the cases by hand of methods/parts/kernels.
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

}  // namespace
}  // namespace unmask::testing
