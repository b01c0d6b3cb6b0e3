// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "harness/base/error.h"
#include "harness/decode/parameters.h"
#include "tests/support.h"

namespace unmask {
namespace {

const std::vector<parameter_spec> specs = {
    {"steps", std::int64_t{0}, "denoising steps", 0, 4096, {}, ""},
    {"threshold", 0.9, "confidence to decide at", 0, 2, {}, ""},
    {"use_cache", true, "keep K/V", -1e300, 1e300, {}, ""},
    {"remasking",
     std::string("low_confidence"),
     "order",
     -1e300,
     1e300,
     {"low_confidence", "random"},
     ""},
    {"note", std::string(), "free text", -1e300, 1e300, {}, ""},
    {"bias", 0.0, "unbounded", -1e300, 1e300, {}, ""}};

std::string message_of(const parameter_map& given) {
  const test::failure ended =
      test::failure_of([&] { resolve_parameters("vanilla", specs, given); });
  EXPECT_TRUE(ended.code == exit_code::usage || ended.sentence.empty()) << ended.sentence;
  return ended.sentence;
}

TEST(parameters, defaults_fill_what_is_not_given) {
  const parameters p(resolve_parameters("vanilla", specs, {{"steps", 8}}));
  EXPECT_EQ(p.integer("steps"), 8);
  EXPECT_EQ(p.real("threshold"), 0.9);
  EXPECT_TRUE(p.flag("use_cache"));
  EXPECT_EQ(p.text("remasking"), "low_confidence");
  EXPECT_EQ(p.values().size(), specs.size());
}

// What came later leaves the ids of older points as they were, until it is set.
TEST(parameters, what_came_later_is_no_part_of_an_id_at_its_default) {
  std::vector<parameter_spec> more = specs;
  more.push_back({"stop", std::string(), "where to end", -1e300, 1e300, {}, ""});
  more.back().later = true;
  const parameter_map before = resolve_parameters("vanilla", specs, {});
  EXPECT_EQ(identity_of(specs, before), before);
  EXPECT_EQ(identity_of(more, resolve_parameters("vanilla", more, {})), before);
  const parameter_map set = resolve_parameters("vanilla", more, {{"stop", std::string("7")}});
  EXPECT_EQ(identity_of(more, set), set);
}

TEST(parameters, integers_are_accepted_for_reals_only) {
  const auto resolved = resolve_parameters("vanilla", specs, {{"threshold", 1}});
  EXPECT_EQ(std::get<double>(resolved.at("threshold")), 1.0);
  EXPECT_EQ(message_of({{"steps", 8.0}}),
            "vanilla: parameter 'steps' takes an integer, not a number (8)");
  EXPECT_EQ(message_of({{"use_cache", 1}}),
            "vanilla: parameter 'use_cache' takes a boolean, not an integer (1)");
}

TEST(parameters, bounds_are_inclusive_and_nan_is_refused) {
  EXPECT_EQ(message_of({{"steps", 4096}}), "");
  EXPECT_EQ(message_of({{"threshold", 2.0}}), "");
  EXPECT_EQ(message_of({{"steps", 4097}}),
            "vanilla: parameter 'steps' is 4097 but must be from 0 to 4096");
  EXPECT_NE(message_of({{"threshold", std::nan("")}}), "");
  EXPECT_NE(message_of({{"bias", std::numeric_limits<double>::infinity()}}), "");
}

TEST(parameters, strings_must_be_one_of_the_choices) {
  EXPECT_EQ(message_of({{"note", "anything"}}), "");
  EXPECT_EQ(
      message_of({{"remasking", "best"}}),
      "vanilla: parameter 'remasking' cannot be 'best'; choose one of low_confidence, random");
}

TEST(parameters, unknown_names_get_the_nearest_one) {
  EXPECT_EQ(message_of({{"treshold", 0.9}}),
            "vanilla: unknown parameter 'treshold'; did you mean 'threshold'?");
  EXPECT_EQ(message_of({{"zzzzzzzzz", 0.9}}),
            "vanilla: unknown parameter 'zzzzzzzzz'; known: bias, note, remasking, steps, "
            "threshold, use_cache");
}

TEST(parameters, wrong_access_is_a_programming_error) {
  const parameters p(resolve_parameters("vanilla", specs, {}));
  EXPECT_THROW(p.integer("absent"), std::logic_error);
  EXPECT_THROW(p.integer("threshold"), std::logic_error);
}

TEST(parameters, nearest_names_are_ordered_and_limited) {
  EXPECT_EQ(nearest_names("step", {"threshold", "stop", "steps"}, 2),
            (std::vector<std::string>{"stop", "steps"}));  // both one edit away: given order
  EXPECT_TRUE(nearest_names("x", {}).empty());
  EXPECT_EQ(unknown_name("method", "x", {}), "unknown method 'x'; there is none to choose from");
  EXPECT_EQ(unknown_name("method", "block", {"block_diffusion", "vanilla"}),
            "unknown method 'block'; did you mean 'block_diffusion'?");
}

TEST(parameters, text_of_a_value_reads_back) {
  EXPECT_EQ(to_string(parameter_value(0.1)), "0.1");
  EXPECT_EQ(to_string(parameter_value(std::int64_t{-3})), "-3");
  EXPECT_EQ(to_string(parameter_value(true)), "true");
  EXPECT_EQ(to_string(parameter_value(std::string("a b"))), "a b");
  const double third = 1.0 / 3.0;
  EXPECT_EQ(std::stod(to_string(parameter_value(third))), third);
}

}  // namespace
}  // namespace unmask
