// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// `unmask bench --kernels`: the ways of a kernel in turn, and what their times are held against.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/cli/kernel_turns.h"
#include "kernels/bench/operands.h"
#include "kernels/cuda/device/traffic.h"
#include "tests/harness/cli/program.h"

namespace unmask {
namespace {

using bench::kernel_case;
using bench::kernel_way;

// Turn by turn 1.1, 0.9, 1.0 times the other. Logarithms 0.09531, -0.10536, 0: mean -0.00335, deviation
// 0.100377, and t of two degrees 4.30265.
TEST(kernel_turns, the_ratio_is_taken_turn_by_turn) {
  const kernel_way own{"wgmma", true, "", {1.1, 1.8, 3.0}};
  const kernel_way library{"cuBLASLt", false, "", {1.0, 2.0, 3.0}};
  const auto r = ratio_of(own, library);
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(r->against, "cuBLASLt");
  EXPECT_NEAR(r->ratio, 0.99666, 1e-5);
  EXPECT_NEAR(r->range.low, 0.77670, 2e-5);
  EXPECT_NEAR(r->range.high, 1.27890, 2e-5);
  EXPECT_FALSE(ratio_of(own, {"x", false, "", {1.0}}).has_value()) << "one turn has no interval";
}

// A library that ran; else the own way in front of it; a library is held against nothing.
TEST(kernel_turns, an_own_way_is_held_against_the_library_that_ran) {
  kernel_case c{
      "attention",
      {{"wgmma", true, "", {1}}, {"mma.sync", true, "", {2}}, {"cuDNN", false, "absent", {}}}};
  EXPECT_EQ(held_against(c, 0), nullptr);
  EXPECT_EQ(held_against(c, 1), c.ways.data());
  c.ways[2].why.clear();
  EXPECT_EQ(held_against(c, 0), &c.ways[2]);
  EXPECT_EQ(held_against(c, 2), nullptr);
  c.ways[0].why = "wrong at first use";
  c.ways[2].why = "absent";
  EXPECT_EQ(held_against(c, 1), nullptr) << "what did not run is no measure";
  const auto row = nlohmann::json::parse(kernel_rows(c).substr(0, kernel_rows(c).find('\n')));
  EXPECT_EQ(row["why"], "wrong at first use");
  EXPECT_FALSE(row.contains("median_us"));
}

// Newer kernels and mma.sync are held against the kernels before, which are held against a library alone.
TEST(kernel_turns, newer_kernels_are_held_against_those_before) {
  kernel_case c{"attention",
                {{"newer kernels", true, "", {1}},
                 {"kernels before", true, "", {2}, true},
                 {"mma.sync", true, "", {3}},
                 {"cuDNN", false, "absent", {}}}};
  EXPECT_EQ(held_against(c, 0), &c.ways[1]);
  EXPECT_EQ(held_against(c, 1), nullptr);
  EXPECT_EQ(held_against(c, 2), &c.ways[1]);
  c.ways[3].why.clear();
  EXPECT_EQ(held_against(c, 0), &c.ways[3]);
  EXPECT_EQ(held_against(c, 1), &c.ways[3]);
  c.ways[1].why = c.ways[3].why = "wrong at first use";
  EXPECT_EQ(held_against(c, 0), nullptr);
  EXPECT_EQ(held_against(c, 2), c.ways.data());
}

// If a library was timed, too, the ratio over the kernels before is not lost: 0.9 and 0.5 turn by turn.
TEST(kernel_turns, a_library_does_not_hide_the_ratio_over_the_kernels_before) {
  kernel_case c{"attention",
                {{"newer kernels", true, "", {0.9, 1.8}},
                 {"kernels before", true, "", {1.8, 3.6}, true},
                 {"cuDNN", false, "", {1, 2}}}};
  const auto row = [&] {
    return nlohmann::json::parse(kernel_rows(c).substr(0, kernel_rows(c).find('\n')));
  };
  EXPECT_EQ(row()["against"], "cuDNN");
  EXPECT_NEAR(row()["ratio"].get<double>(), 0.9, 1e-12);
  EXPECT_NEAR(row()["over_before"]["ratio"].get<double>(), 0.5, 1e-12);
  EXPECT_FALSE(over_before(c, 1).has_value()) << "the kernels before themselves";
  EXPECT_FALSE(over_before(c, 2).has_value()) << "a library";
  c.ways[2].why = "absent";
  EXPECT_EQ(row()["against"], "kernels before");
  EXPECT_FALSE(row().contains("over_before")) << "it would say the same twice";
}

// What the card did while the turns were made is in each row with a time, and in no other.
TEST(kernel_turns, rows_have_the_power_and_clock_of_their_turns) {
  const kernel_case c{"attention", {{"own", true, "", {1, 2}}, {"cuDNN", false, "absent", {}}}};
  const std::string rows = kernel_rows(c, {412.0, 1755.0, 0.25});
  const auto timed = nlohmann::json::parse(rows.substr(0, rows.find('\n'))),
             absent = nlohmann::json::parse(rows.substr(rows.find('\n')));
  EXPECT_EQ(timed["watts_mean"], 412.0);
  EXPECT_EQ(timed["clock_mhz_mean"], 1755.0);
  EXPECT_EQ(timed["throttled_share"], 0.25);
  EXPECT_FALSE(absent.contains("watts_mean"));
  EXPECT_FALSE(nlohmann::json::parse(kernel_rows(c).substr(0, kernel_rows(c).find('\n')))
                   .contains("watts_mean"))
      << "a card that does not say";
}

// The fastest own way took 1.0, 2.0, 3.0 seconds. A tenth more or less in every turn has an interval of no width.
TEST(kernel_turns, a_second_way_is_taken_if_it_beats_the_fastest_own_one) {
  kernel_case c{"experts",
                {{"wgmma", true, "", {1.0, 2.0, 3.0}},
                 {"mma.sync", true, "", {5.0, 5.0, 5.0}},
                 {"CUTLASS", false, "", {0.9, 1.8, 2.7}, false, true, "CUTLASS 4.2.0"}}};
  const auto outcome = [&] { return second_way_of(c, 2).value(); };
  EXPECT_EQ(held_against(c, 2), c.ways.data());
  EXPECT_FALSE(second_way_of(c, 0).has_value()) << "an own way";
  EXPECT_TRUE(outcome().taken);
  EXPECT_EQ(outcome().sentence,
            "experts: CUTLASS 4.2.0 is taken: 0.900 times (95 % interval 0.900 to 0.900) the time "
            "of wgmma.");
  const auto last_row = [&] {
    const std::string rows = kernel_rows(c);
    return nlohmann::json::parse(rows.substr(rows.rfind('\n', rows.size() - 2) + 1));
  };
  EXPECT_EQ(last_row()["taken"], true);
  EXPECT_EQ(last_row()["against"], "wgmma");
  EXPECT_EQ(last_row()["version"], "CUTLASS 4.2.0");

  c.ways[2].seconds = {1.1, 2.2, 3.3};
  EXPECT_FALSE(outcome().taken);
  EXPECT_NE(outcome().sentence.find("is slower and not taken: 1.100 times"), std::string::npos);
  EXPECT_EQ(last_row()["taken"], false);
  c.ways[2].seconds = {0.5, 2.2, 3.0};  // faster in the mean, by one turn
  EXPECT_FALSE(outcome().taken);
  EXPECT_NE(outcome().sentence.find("is not shown to be faster"), std::string::npos);
  c.ways[2].seconds = {0.5};
  EXPECT_NE(outcome().sentence.find("one turn has no interval"), std::string::npos);
  c.ways[2].why = "wrong";
  EXPECT_FALSE(second_way_of(c, 2).has_value()) << "it was not timed";
  c.ways[2].why.clear();
  c.ways[0].why = c.ways[1].why = "wrong";
  EXPECT_FALSE(second_way_of(c, 2).has_value()) << "nothing to beat";
  EXPECT_EQ(held_against(c, 2), nullptr);
}

// Three ways, three turns of two calls: forwards, backwards, forwards.
TEST(kernel_turns, every_other_turn_goes_backwards) {
  std::vector<std::pair<std::size_t, int>> calls;
  std::vector<std::size_t> waits;
  const auto seconds = bench::alternate(
      3, 3, 2, [&](std::size_t way, int i) { calls.emplace_back(way, i); },
      [&](std::size_t way) { waits.push_back(way); });
  EXPECT_EQ(waits, (std::vector<std::size_t>{0, 1, 2, 2, 1, 0, 0, 1, 2}));
  ASSERT_EQ(calls.size(), 18U);
  EXPECT_EQ(calls[0], (std::pair<std::size_t, int>{0, 0}));
  EXPECT_EQ(calls[7], (std::pair<std::size_t, int>{2, 1}));
  ASSERT_EQ(seconds.size(), 3U);
  for (const auto& of_way : seconds) EXPECT_EQ(of_way.size(), 3U);
}

TEST(kernel_turns, a_difference_is_of_the_largest_result_and_a_nan_is_wrong) {
  EXPECT_DOUBLE_EQ(bench::relative_difference({1, 2, -4.5F}, {1, 2, -4}), 0.125);
  EXPECT_DOUBLE_EQ(bench::relative_difference({0.25F}, {0}), 0.25);
  EXPECT_EQ(bench::relative_difference({std::nanf("")}, {0}), 1);
}

// A way that throws, one that was wrong at first use, and cases that are not there.
TEST(kernel_turns, a_way_that_cannot_compute_says_so_and_is_not_timed) {
  bench::turn_settings s;
  int begun = 0;
  s.begin = [&] { ++begun; };
  s.device = [](const cuda::choices& c) -> const backend& {
    if (c.wgmma) throw environment_error("no such kernel");
    return cuda_emulated_backend(c);
  };
  s.asked.wgmma = false;
  s.wgmma = true;
  s.library = false;
  s.no_library = "none here";
  s.small = true;
  s.turns = 2;
  s.cases = "attention|experts";
  s.asked.left_out = {{cuda::multiplied::experts, cuda::multiplier::mma_sync}};
  std::vector<kernel_case> done;
  time_in_turn(s, [&](const kernel_case& c) { done.push_back(c); });
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(begun, 2) << "once a case";
  const kernel_case &attention = done[0], &experts = done[1];
  for (const kernel_case* c : {&attention, &experts}) {
    EXPECT_EQ(c->ways[0].name, "newer kernels");
    EXPECT_EQ(c->ways[1].name, "kernels before");
    for (const std::size_t w : {0, 1}) {
      EXPECT_EQ(c->ways[w].why, "no such kernel");
      EXPECT_TRUE(c->ways[w].seconds.empty());
    }
  }
  EXPECT_EQ(attention.ways[2].seconds.size(), 2U);
  EXPECT_EQ(experts.ways[2].why, "wrong at first use");
  EXPECT_EQ(attention.ways[3].name, "cuDNN");
  EXPECT_EQ(experts.ways[3].name, "CUTLASS");
  EXPECT_EQ(attention.ways[3].why, "none here");
  // Experts' newer kernel is by wgmma, so it is not there without it.
  s.asked.left_out = {{cuda::multiplied::experts, cuda::multiplier::wgmma}};
  s.cases = "experts";
  time_in_turn(s, [&](const kernel_case& c) {
    EXPECT_EQ(c.ways[0].why, "wrong at first use");
    EXPECT_EQ(c.ways[1].why, "wrong at first use");
    EXPECT_EQ(c.ways[2].seconds.size(), 2U);
  });
  s.cases = "no such case";
  EXPECT_THROW(time_in_turn(s, [](const kernel_case&) {}), error);
  s.cases = "(";
  EXPECT_THROW(time_in_turn(s, [](const kernel_case&) {}), error);
}

// Gate and up in one kernel; four multiprocessors of the emulator have a tile each, and it is right there.
TEST(kernel_turns, gate_and_up_has_a_newer_kernel_and_the_library) {
  bench::turn_settings s;
  s.device = [](const cuda::choices& c) -> const backend& { return cuda_emulated_backend(c); };
  s.wgmma = true;
  s.small = true;
  s.turns = 1;
  s.cases = "gated_linear";
  const auto timed = [&] {
    std::string all;
    time_in_turn(s, [&](const kernel_case& c) {
      for (const kernel_way& w : c.ways) {
        all += w.name + (w.seconds.empty() ? ": " + w.why : w.own ? ": own" : "") + ";";
      }
    });
    return all;
  };
  EXPECT_EQ(timed(), "newer kernels: own;cuBLASLt;");
  s.asked.left_out = {{cuda::multiplied::gated, cuda::multiplier::newer}};
  EXPECT_EQ(timed(), "newer kernels: wrong at first use;cuBLASLt;");
  s.asked.left_out = {{cuda::multiplied::products, cuda::multiplier::library}};
  EXPECT_EQ(timed(), "newer kernels: wrong at first use;cuBLASLt: wrong at first use;");
  s.asked.left_out.clear();
  s.libraries = false;
  EXPECT_EQ(timed(), "newer kernels: own;cuBLASLt;") << "the library's are the kernels before";
  s.before = false;
  EXPECT_EQ(timed(), "newer kernels: own;");
}

// In the emulator's smallest cases attention of dimension 128 and the head have a newer kernel: which of the two
// was launched, of every call.
TEST(kernel_turns, attention_and_the_head_are_timed_by_newer_kernels_and_by_those_before) {
  bench::turn_settings s;
  s.device = [](const cuda::choices& c) -> const backend& { return cuda_emulated_backend(c); };
  s.wgmma = true;
  s.small = true;
  s.turns = 2;
  struct one_case {
    const char *name, *newer, *before;
  };
  for (const one_case& of : {one_case{"^attention", "attention_joined", "attention_tensor"},
                             {"^confidence/rows:3/", "head_fold", "head_chunk"}}) {
    s.cases = of.name;
    const auto counted = [&](bool own, bool before) {
      s.own = own;
      s.before = before;
      s.libraries = false;
      cuda::emulator::begin_counting(false);
      std::vector<kernel_way> ways;
      time_in_turn(s, [&](const kernel_case& c) { ways = c.ways; });
      const auto kernels = cuda::emulator::end_counting().kernels;
      const auto launches = [&](const char* kernel) {
        const auto found = kernels.find(kernel);
        return found == kernels.end() ? std::uint64_t{0} : found->second.launches;
      };
      return std::tuple{ways, launches(of.newer), launches(of.before)};
    };
    // One call to see that it is right, one a turn; the CUDA cores' head is folded by the kernel before.
    const std::uint64_t expected = of.before == std::string("head_chunk") ? 1 : 0;
    const auto [both, newer, before] = counted(true, true);
    ASSERT_GE(both.size(), 2U);
    EXPECT_EQ(both[0].name, "newer kernels");
    EXPECT_EQ(both[1].name, "kernels before");
    EXPECT_TRUE(both[1].before);
    EXPECT_EQ(both[0].seconds.size(), 2U) << both[0].why;
    EXPECT_EQ(both[1].seconds.size(), 2U) << both[1].why;
    EXPECT_EQ(newer, 3U) << of.newer;
    const auto [alone, newer_alone, before_alone] = counted(false, true);
    ASSERT_EQ(alone.size(), 1U);
    EXPECT_EQ(newer_alone, 0U);
    EXPECT_EQ(before_alone, 3 + expected) << of.before;
    EXPECT_GE(before, before_alone);
    EXPECT_EQ(held_against({of.name, both}, 0)->name, "kernels before");
  }
  s.own = true;
  s.asked.left_out = {{cuda::multiplied::head, cuda::multiplier::newer}};
  time_in_turn(s, [&](const kernel_case& c) { EXPECT_EQ(c.ways[0].why, "wrong at first use"); });
}

// A head of many candidates by the kernel that multiplies and folds, by the library's product with the newer fold, and
// by the kernels before.
TEST(kernel_turns, a_head_of_many_candidates_has_three_ways) {
  bench::turn_settings s;
  s.device = [](const cuda::choices& c) -> const backend& { return cuda_emulated_backend(c); };
  s.wgmma = true;
  s.small = true;
  s.turns = 1;
  s.cases = "^confidence/rows:129/";
  const auto timed = [&] {
    std::string all;
    cuda::emulator::begin_counting(false);
    time_in_turn(s, [&](const kernel_case& c) {
      for (const kernel_way& w : c.ways) all += w.name + (w.why.empty() ? ";" : ": " + w.why + ";");
    });
    for (const auto& [name, kernel] : cuda::emulator::end_counting().kernels) {
      // One call to see that a way is right, and one that is timed.
      if (name.starts_with("head_")) all += name + ":" + std::to_string(kernel.launches) + ";";
    }
    return all;
  };
  EXPECT_EQ(timed(),
            "newer kernels;newer fold;kernels before;head_chunk:3;head_fold:2;head_merge:5;"
            "head_product:2;head_tiles_merge:2;");
  s.asked.left_out = {{cuda::multiplied::head_product, cuda::multiplier::newer}};
  EXPECT_EQ(timed(),
            "newer kernels: wrong at first use;newer fold;kernels before;head_chunk:3;head_fold:2;"
            "head_merge:5;");
  s.asked.left_out.clear();
  s.wgmma = false;
  EXPECT_EQ(timed(),
            "newer kernels: this card or this program has no wgmma;newer fold;kernels before;"
            "head_chunk:3;head_fold:2;head_merge:5;");
}

// A product into the residual stream, which one small case has in a size that the newer kernel takes.
TEST(kernel_turns, few_rows_into_the_residual_stream_have_a_newer_kernel) {
  bench::turn_settings s;
  s.device = [](const cuda::choices& c) -> const backend& { return cuda_emulated_backend(c); };
  s.wgmma = true;
  s.small = true;
  s.turns = 1;
  s.cases = "^linear/";
  const auto timed = [&] {
    std::string all;
    time_in_turn(s, [&](const kernel_case& c) {
      for (const kernel_way& w : c.ways) all += w.name + (w.why.empty() ? ";" : ": " + w.why + ";");
    });
    return all;
  };
  EXPECT_EQ(timed(), "CUDA cores;cuBLASLt;newer kernels;CUDA cores;cuBLASLt;");
  s.asked.left_out = {{cuda::multiplied::few_rows, cuda::multiplier::newer}};
  EXPECT_EQ(timed(), "CUDA cores;cuBLASLt;newer kernels: wrong at first use;CUDA cores;cuBLASLt;");
}

TEST(kernel_turns, the_program_times_kernels_on_the_emulator) {
  const scratch_folder scratch;
  const std::string file = (scratch.path() / "turns.jsonl").string();
  const auto run = [](const std::string& words) {
    return test::run_program(UNMASK_SOURCE_DIR, "bench " + words);
  };
  const test::outcome done = run(
      "--kernels own,before,library --device cuda-emulated --turns 2 --kernel-rows '" + file + "'");
  EXPECT_EQ(done.code, 0) << done.text;
  EXPECT_NE(done.text.find("the emulator has no library"), std::string::npos) << done.text;
  std::ifstream in(file);
  int timed = 0, absent = 0;
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    (row.contains("median_us") ? timed : absent) += 1;
    if (row.contains("median_us")) {
      EXPECT_EQ(row["seconds"].size(), 2U) << line;
    }
  }
  // mma.sync of attention and experts, CUDA cores of two products, both folds of two heads; by wgmma two of
  // attention and two of experts, the newer kernels of a product, of gate and up and of a head, and five libraries.
  EXPECT_EQ(timed, 8);
  EXPECT_EQ(absent, 12);
  EXPECT_EQ(run("--kernels theirs").code, 2);
  EXPECT_EQ(run("--kernels before --cases '^linear' --device cuda-emulated").code, 0);
  EXPECT_EQ(run("--kernels own --device cpu").code, 2);
  EXPECT_EQ(run("MODEL --kernels own --device cuda-emulated").code, 2);
}

}  // namespace
}  // namespace unmask
