// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/tool_commands.h"
#include "harness/base/process.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

tool_request request() {
  return {{"/opt/unmask", "profile", "a model", "--tool=nvtx"}, "out/report", {}, 20};
}

TEST(tool_commands, nsys_collects_one_measured_pass) {
  EXPECT_EQ(shell_line(nsys_command(request())),
            "nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none --cuda-graph-trace=node "
            "--capture-range=nvtx --nvtx-capture=measure@unmask --capture-range-end=stop "
            "--force-overwrite=true --output=out/report /opt/unmask profile 'a model' "
            "--tool=nvtx");
  EXPECT_EQ(shell_line(nsys_stats_command(request())),
            "nsys stats --force-export=true --report "
            "nvtx_gpu_proj_sum,nvtx_kern_sum,cuda_gpu_kern_sum --format csv --output out/report "
            "out/report.nsys-rep");
}

TEST(tool_commands, ncu_takes_kernels_of_the_measured_pass_and_leaves_clocks_alone) {
  EXPECT_EQ(shell_line(ncu_command(request())),
            "ncu --nvtx --nvtx-include unmask@measure/ --clock-control none --replay-mode kernel "
            "--graph-profiling node --set roofline --section MemoryWorkloadAnalysis "
            "--launch-count 20 --force-overwrite --export out/report /opt/unmask profile 'a model' "
            "--tool=nvtx");
}

TEST(tool_commands, ncu_takes_kernels_of_single_phases) {
  tool_request r = request();
  r.phases = {"attention", "lm_head"};
  r.launches = 3;
  const std::string line = shell_line(ncu_command(r));
  EXPECT_NE(line.find("--nvtx-include 'unmask@measure/*/attention' "
                      "--nvtx-include 'unmask@measure/*/lm_head' --clock-control none"),
            std::string::npos)
      << line;
  EXPECT_NE(line.find("--launch-count 3"), std::string::npos);
}

TEST(tool_commands, a_phase_that_does_not_exist_or_holds_others_is_refused) {
  tool_request r = request();
  r.phases = {"atention"};
  EXPECT_THROW(ncu_command(r), error);
  r.phases = {"layer"};
  EXPECT_THROW(ncu_command(r), error);
}

TEST(tool_commands, words_are_quoted_for_the_shell) {
  EXPECT_EQ(shell_line({"a", "", "it's", "$HOME", "x=1,2"}), "a '' 'it'\\''s' '$HOME' x=1,2");
}

}  // namespace
}  // namespace unmask
