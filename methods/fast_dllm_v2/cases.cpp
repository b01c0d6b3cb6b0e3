// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities of fast_dllm_v2.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask::testing {
namespace {

const parameter_map endless = {{"stop", std::string("none")}, {"threshold", 0.3}};

struct nested_run {
  std::vector<std::vector<std::int32_t>> answers;
  std::vector<std::int64_t> forwards, committed;
  bool operator==(const nested_run&) const = default;
};

nested_run decode_nested(const parameter_map& given, model_family family = model_family::qwen2) {
  const auto model = tiny_model(family, reference_backend());
  const auto r = decode_closed(*model, "fast_dllm_v2", given, tiny_requests(6, 24), 2);
  nested_run d{outputs(r), {}, {}};
  for (const decoded_answer& a : r.answers) {
    d.forwards.push_back(a.counters.forwards);
    d.committed.push_back(static_cast<std::int64_t>(a.counters.committed));
  }
  return d;
}

TEST(limits_fast_dllm_v2, a_sub_block_of_a_whole_block_needs_no_cache) {
  const parameter_map whole = with(endless, {{"sub_block_length", 8}});
  EXPECT_TRUE(decode_nested(whole) == decode_nested(with(whole, {{"sub_block_cache", true}})));
}

TEST(limits_fast_dllm_v2, the_sub_block_cache_computes_fewer_rows) {
  const auto model = tiny_model(model_family::qwen2, reference_backend());
  const auto rows = [&](bool cached) {
    return rows_of(decode_closed(
        *model, "fast_dllm_v2",
        with(endless, {{"sub_block_length", 4}, {"threshold", 1.0}, {"sub_block_cache", cached}}),
        tiny_requests(4, 24), 2));
  };
  EXPECT_LT(rows(true), rows(false));
}

// Output: whole blocks from the one that holds the prompt's rest on, and the last seed.
TEST(limits_fast_dllm_v2, blocks_count_from_the_prompts_rest_and_end_with_a_seed) {
  const nested_run run = decode_nested(endless);
  const auto requests = tiny_requests(6, 24);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(run.answers[i].size(), 24 - requests[i].prompt.size() % 8 + 1) << i;
    EXPECT_EQ(run.committed[i], static_cast<std::int64_t>(run.answers[i].size())) << i;
  }
}

// Above every confidence each denoise forward decides one token, and seeds come beside them.
TEST(limits_fast_dllm_v2, at_threshold_one_a_forward_decides_one_token) {
  const auto model = tiny_model(model_family::qwen2, reference_backend());
  struct tokens final : step_observer {
    std::int32_t seeds = 0;
    void on_step(const step_view& s) override {
      const sequence_step& step = s.plan.of[0];
      std::int32_t taken = 0;
      for (std::int32_t c = 0; c < s.candidates.count; ++c) {
        taken += s.candidates.accept.as<std::uint8_t>()[c];
      }
      if (step.what == forward_kind::prefill) {
        EXPECT_EQ(taken, step.last == s.state.at(0).prompt_length ? 1 : 0);
      } else {
        EXPECT_EQ(taken, 1);
      }
      if (step.candidate_first < step.last) return;
      seeds += taken;
      // It is read from the last row, whatever its confidence.
      EXPECT_EQ(s.candidates.row.as<std::int32_t>()[0], s.entered.rows - 1);
      EXPECT_EQ(s.candidates.position.as<std::int32_t>()[0], step.last);
    }
  } seen;
  sequence_request request = tiny_requests(1, 24)[0];
  request.prompt.resize(16, 5);  // two whole blocks
  decode_closed(*model, "fast_dllm_v2", with(endless, {{"threshold", 1.0}}), {request}, 1, "",
                &seen);
  EXPECT_EQ(seen.seeds, 4);  // of the prefill and of three commits
}

TEST(limits_fast_dllm_v2, one_block_ends_alike_in_both_loops) {
  const auto model = tiny_model(model_family::qwen2, reference_backend());
  const auto of = [&](const char* loop) {
    return outputs(decode_closed(*model, "fast_dllm_v2",
                                 with(endless, {{"loop", std::string(loop)}}), tiny_requests(4, 8),
                                 2));
  };
  EXPECT_EQ(of("hf"), of("eval"));
}

TEST(limits_fast_dllm_v2, refuses_what_it_cannot_decode) {
  EXPECT_NE(refusal_of("fast_dllm_v2", tiny_config(model_family::sdar), {}).find("row before"),
            std::string::npos);
  EXPECT_EQ(refusal_of("fast_dllm_v2", tiny_config(model_family::qwen2), {{"sub_block_length", 3}}),
            "fast_dllm_v2: sub_block_length 3 does not divide the block length 8");
  const auto model = tiny_model(model_family::qwen2, reference_backend());
  const test::failure short_of_a_block =
      test::failure_of([&] { decode_closed(*model, "fast_dllm_v2", {}, tiny_requests(1, 7), 1); });
  EXPECT_EQ(short_of_a_block.sentence, "fast_dllm_v2: gen_length 7 is less than one block of 8");
}

}  // namespace
}  // namespace unmask::testing
