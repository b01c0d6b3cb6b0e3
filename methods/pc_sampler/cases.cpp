// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Without place and table PC-Sampler is vanilla.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map blocks = {{"block_length", 8}};

TEST(limits_pc_sampler, without_place_and_table_it_is_vanilla) {
  const auto of = [](double lambda) {
    const parameter_map given = {{"lambda", lambda}, {"alpha", 1e6}};
    return decode(model_family::llada, "pc_sampler", with(blocks, given));
  };
  EXPECT_TRUE(of(0) == decode(model_family::llada, "vanilla", blocks));
  EXPECT_TRUE(of(0.5) != of(0));
}

// Where every place differs by more than any confidence can, the order is left to right.
TEST(limits_pc_sampler, a_steep_weight_is_left_to_right) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct in_order final : step_observer {
    void on_step(const step_view& s) override {
      if (s.candidates.count > 0) {
        EXPECT_EQ(s.candidates.accept.as<std::uint8_t>()[0], 1);
      }
    }
  } watch;
  decode_closed(*model, "pc_sampler", with(blocks, {{"lambda", 8.0}}), tiny_requests(1, 24), 1, "",
                &watch);
}

TEST(limits_pc_sampler, tables_that_do_not_fit_are_refused) {
  const model_config c = tiny_config(model_family::llada);
  EXPECT_EQ(refusal_of("pc_sampler", c, {{"frequencies", std::string("1,2,3")}}),
            "pc_sampler: frequencies: the list has 3 counts, the model 61 tokens");
  EXPECT_NE(refusal_of("pc_sampler", c, {{"frequencies", std::string("1,.,3")}}).find("entry 1"),
            std::string::npos);
}

}  // namespace
}  // namespace unmask::testing
