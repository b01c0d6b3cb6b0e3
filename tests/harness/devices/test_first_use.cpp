// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The first use of a GPU with checks that are wrong in a planted way; with wrong kernels on a GPU in
// software: tests/softgpu/first_use_test.py.
#include "harness/devices/device.h"
#include "harness/devices/first_use.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "harness/base/error.h"

namespace unmask {
namespace {

using cuda::multiplied;
using cuda::multiplier;
using device_checks::checker;
using device_checks::device_check;

class first_use : public ::testing::Test {
 protected:
  // Two cases, of which the second is wrong while one of these ways may be taken.
  device_check check(const std::string& name, std::optional<multiplied> by,
                     std::vector<multiplier> wrong) {
    return {name,
            [this, name, by, wrong](checker& c) {
              ran_.push_back(name);
              c.report(name.c_str(), "first", 0.5);
              bool right = true;
              for (const multiplier how : wrong) {
                right = right && !taken_.may_multiply(by.value_or(multiplied::attention), how);
              }
              c.report(name.c_str(), "second", right ? 0.5 : 7);
            },
            by};
  }
  device_check_outcome run(const std::vector<device_check>& checks, bool wgmma = true) {
    const auto device = [this](const cuda::choices& taken) -> const backend& {
      taken_ = taken;
      return cpu_backend();
    };
    return run_device_checks(device, {}, "GPU X", checks, wgmma);
  }
  std::string refusal(const std::vector<device_check>& checks) {
    try {
      run(checks);
      return "";
    } catch (const wrong_kernels& refused) {
      EXPECT_EQ(refused.code(), exit_code::run_failed);
      return refused.what();
    }
  }
  std::vector<std::string> ran_;
  cuda::choices taken_;  // by the last check
};

TEST_F(first_use, right_kernels_leave_nothing_out) {
  const auto outcome = run({check("a", multiplied::attention, {}), check("b", std::nullopt, {})});
  EXPECT_EQ(outcome.text(), "4 cases right");
  EXPECT_TRUE(taken_.left_out.empty());
}

TEST_F(first_use, the_next_way_that_passes_is_taken_and_all_of_its_kind_run_again) {
  const auto outcome = run({check("a", multiplied::attention, {}),
                            check("b", multiplied::attention, {multiplier::wgmma}),
                            check("c", multiplied::experts, {})});
  EXPECT_EQ(ran_, (std::vector<std::string>{"a", "b", "c", "a", "b"}));
  EXPECT_EQ(outcome.text(),
            "6 cases right; not used: attention by wgmma (b, second: off by 7 tolerances)");
  EXPECT_FALSE(taken_.may_multiply(multiplied::attention, multiplier::wgmma));
  EXPECT_TRUE(taken_.may_multiply(multiplied::attention, multiplier::mma_sync));
  EXPECT_TRUE(taken_.may_multiply(multiplied::experts, multiplier::wgmma));
}

TEST_F(first_use, cuda_cores_are_the_last_way) {
  const auto outcome =
      run({check("a", multiplied::experts, {multiplier::wgmma, multiplier::mma_sync}),
           check("b", multiplied::products, {multiplier::library})});
  ASSERT_EQ(outcome.left_out.size(), 3U);
  EXPECT_EQ(outcome.left_out[0].how, multiplier::wgmma);
  EXPECT_EQ(outcome.left_out[1].how, multiplier::library);
  EXPECT_EQ(outcome.left_out[2].how, multiplier::mma_sync);
  EXPECT_EQ(refusal({check("a", multiplied::experts, {multiplier::cuda_cores})}),
            "device check: wrong on GPU X: a, second: off by 7 tolerances, and no other way to "
            "multiply is left; nothing is measured there. run.device_check = \"off\" measures all "
            "the same and marks rows UNCHECKED");
}

TEST_F(first_use, a_card_without_wgmma_has_none_to_leave_out) {
  const auto outcome =
      run({check("a", multiplied::attention, {multiplier::mma_sync})}, /*wgmma=*/false);
  ASSERT_EQ(outcome.left_out.size(), 1U);
  EXPECT_EQ(outcome.left_out[0].how, multiplier::mma_sync);
}

TEST_F(first_use, what_has_one_way_or_throws_ends_the_run_by_name) {
  EXPECT_NE(refusal({check("top_indices", std::nullopt, {multiplier::mma_sync})})
                .find("wrong on GPU X: top_indices, second: off by 7 tolerances; nothing"),
            std::string::npos);
  const device_check broken{"embed", [](checker&) { throw std::runtime_error("no launch"); }, {}};
  EXPECT_NE(refusal({broken}).find("embed: no launch; nothing"), std::string::npos);
}

TEST_F(first_use, outcomes_are_kept_as_text) {
  device_check_outcome outcome{
      95, 3.5, {{multiplied::int8_products, multiplier::library, "why"}}, {}};
  EXPECT_EQ(outcome_of(json_of(outcome)).text(), outcome.text());
  EXPECT_EQ(outcome_of(json_of(outcome)).seconds, 3.5);
  for (const char* bad : {"", "{}",
                          "{\"cases\":1,\"seconds\":1,\"left_out\":[{\"what\":\"x\","
                          "\"how\":\"wgmma\",\"why\":\"\"}]}"}) {
    EXPECT_THROW(outcome_of(bad), error) << bad;
  }
}

// A clock that a call of the work moves, by whether the newer kernel may be taken.
TEST_F(first_use, the_faster_of_two_kernels_is_told_by_turns) {
  double seconds = 0;
  std::vector<bool> order;
  bool newer = false;
  const kernels_with device = [&](const cuda::choices& chosen) -> const backend& {
    newer = chosen.may_multiply(multiplied::head, multiplier::newer);
    return reference_backend();
  };
  const auto race = [&](multiplied of, double newer_ms, double before_ms) {
    return device_checks::device_race{"race", of, [&, newer_ms, before_ms](const backend&) {
                                        // The two backends are asked for before their work is prepared: that with it comes first.
                                        const bool first = order.size() % 2 == 0;
                                        order.push_back(first);
                                        return [&, first, newer_ms, before_ms] {
                                          seconds += (first ? newer_ms : before_ms) * 1e-3;
                                        };
                                      }};
  };
  const cuda::choices may{.newer = true};
  const auto clock = [&] { return seconds; };
  const auto won = run_device_races(device, may, {race(multiplied::head, 1.5, 2.5)}, true, clock);
  ASSERT_EQ(won.size(), 1U);
  EXPECT_NEAR(won[0].newer_ms, 1.5, 1e-9);
  EXPECT_NEAR(won[0].before_ms, 2.5, 1e-9);
  EXPECT_TRUE(won[0].newer_wins());
  EXPECT_FALSE(newer) << "the second backend leaves it out";
  const auto lost = run_device_races(device, may, {race(multiplied::head, 3, 2.5)}, true, clock);
  EXPECT_FALSE(lost.at(0).newer_wins());
  // Nothing to tell apart: not asked for, wrong, or no such products on this card.
  EXPECT_TRUE(run_device_races(device, {}, {race(multiplied::head, 1, 2)}, true, clock).empty());
  const cuda::choices wrong{.newer = true, .left_out = {{multiplied::head, multiplier::newer}}};
  EXPECT_TRUE(run_device_races(device, wrong, {race(multiplied::head, 1, 2)}, true, clock).empty());
  for (const multiplied by_wgmma : {multiplied::attention, multiplied::experts, multiplied::gated,
                                    multiplied::few_rows, multiplied::head_product}) {
    EXPECT_TRUE(run_device_races(device, may, {race(by_wgmma, 1, 2)}, false, clock).empty());
  }
  device_check_outcome outcome{95, 3.5, {}, {{multiplied::head, 1.5, 2.5}}};
  EXPECT_EQ(outcome.text(), "95 cases right; head by newer kernels 1.5 ms, before 2.5 ms");
  EXPECT_EQ(outcome_of(json_of(outcome)).text(), outcome.text());
}

// What comes behind a product, or a newer kernel of some cases, is left out only if that helps.
TEST_F(first_use, a_newer_kernel_is_left_out_only_if_that_helps) {
  const auto left_out = [this](device_check one) {
    one.folded_by = multiplied::head;
    const auto device = [this](const cuda::choices& taken) -> const backend& {
      taken_ = taken;
      return cpu_backend();
    };
    std::string all;
    const cuda::choices newer{.newer = true};
    for (const left_out_way& way :
         run_device_checks(device, newer, "GPU X", {one}, true).left_out) {
      all += std::string(name_of(way.what)) + " by " + name_of(way.how) + ";";
    }
    return all;
  };
  EXPECT_EQ(left_out(check("a", multiplied::products, {multiplier::library})),
            "products by cuBLASLt;");
  EXPECT_EQ(left_out(check("b", multiplied::attention, {multiplier::newer, multiplier::wgmma})),
            "attention by wgmma;attention by newer kernels;");
  device_check fold = check("c", multiplied::head, {multiplier::newer});
  EXPECT_EQ(left_out(fold), "head by newer kernels;");
  device_check gates = check("d", multiplied::gated, {multiplier::newer});
  EXPECT_EQ(left_out(gates), "gate and up by newer kernels;");
}

TEST_F(first_use, only_a_gpu_is_checked_and_off_says_so) {
  run_keys run;
  run.device = "cpu";
  EXPECT_EQ(find_device("cpu").checked(run, false), "");
  run.device = "cuda";
  run.device_check = "off";
  EXPECT_EQ(find_device("cuda").checked(run, false), not_checked);
}

// Times of two GPUs could choose two kernels, whose bits differ.
TEST_F(first_use, no_card_decides_for_several_ranks) {
  run_keys run;
  run.device = "cuda";
  EXPECT_TRUE(card_decides(run));
  run.ranks = 2;
  EXPECT_FALSE(card_decides(run));
}

// Nothing is remembered between runs: each gives the choices of its own keys.
TEST_F(first_use, a_run_takes_what_its_keys_ask_for) {
  run_keys run;
  run.device = "cuda-emulated";
  EXPECT_FALSE(checked_choices(run).own_products);
  EXPECT_TRUE(checked_choices(run).graphs);
  run.gemm = "own";
  run.graphs = "off";
  EXPECT_TRUE(checked_choices(run).own_products);
  EXPECT_FALSE(checked_choices(run).graphs);
  EXPECT_FALSE(checked_choices(run).newer) << "no card has decided";
  run.kernels = "new";
  EXPECT_TRUE(checked_choices(run).may_multiply(multiplied::head, multiplier::newer));
  run.kernels = "before";
  EXPECT_FALSE(checked_choices(run).newer);
  EXPECT_TRUE(checked_choices(run).left_out.empty());
  EXPECT_FALSE(checked_choices(run).may_multiply(multiplied::experts, multiplier::mma_sync));
  EXPECT_TRUE(checked_choices(run).may_multiply(multiplied::attention, multiplier::mma_sync));
  run.gemm = "library";
  EXPECT_TRUE(checked_choices(run).may_multiply(multiplied::products, multiplier::library));
  for (const multiplied few : {multiplied::gated, multiplied::few_rows, multiplied::head_product}) {
    run.gemm = "library";
    run.kernels = "before";
    EXPECT_FALSE(checked_choices(run).may_multiply(few, multiplier::newer));
    run.kernels = "new";
    EXPECT_TRUE(checked_choices(run).may_multiply(few, multiplier::newer));
    run.gemm = "own";
    EXPECT_FALSE(checked_choices(run).may_multiply(few, multiplier::newer))
        << "activations are float32";
  }
}

TEST_F(first_use, checks_of_every_kind_of_product_are_registered) {
  std::set<multiplied> kinds;
  for (const device_check& c : device_checks::registered_device_checks()) {
    if (c.by) kinds.insert(*c.by);
  }
  EXPECT_EQ(kinds.size(), 4U);
}

// Else a newer kernel would be taken that nothing checked, or that no card has found to be the faster one.
TEST_F(first_use, every_newer_kernel_has_a_check_and_a_race) {
  const cuda::choices newer{.newer = true};
  std::set<multiplied> checked, raced;
  for (const device_check& c : device_checks::registered_device_checks()) {
    for (const auto& what : {c.by, c.folded_by}) {
      if (what) checked.insert(*what);
    }
  }
  for (const device_checks::device_race& r : device_checks::registered_device_races()) {
    raced.insert(r.of);
  }
  std::set<multiplied> of_two;
  for (const multiplied what : every_multiplied()) {
    if (!newer.may_multiply(what, multiplier::newer)) continue;
    EXPECT_TRUE(checked.contains(what)) << name_of(what);
    EXPECT_TRUE(raced.contains(what)) << name_of(what);
    of_two.insert(what);
  }
  EXPECT_EQ(every_multiplied().size(), 8U);
  EXPECT_EQ(of_two.size(), 6U) << "all but products of dense weights";
  EXPECT_EQ(raced, of_two) << "what has one kernel has nothing to be raced";
}

}  // namespace
}  // namespace unmask
