// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// KLASS is the schedule where nothing can be ready, and a threshold where any movement is allowed.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/error.h"
#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map blocks = {{"block_length", 8}};

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
  EXPECT_NE(refusal("focus", {}).find("evicts masks"), std::string::npos);
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

}  // namespace
}  // namespace unmask::testing
