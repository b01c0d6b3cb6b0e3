// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities of methods with several rows at one position.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/decode/step_loop.h"
#include "methods/settings.h"
#include "tests/methods/tiny_models.h"

namespace unmask::testing {
namespace {

struct view_run {
  std::vector<std::vector<std::int32_t>> answers;
  std::vector<std::int64_t> forwards;
  bool operator==(const view_run&) const = default;
};

view_run run_with_views(const std::string& method, const parameter_map& given,
                        model_family family = model_family::llada) {
  const auto model = tiny_model(family, cpu_backend());
  const auto r = decode_closed(*model, method, given, tiny_requests(4, 24), 2);
  view_run d{outputs(r), {}};
  for (const decoded_answer& a : r.answers) d.forwards.push_back(a.counters.forwards);
  return d;
}

view_run by_threshold(double threshold) {
  return run_with_views(
      "vanilla",
      {{"block_length", 8}, {"threshold", threshold}, {"schedule", std::string("llada")}});
}

const parameter_map uncapped = {
    {"block_length", 8}, {"cap_share", 1.0}, {"min_cap", 4096}, {"max_cap", 4096}};

TEST(limits_wino, nothing_above_the_threshold_is_one_token_a_forward) {
  for (const char* variant : {"official", "port"}) {
    const parameter_map given = {
        {"block_length", 8}, {"threshold", 1.5}, {"variant", std::string(variant)}};
    EXPECT_TRUE(run_with_views("wino", given) == by_threshold(1.5)) << variant;
  }
}

// The official rule is strict: a threshold that no confidence equals is as strict.
TEST(limits_wino, nothing_reopened_is_the_threshold_rule) {
  for (const char* variant : {"official", "port"}) {
    const parameter_map given = {
        {"threshold", 0.35}, {"threshold_back", 0.0}, {"variant", std::string(variant)}};
    EXPECT_TRUE(run_with_views("wino", with(uncapped, given)) == by_threshold(0.35)) << variant;
  }
  const auto reopening = [](double threshold_back) {
    return run_with_views(
        "wino", {{"block_length", 8}, {"threshold", 0.1}, {"threshold_back", threshold_back}});
  };
  EXPECT_TRUE(reopening(0.9) != reopening(0));
}

// Prompt P, canvas 24 in blocks of 8: every forward has P + 24 + 8 rows. A canvas row sees P + 24 keys,
// a shadow row one less and the 8 of the shadow. What was taken less what was reopened is the answer.
TEST(limits_wino, work_by_hand) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(3, 24);
  const parameter_map given = {{"block_length", 8}, {"threshold", 0.1}, {"threshold_back", 0.9}};
  const auto r = decode_closed(*model, "wino", given, requests, 2);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& n = r.answers[i].counters;
    const auto canvas = static_cast<double>(requests[i].prompt.size() + 24);
    EXPECT_EQ(n.rows, n.forwards * static_cast<std::int64_t>(canvas + 8));
    EXPECT_DOUBLE_EQ(n.keys_seen, static_cast<double>(n.forwards) * model->config().layers *
                                      (canvas * canvas + 8 * (canvas - 1 + 8)));
    EXPECT_EQ(n.keys_hidden, 0);
    EXPECT_GT(n.reopened, 0);
    EXPECT_EQ(n.committed, 24);
  }
}

// ---- drafts ------------------------------------------------------------------------------------

// Lossless: whatever is drafted, the tokens are those of one step a forward, and it takes no more
// forwards than that (eager begins blocks with a forward of its own).
TEST(limits_freedave, drafts_change_no_token) {
  std::int64_t accepted = 0;
  for (const setting& s : all_settings()) {
    if (s.method != "freedave") continue;
    const view_run one = run_with_views(s.method, with(s.given, {{"draft_steps", 1}}), s.family);
    for (const std::int64_t steps : {2, 3, 8}) {
      const parameter_map given = with(s.given, {{"draft_steps", steps}});
      const view_run drafted = run_with_views(s.method, given, s.family);
      EXPECT_EQ(drafted.answers, one.answers) << s.label << ", " << steps << " drafts";
      for (std::size_t i = 0; i < one.forwards.size(); ++i) {
        accepted += std::max<std::int64_t>(one.forwards[i] - drafted.forwards[i], 0);
        if (!s.given.contains("eager")) {
          EXPECT_LE(drafted.forwards[i], one.forwards[i]);
        }
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(limits_freedave, one_step_a_forward_is_the_static_schedule) {
  const auto model = tiny_model(model_family::sdar, cpu_backend());
  const auto requests = tiny_requests(4, 24);
  for (const std::int64_t steps : {1, 4}) {
    const auto drafted = decode_closed(*model, "freedave",
                                       {{"block_length", 8}, {"draft_steps", steps}}, requests, 2);
    const auto block = decode_closed(*model, "block_diffusion",
                                     {{"block_length", 8},
                                      {"steps", 8},
                                      {"remasking", std::string("low_confidence_static")},
                                      {"stop", std::string("none")}},
                                     requests, 2);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto &ours = drafted.answers[i].output, &theirs = block.answers[i].output;
      ASSERT_GE(ours.size(), theirs.size());
      EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), ours.begin()));
    }
  }
}

TEST(limits_freedave, one_step_a_forward_is_the_cached_schedule) {
  for (const char* cache : {"dual", "prefix"}) {
    const parameter_map given = {{"block_length", 8}, {"cache", std::string(cache)}};
    const view_run schedule = run_with_views("fast_dllm", given);
    EXPECT_TRUE(run_with_views("freedave", with(given, {{"draft_steps", 1}})) == schedule) << cache;
    EXPECT_EQ(run_with_views("freedave", given).answers, schedule.answers) << cache;
  }
}

// ---- several blocks ----------------------------------------------------------------------------

// No token of a block before its predecessor is complete: when blocks open is all the same.
TEST(limits_multi_block, nothing_above_the_threshold_decides_block_after_block) {
  for (const model_family family : {model_family::llada, model_family::dream, model_family::sdar}) {
    const parameter_map strict = {
        {"block_length", 8}, {"threshold", 1.5}, {"activation_threshold", 1.0}};
    const auto of = [&](double add, std::int64_t most) {
      const parameter_map given = {{"add_block_threshold", add}, {"max_blocks", most}};
      return run_with_views("multi_block", with(strict, given), family);
    };
    const view_run one = of(1, 0);
    for (const double add : {0.0, 0.3}) {
      EXPECT_EQ(of(add, 0).answers, one.answers);
      EXPECT_EQ(of(add, 2).answers, one.answers);
    }
  }
}

// A block opens in the forward that stores its predecessor: one block at a time, without commits.
TEST(limits_multi_block, whole_blocks_only_is_one_block_at_a_time) {
  const parameter_map given = {{"block_length", 8}, {"threshold", 0.3}};
  const view_run single =
      run_with_views("multi_block", with(given, {{"max_blocks", 1}}), model_family::sdar);
  const view_run whole = run_with_views("multi_block", with(given, {{"add_block_threshold", 1.0}}),
                                        model_family::sdar);
  EXPECT_EQ(whole.answers, single.answers);
  const auto requests = tiny_requests(4, 24);
  for (std::size_t i = 0; i < whole.forwards.size(); ++i) {
    // Of each block but the last one forward decides nothing; a prompt of whole blocks enters alone.
    const auto prompt = static_cast<std::int64_t>(requests[i].prompt.size());
    const std::int64_t blocks = (prompt + 24 + 7) / 8 - prompt / 8;
    EXPECT_EQ(whole.forwards[i], single.forwards[i] - (blocks - 1));
  }
  EXPECT_NE(run_with_views("multi_block", given, model_family::sdar).answers, single.answers);
}

}  // namespace
}  // namespace unmask::testing
