// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/run_keys.h"
#include "harness/plan/needs.h"
#include "harness/run/runner.h"

namespace unmask {
namespace {

cuda::report machine_with(int major, int minor) {
  cuda::report machine;
  machine.built = true;
  cuda::device_properties d;
  d.name = "GPU X";
  d.compute_major = major;
  d.compute_minor = minor;
  machine.devices = {d};
  return machine;
}

cuda::report machine_without() {
  cuda::report machine;
  machine.note = "no GPU: there is no NVIDIA driver on this machine";
  return machine;
}

// CUDA C++ Programming Guide, "Application Compatibility": a cubin of X.y runs on X.z with z >= y;
// 90a on 9.0 alone; PTX on what is as new or newer.
TEST(device_choice, code_runs_where_nvidia_says_that_it_does) {
  const std::string machine_code = "80-real 90a-real";
  EXPECT_TRUE(runs_code_of(machine_code, 8, 0));
  EXPECT_TRUE(runs_code_of(machine_code, 8, 9));
  EXPECT_TRUE(runs_code_of(machine_code, 9, 0));
  EXPECT_FALSE(runs_code_of(machine_code, 7, 5));
  EXPECT_FALSE(runs_code_of(machine_code, 10, 0));
  const std::string shipped = "80 90a-real 89-real 100-real 120-real";
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 0}, {10, 0}, {12, 0}, {13, 1}}) {
    EXPECT_TRUE(runs_code_of(shipped, major, minor)) << major << "." << minor;
  }
  EXPECT_FALSE(runs_code_of(shipped, 7, 5));
  EXPECT_FALSE(runs_code_of("86-real", 8, 0));
  EXPECT_TRUE(runs_code_of("80", 12, 0));
  EXPECT_TRUE(runs_code_of("80-virtual", 9, 0));
  EXPECT_FALSE(runs_code_of("", 9, 0));
}

TEST(device_choice, auto_takes_a_usable_gpu_and_cuda_takes_nothing_else) {
  const std::string shipped = "80-real 90a-real";
  EXPECT_EQ(choose_device("auto", machine_with(9, 0), shipped).name, "cuda");
  EXPECT_EQ(choose_device("auto", machine_with(9, 0), shipped).why, "GPU X");
  EXPECT_EQ(choose_device("auto", machine_with(7, 5), shipped).name, "cpu");
  EXPECT_EQ(choose_device("auto", machine_without(), "").name, "cpu");
  EXPECT_EQ(choose_device("cuda", machine_with(8, 6), shipped).name, "cuda");
  for (const char* other : {"cpu", "reference", "cuda-emulated"}) {
    EXPECT_EQ(choose_device(other, machine_without(), "").name, other);
  }
  for (const cuda::report& machine : {machine_without(), machine_with(7, 5)}) {
    try {
      choose_device("cuda", machine, shipped);
      ADD_FAILURE();
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), exit_code::environment);
      EXPECT_NE(std::string(refused.what()).find("device cuda"), std::string::npos);
    }
  }
  EXPECT_EQ(device_line({choose_device("auto", machine_without(), "")}),
            "device: cpu (no GPU: there is no NVIDIA driver on this machine)");
}

// A word of another device is refused (test_minimal.cpp); these are of none.
TEST(device_choice, every_device_heeds_what_ranks_share_and_send) {
  for (const device& d : device_list()) {
    run_keys run;
    run.device = d.name;
    run.experts = "experts";
    run.sums = "bf16";
    EXPECT_NO_THROW(check_run_device(run)) << d.name;
  }
}

TEST(device_choice, settings_win_over_sweeps_and_these_over_the_file) {
  const std::string head = "title = \"t\"\n";
  const std::string rest =
      "[[model]]\npath = \"m\"\n[[workload]]\nfile = \"f.jsonl\"\n[[method]]\nname = \"vanilla\"\n";
  experiment_spec spec = parse_spec(head + rest, "x.toml");
  EXPECT_EQ(devices_of(spec), std::vector<std::string>{"auto"});
  EXPECT_TRUE(needs_of(spec).empty());
  spec = parse_spec(head + "[run]\ndevice = \"cuda\"\n" + rest, "x.toml");
  EXPECT_EQ(devices_of(spec), std::vector<std::string>{"cuda"});
  EXPECT_EQ(needs_of(spec), std::vector<std::string>{"cuda"});
  spec = parse_spec(head + rest + "[sweep]\ndevice = [\"cpu\", \"cuda\"]\n", "x.toml");
  EXPECT_EQ(devices_of(spec), (std::vector<std::string>{"cpu", "cuda"}));
  apply_override(spec, "run.device=cpu");
  EXPECT_EQ(devices_of(spec), std::vector<std::string>{"cpu"});
  EXPECT_TRUE(needs_of(spec).empty());
}

// The ids of rows measured before there was an "auto": the CPU is no part of them.
TEST(device_choice, points_on_the_cpu_keep_their_ids) {
  experiment_point p;
  p.method = "vanilla";
  p.run.device = "cpu";
  const std::string canonical =
      R"({"method":"vanilla","model":{"hash":"","name":"","weights":"checkpoint"},"params":{},)"
      R"("workload":{"hash":"","limit":0,"name":""}})";
  EXPECT_EQ(canonical_settings(p), canonical);
  const std::string id = point_id(p);
  p.run.device = "auto";
  EXPECT_EQ(point_id(p), id);
  p.run.device = "cuda";
  EXPECT_NE(point_id(p), id);
  EXPECT_NE(canonical_settings(p).find(R"("device":"cuda")"), std::string::npos);
}

}  // namespace
}  // namespace unmask
