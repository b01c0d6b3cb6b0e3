// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/plan/needs.h"
#include "harness/run/runner.h"
#include "tests/support.h"

namespace unmask {
namespace {

result_row measured_on(const std::string& device) {
  const std::string source = UNMASK_SOURCE_DIR;
  const scratch_folder out;
  run_options options;
  options.output = out.path();
  options.progress = false;
  const experiment_spec spec = parse_spec(
      "title = \"t\"\n[run]\nrepetitions = 1\nwarmup = 0\ngen_length = 32\ndevice = \"" + device +
          "\"\n[[model]]\npath = \"" + source + "/experiments/models/tiny-llada\"\n" +
          "[[workload]]\ntasks = [\"word_problem\"]\nlimit = 2\n[[method]]\nname = \"fast_dllm\"\n",
      source + "/experiments/x.toml");
  return run_experiment(spec, options).rows.at(0);
}

TEST(minimal_device, runs_a_point_as_the_kernels_that_it_borrows) {
  const result_row row = measured_on("minimal"), lent = measured_on("reference");
  ASSERT_TRUE(is_reportable(row)) << row.reason;
  EXPECT_EQ(row.run.device, "minimal");
  EXPECT_FALSE(row.answers_hash.empty());
  EXPECT_EQ(row.answers_hash, lent.answers_hash);
  EXPECT_NE(row.point_id, lent.point_id);
  ASSERT_TRUE(row.device.has_value());
  EXPECT_FALSE(row.device->is_card);
  EXPECT_TRUE(row.device->times_mean_something);
  EXPECT_EQ(row.model.used.kv_type, "f32");
}

TEST(minimal_device, is_known_wherever_a_device_is_named) {
  EXPECT_EQ(find_device("minimal").name, "minimal");
  EXPECT_EQ(find_run_key("device")->choices().back(), "minimal");
  EXPECT_EQ(test::message_of([] { find_device("maximal"); }),
            "unknown device 'maximal'; known: cpu, reference, cuda, cuda-emulated, minimal");
  run_keys run;
  run.device = "minimal";
  run.gemm = "fastest";
  EXPECT_EQ(
      test::message_of([&] { check_run_device(run); }),
      "`gemm` \"fastest\" needs device \"cpu\"; on device \"minimal\" use \"auto\" or \"own\" "
      "or \"library\"");
  for (const need_kind& need : need_list()) EXPECT_NE(need.name, "minimal");  // always there
}

}  // namespace
}  // namespace unmask
