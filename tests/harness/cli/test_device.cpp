// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which device a command takes, and what it says about it.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/files.h"
#include "kernels/cuda/device.h"
#include "tests/harness/cli/program.h"
#include "tests/support.h"

namespace unmask {
namespace {

test::outcome run(const std::string& arguments) {
  return test::run_program(UNMASK_SOURCE_DIR, arguments);
}

bool has_gpu() {
  return !cuda::query().devices.empty();
}

const std::string small = " -n 32 --repetitions 1 --warmup 0 --no-progress ";

TEST(device, an_absent_gpu_that_was_asked_for_ends_every_command) {
  if (has_gpu()) GTEST_SKIP() << "NOT RUN: needs a machine without a GPU";
  const scratch_folder scratch;
  const std::string out = "'" + (scratch.path() / "out").string() + "'";
  const auto experiment = scratch.path() / "gpu.toml";
  const std::string model = std::string(UNMASK_SOURCE_DIR) + "/experiments/models/tiny-sdar";
  const auto text = [&](const std::string& more) {
    return "title = \"t\"\n[run]\nrepetitions = 1\nwarmup = 0\n" + more + "[[model]]\npath = \"" +
           model +
           "\"\n[[workload]]\ntasks = [\"equation\"]\nlimit = 1\n[[method]]\nname = "
           "\"block_diffusion\"\n";
  };
  write_file(experiment, text("device = \"cuda\"\n"));
  const auto swept = scratch.path() / "swept.toml";
  write_file(swept, text("") + "[sweep]\ndevice = [\"cpu\", \"cuda\"]\n");
  const auto plain = scratch.path() / "plain.toml";
  write_file(plain, text(""));
  for (const std::string& arguments : std::vector<std::string>{
           "generate --device cuda x", "generate --set run.device=cuda x",
           "bench tiny-sdar --device cuda -o " + out + small,
           "bench tiny-sdar --set run.device=cuda -o " + out + small,
           "profile tiny-sdar --device cuda -o " + out, "profile tiny-sdar --tool cupti -o " + out,
           "profile tiny-sdar --tool ncu -o " + out, "profile tiny-sdar --tool nsys -o " + out,
           "run " + experiment.string() + " -o " + out, "run " + swept.string() + " -o " + out,
           "run " + plain.string() + " --set run.device=cuda -o " + out,
           "run " + plain.string() + " --device cuda -o " + out, "plan " + experiment.string(),
           "plan " + plain.string() + " --device cuda"}) {
    const test::outcome o = run(arguments);
    EXPECT_EQ(o.code, 3) << arguments << "\n" << o.text;
    EXPECT_NE(o.text.find("cuda"), std::string::npos) << arguments << "\n" << o.text;
    EXPECT_EQ(o.text.find("internal error"), std::string::npos) << o.text;
    EXPECT_FALSE(std::filesystem::exists(scratch.path() / "out")) << arguments;
  }
  // A plan of another machine's work needs no GPU here.
  EXPECT_EQ(run("plan " + experiment.string() + " --scheduler slurm -o " + out).code, 0);
}

TEST(device, the_first_line_says_which_one_it_is_and_so_does_the_row) {
  const scratch_folder scratch;
  const std::string out = (scratch.path() / "out").string();
  const test::outcome bench = run("bench tiny-sdar -o '" + out + "'" + small);
  const std::string expected = has_gpu() ? "device: cuda (" : "device: cpu (no ";
  EXPECT_EQ(bench.text.rfind(expected, 0), 0U) << bench.text;
  EXPECT_NE(test::text_of(out + "/rows.jsonl")
                .find(has_gpu() ? "\"device\":\"cuda\"" : "\"device\":\"cpu\""),
            std::string::npos);
  const test::outcome named = run("generate -n 32 --device cpu x");
  EXPECT_EQ(named.text.rfind("device: cpu\n", 0), 0U) << named.text;
  EXPECT_EQ(run("generate --device gpu x").code, 2);
  // Standard output holds the answer alone.
  const test::outcome answer = test::run_shell(UNMASK_SOURCE_DIR,
                                               "\"$UNMASK\" generate --set params.threshold=0.9 "
                                               "'Compute 5 * 7 - 15 - 19 + 38.' 2>/dev/null");
  EXPECT_EQ(answer.text.find("device"), std::string::npos) << answer.text;
}

TEST(device, tools_of_a_gpu_profile_the_gpu) {
  for (const char* tool : {"nsys", "ncu"}) {
    const test::outcome o = run(std::string("profile tiny-sdar --print-command --tool ") + tool);
    EXPECT_EQ(o.code, 0) << o.text;
    EXPECT_NE(o.text.find(" --device=cuda "), std::string::npos) << o.text;
    const test::outcome cpu =
        run(std::string("profile tiny-sdar --device cpu --print-command --tool ") + tool);
    EXPECT_NE(cpu.text.find(" --device=cpu "), std::string::npos) << cpu.text;
  }
}

}  // namespace
}  // namespace unmask
