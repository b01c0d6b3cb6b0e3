// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Drafts change no token, and with one step a forward there are none.
#include <gtest/gtest.h>

#include <algorithm>

#include "methods/settings.h"
#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

// Lossless: whatever is drafted, the tokens are those of one step a forward, and it takes no more
// forwards than that (eager begins blocks with a forward of its own).
TEST(limits_freedave, drafts_change_no_token) {
  std::int64_t accepted = 0;
  for (const setting& s : all_settings()) {
    if (s.method != "freedave") continue;
    const decoded one = decode_on_cpu(s.method, with(s.given, {{"draft_steps", 1}}), s.family);
    for (const std::int64_t steps : {2, 3, 8}) {
      const parameter_map given = with(s.given, {{"draft_steps", steps}});
      const decoded drafted = decode_on_cpu(s.method, given, s.family);
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
    const decoded schedule = decode_on_cpu("fast_dllm", given);
    EXPECT_TRUE(decode_on_cpu("freedave", with(given, {{"draft_steps", 1}})) == schedule) << cache;
    EXPECT_EQ(decode_on_cpu("freedave", given).answers, schedule.answers) << cache;
  }
}

}  // namespace
}  // namespace unmask::testing
