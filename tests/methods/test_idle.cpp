// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A rule that unmasks nothing ends with a sentence, whatever method it is in: not for ever, and not with an
// empty answer.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/error.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

// The first mistake of whoever writes a rule: no candidate qualifies, and there is no surest one instead.
class accepts_nothing final : public unmask_policy {
 public:
  void judge(const batch&, const step_choice&, const tensor_view&, const packed_matrix&,
             candidate_lists& candidates) override {
    std::fill_n(candidates.token.as<std::int32_t>(), candidates.count, 1);
  }
  void decide(const batch&, const step_choice&, candidate_lists& candidates) override {
    std::fill_n(candidates.accept.as<std::uint8_t>(), candidates.count, std::uint8_t{0});
  }
};

std::string failure_of(model_family family, const std::string& base, const parameter_map& given) {
  method_info info = method_registry::instance().find(base);
  info.make = [make = info.make](const model_config& model, const parameters& settings) {
    recipe r = make(model, settings);
    r.method = "rising";
    r.unmask = std::make_unique<accepts_nothing>();
    return r;
  };
  const auto model = tiny_model(family, cpu_backend());
  return test::message_of(
      [&] { run_closed_loop(*model, info, test::resolved(base, given), tiny_requests(2, 16), 2); });
}

TEST(idle, a_rule_that_accepts_nothing_is_named) {
  struct {
    model_family family;
    const char* base;
    parameter_map given;
  } const cases[] = {
      {model_family::llada, "vanilla", {{"block_length", 8}}},
      {model_family::llada, "fast_dllm", {{"block_length", 8}, {"threshold", 0.9}}},
      {model_family::sdar, "block_diffusion", {{"block_length", 8}}},
      {model_family::llada, "multi_block", {{"block_length", 8}}},
      {model_family::sdar, "multi_block", {{"block_length", 8}}},
  };
  for (const auto& c : cases) {
    const std::string said = failure_of(c.family, c.base, c.given);
    EXPECT_EQ(said.find("rising unmasked none of "), 0U) << c.base << ": " << said;
    EXPECT_NE(said.find(" forward passes: its rule accepts nothing"), std::string::npos) << said;
  }
}

// A rule that nothing passes, with a cap behind the 64 forward passes that a rule without one is given: the cap
// unmasks what is left. Where it leaves the masks nothing was unmasked, and that is said.
TEST(idle, a_cap_on_steps_ends_a_rule_that_waits) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(2, 16);
  const parameter_map waits = {
      {"rule", "threshold"}, {"threshold", 1.0}, {"guard", false}, {"steps", 90}};
  const auto run = decode_closed(*model, "ada_dlm", waits, requests, 2);
  for (const auto& answer : run.answers) {
    EXPECT_EQ(answer.counters.forwards, 90);
    EXPECT_EQ(answer.counters.committed, 16);
    EXPECT_EQ(std::ranges::count(answer.output, model->config().mask_id), 0);
  }
  const std::string said = test::message_of([&] {
    decode_closed(*model, "ada_dlm", with(waits, {{"at_cap", "leave"}}), requests, 2);
  });
  EXPECT_NE(said.find("unmasked none of"), std::string::npos) << said;
  EXPECT_NE(said.find(std::to_string(90 * 16)), std::string::npos) << said;
}

// Dream spreads 16 tokens over 512 forward passes. Of m masks, pass i unmasks
// int(0.999 m / (512 - i + 0.001 i)), the last one all: 0 up to i = 496, where 16 masks give 15.98 / 16.5,
// then 1 in each, and 2 in the last. Ada-DLM with a threshold that no confidence reaches unmasks all in
// its last forward pass. Neither is idle.
TEST(idle, a_schedule_that_counts_its_forward_passes_may_wait_longer_than_the_response) {
  struct {
    const char* method;
    parameter_map given;
    std::int64_t last;  // forward passes that unmask something
  } const cases[] = {
      {"vanilla", {{"steps", 512}}, 15},
      {"ada_dlm", {{"steps", 512}, {"rule", "threshold"}, {"threshold", 1.0}, {"guard", false}}, 1},
  };
  struct counted final : step_observer {
    std::int64_t unmasking = 0;
    void on_step(const step_view& step) override { unmasking += step.decisions.empty() ? 0 : 1; }
  };
  const auto model = tiny_model(model_family::dream, cpu_backend());
  for (const auto& c : cases) {
    counted seen;
    const auto r = decode_closed(*model, c.method, c.given, tiny_requests(1, 16), 1, "", &seen);
    EXPECT_EQ(r.answers[0].counters.forwards, 512) << c.method;
    EXPECT_EQ(r.answers[0].counters.committed, 16) << c.method;
    EXPECT_EQ(seen.unmasking, c.last) << c.method;
  }
}

// From above 1 on no block would ever count as full, and a later one would never be made to unmask.
TEST(idle, a_block_that_never_activates_is_no_setting) {
  const auto set = [](double threshold) {
    return test::message_of([&] {
      test::resolved("multi_block", {{"activation_threshold", threshold}});
    });
  };
  EXPECT_EQ(set(1.0), "");
  EXPECT_NE(set(1.0001).find("activation_threshold"), std::string::npos);
}

TEST(idle, a_block_that_is_longer_than_the_response_is_refused) {
  const auto model = tiny_model(model_family::sdar, cpu_backend());
  for (const char* method : {"freedave", "multi_block"}) {
    const std::string said = test::message_of([&] {
      decode_closed(*model, method, {{"block_length", 64}}, tiny_requests(1, 16), 1);
    });
    EXPECT_EQ(said, std::string(method) + ": gen_length 16 is less than block_length 64");
  }
}

}  // namespace
}  // namespace unmask
