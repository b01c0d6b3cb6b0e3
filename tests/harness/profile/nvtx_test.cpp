// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/nvtx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#if UNMASK_HAS_NVTX
#include "tests/harness/profile/nvtx_recorder.h"
#endif

namespace unmask {
namespace {

constexpr int categories = 10;

TEST(nvtx, every_category_has_its_own_name) {
  std::set<std::string> names;
  for (int i = 1; i <= categories; ++i) names.insert(name_of(static_cast<range_category>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(categories));
  EXPECT_STREQ(name_of(range_category::prefill), "prefill");
  EXPECT_STREQ(name_of(range_category::lm_head), "lm_head");
  EXPECT_STREQ(name_of(range_category::scheduler), "scheduler");
}

#if UNMASK_HAS_NVTX

using kind = nvtx_event::kind;

TEST(nvtx, ranges_nest_and_carry_name_category_and_payload) {
  take_nvtx_events();
  static const range_name settle("settle", range_category::cache);
  {
    const profile_range step(range_category::denoise, 7);
    { const profile_range layer(range_category::attention, 3); }
    { const profile_range layer(settle, -1); }
  }
  const std::vector<nvtx_event> events = take_nvtx_events();
  ASSERT_EQ(events.size(), 6U);
  const std::vector<kind> order = {kind::push, kind::push, kind::pop,
                                   kind::push, kind::pop,  kind::pop};
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].what, order[i]) << "event " << i;
    EXPECT_EQ(events[i].domain, "unmask") << "event " << i;
  }
  const auto expect_push = [](const nvtx_event& event, const char* name, const char* category,
                              std::int64_t payload) {
    EXPECT_EQ(event.name, name);
    EXPECT_TRUE(event.registered) << name;
    EXPECT_EQ(event.category, category);
    EXPECT_EQ(event.payload, payload);
  };
  expect_push(events[0], "denoise", "denoise", 7);
  expect_push(events[1], "attention", "attention", 3);
  expect_push(events[3], "settle", "cache", -1);
}

TEST(nvtx, a_name_is_registered_once_however_often_it_is_used) {
  for (int i = 0; i < 100; ++i) const profile_range range(range_category::mlp, i);
  const auto strings = registered_nvtx_strings();
  EXPECT_EQ(std::count(strings.begin(), strings.end(), "mlp"), 1);
  EXPECT_EQ(take_nvtx_events().size(), 200U);
}

TEST(nvtx, a_range_closes_when_an_exception_leaves_it) {
  take_nvtx_events();
  try {
    const profile_range range(range_category::sample, 1);
    throw 1;
  } catch (int) {
  }
  const auto events = take_nvtx_events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].what, kind::pop);
}

#else

TEST(nvtx, recorder) {
  GTEST_SKIP() << "built without NVTX headers: ranges do nothing";
}

#endif

TEST(nvtx, the_build_says_whether_ranges_do_anything) {
#if UNMASK_HAS_NVTX
  EXPECT_TRUE(nvtx_built());
#else
  EXPECT_FALSE(nvtx_built());
#endif
}

}  // namespace
}  // namespace unmask
