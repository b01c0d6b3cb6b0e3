// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <type_traits>

#include "harness/decode/pass_totals.h"

namespace unmask {
namespace {

TEST(pass_totals, the_list_is_the_whole_of_the_struct) {
  std::size_t bytes = 0;
  std::set<std::string> names, metrics = {""};
  for (const total_spec& t : total_list()) {
    std::visit([&](const auto member) { bytes += sizeof(pass_totals{}.*member); }, t.field);
    names.insert(t.name);
    EXPECT_NE(std::string(t.unit), "") << t.name;
    EXPECT_NE(std::string(t.meaning), "") << t.name;
    // What a row tells has a name there; a share is of a time.
    const bool told = t.told != told_as::nothing;
    EXPECT_EQ(std::string(t.metric).empty(), !told) << t.name;
    EXPECT_EQ(metrics.insert(t.metric).second, told) << t.name;
    EXPECT_FALSE(t.told == told_as::share && t.counted()) << t.name;
    EXPECT_EQ(t.counted(), !std::string(t.name).ends_with("_seconds")) << t.name;
  }
  EXPECT_EQ(bytes, sizeof(pass_totals));
  EXPECT_EQ(names.size(), total_list().size());
}

TEST(pass_totals, a_served_pass_keeps_its_counts_and_no_time) {
  pass_totals t;
  double next = 1;
  for (const total_spec& spec : total_list()) {
    EXPECT_EQ(spec.of(t).has_value(), std::string(spec.name) != "state_bytes") << spec.name;
    std::visit(
        [&](const auto member) {
          using number = std::remove_reference_t<decltype(t.*member)>;
          if constexpr (std::is_same_v<number, std::optional<std::size_t>>) {
            t.*member = static_cast<std::size_t>(next++);
          } else {
            t.*member = static_cast<number>(next++);
          }
        },
        spec.field);
  }
  EXPECT_EQ(t.steps, 1);
  EXPECT_EQ(t.state_bytes, 3U);
  const pass_totals counts = counted_part(t);
  next = 1;
  for (const total_spec& spec : total_list()) {
    EXPECT_EQ(spec.of(t), next) << spec.name;
    EXPECT_EQ(spec.of(counts), spec.counted() ? next : 0) << spec.name;
    ++next;
  }
}

TEST(pass_totals, shares_are_of_steps_and_their_planning) {
  pass_totals t;
  t.planning_seconds = 0.5;
  EXPECT_EQ(t.all_seconds(), 0);  // no step was timed
  t.step_seconds = 2;
  t.selection_seconds = t.rule_seconds = 1;  // parts of the steps
  EXPECT_EQ(t.all_seconds(), 2.5);
}

}  // namespace
}  // namespace unmask
