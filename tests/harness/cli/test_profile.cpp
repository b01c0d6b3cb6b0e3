// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask profile as a user meets it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/harness/cli/program.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

class profile : public ::testing::Test {
 protected:
  // Exit code; what was printed is in text_. PATH holds no profiler.
  int run(const std::string& arguments) {
    const test::outcome o = test::run_program(
        UNMASK_SOURCE_DIR, "profile " + arguments + " -o '" + (folder_ / "out").string() + "'",
        "PATH=/nowhere");
    text_ = o.text;
    return o.code;
  }
  bool says(const std::string& words) const { return text_.find(words) != std::string::npos; }
  // A run that ends well and says all of these words.
  void tells(const std::string& arguments, const std::vector<std::string>& words) {
    EXPECT_EQ(run(arguments), 0) << text_;
    for (const std::string& part : words) EXPECT_TRUE(says(part)) << part << "\n" << text_;
  }

  const std::string model_ = "experiments/models/tiny-sdar";
  const std::string small_ = model_ + " --limit 1 --gen-length 32 --repetitions 1 --warmup 0";
  const scratch_folder scratch_;
  const fs::path folder_ = scratch_.path();
  std::string text_;
};

TEST_F(profile, phases_gives_a_table_a_row_and_a_trace) {
  const fs::path trace = folder_ / "trace.json";
  tells(small_ + " -m block_diffusion --trace '" + trace.string() + "'",
        {"| attention |", "| feed_forward |", "| lm_head |", "between phases",
         "measured here: multiply-adds and triad"});
  EXPECT_NE(test::text_of(folder_ / "out" / "rows.jsonl").find("\"phases\":{"), std::string::npos);
  std::ifstream in(trace);
  std::string first;
  std::getline(in, first);
  EXPECT_EQ(first.rfind("{\"displayTimeUnit\"", 0), 0U) << first;
}

TEST_F(profile, every_trace_that_was_written_is_named) {
  const fs::path trace = folder_ / "trace.json", second = folder_ / "trace-2.json";
  tells(small_ + " -m block_diffusion,focus --trace '" + trace.string() + "'",
        {"trace: " + trace.string() + " ", "trace: " + second.string() + " "});
  EXPECT_TRUE(fs::exists(trace) && fs::exists(second));
}

TEST_F(profile, random_prompts_need_no_task) {
  tells(small_ + " --weights random:3 --prompt-tokens 20 --layers 2",
        {"20 + 32 random tokens", "2 of "});
}

TEST_F(profile, an_experiment_file_is_profiled_point_by_point) {
  tells(
      "experiments/quickstart.toml -m autoregressive --repetitions 1 --warmup 0 "
      "--set run.gen_length=8",
      {"autoregressive"});
  EXPECT_FALSE(says("vanilla")) << text_;
}

TEST_F(profile, print_command_prints_what_would_run) {
  tells(small_ + " --tool nsys --print-command",
        {"--nvtx-capture=measure@unmask --capture-range-end=stop", "--tool=nvtx --repetitions=1",
         "\nnsys stats "});
  EXPECT_EQ(text_.rfind("nsys profile --trace=cuda,nvtx", 0), 0U) << text_;
  EXPECT_FALSE(says("--repetitions 1")) << text_;  // that of the call is replaced
  tells(small_ + " --ranks 2 --tool nsys --print-command", {" --ranks 2 "});
  tells(small_ + " --tool=ncu --phase attention --print-command",
        {"--nvtx-include 'unmask@measure/*/attention' --clock-control none"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(profile, a_tool_that_is_not_here_is_said_in_one_sentence) {
  EXPECT_EQ(run(small_ + " --device cpu --tool nsys"), 3);
  EXPECT_EQ(text_, "NOT RUN: needs nsys (Nsight Systems) on PATH\n");
  EXPECT_EQ(run(small_ + " --device cpu --tool ncu"), 3);
  EXPECT_EQ(text_, "NOT RUN: ncu profiles kernels of a GPU; this is device cpu\n");
  EXPECT_EQ(run(small_ + " --device cpu --tool cupti"), 3);
  EXPECT_EQ(text_, "NOT RUN: CUPTI sees what a GPU runs; this is device cpu\n");
}

TEST_F(profile, wrong_input_is_named) {
  const std::pair<std::string, const char*> cases[] = {
      {small_ + " --tool phase", "'phases'"},
      {small_ + " -m vanila", "vanilla"},
      {small_ + " --phase atention --tool ncu --print-command", "atention"},
      {small_ + " --phase layer --tool ncu --print-command", "holds other phases"},
      {small_ + " --phase attention --tool nsys --print-command", "--phase is for ncu"},
      {small_ + " --print-command", "--print-command is for"},
      {small_ + " --weights random:x --prompt-tokens 8", "random:SEED"},
      {small_ + " --layers 1 --prompt-tokens 8", "--layers needs"},
      {model_ + " --prompt-tokens 8", "gen-length"},
      {"experiments/quickstart.toml -m nothing", "nothing"},
      {"", "needs a model folder"}};
  for (const auto& [arguments, part] : cases) {
    EXPECT_NE(run(arguments), 0) << arguments << text_;
    EXPECT_TRUE(says(part)) << arguments << ": " << text_;
  }
}

}  // namespace
}  // namespace unmask
