// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Without credit the rule is a threshold.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map blocks = {{"block_length", 8}};
const parameter_map endless = {{"stop", std::string("none")}};

TEST(limits_credit_decoding, without_credit_it_is_the_threshold_rule) {
  const auto of = [](double alpha, double threshold) {
    const parameter_map given = {{"threshold", threshold}, {"credit_alpha", alpha}};
    return decode(model_family::llada, "credit_decoding", with(with(blocks, endless), given));
  };
  EXPECT_TRUE(of(0, 0.35) == threshold_rule(0.35));
  EXPECT_TRUE(of(0, 0.9) == threshold_rule(0.9));
  EXPECT_TRUE(of(5, 0.9) != threshold_rule(0.9));
}

}  // namespace
}  // namespace unmask::testing
