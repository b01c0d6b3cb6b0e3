// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/environment.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace unmask {
namespace {

using nlohmann::json;

TEST(environment, describes_this_machine) {
  const environment machine = capture_environment("cpu-test");
  EXPECT_EQ(machine.cpu_backend, "cpu-test");
  EXPECT_GE(machine.cpus_online, 1);
  EXPECT_GE(machine.cpus_usable, 1);
  EXPECT_LE(machine.cpus_usable, machine.cpus_online);
  EXPECT_GE(machine.cpu_quota, 0);
  EXPECT_EQ(machine.omp_threads, omp_get_max_threads());
  EXPECT_GT(machine.memory_bytes, std::uint64_t{1} << 28) << "MemTotal is in kilobytes";
  EXPECT_LT(machine.memory_bytes, std::uint64_t{1} << 50);
  EXPECT_LE(machine.memory_available_bytes, machine.memory_bytes);
  EXPECT_EQ(machine.kernel.compare(0, 6, "Linux "), 0) << machine.kernel;
}

TEST(environment, build_is_that_of_this_compiler) {
  const build_info& build = this_build();
  EXPECT_NE(std::string(build.compiler).find(__VERSION__), std::string::npos);
  const std::string commit = build.git_commit;
  EXPECT_TRUE(commit == "unknown" || commit.size() == 40) << commit;
  EXPECT_EQ(commit == "unknown", *build.git_unknown != '\0') << build.git_unknown;
  EXPECT_STRNE(build.flags, "");
  EXPECT_EQ(std::string(build.version).find('@'), std::string::npos) << "template not filled in";
  EXPECT_EQ(capture_environment("").cuda.built, *build.cuda_toolkit != '\0');
}

// A machine without a GPU says so in one sentence; one with a GPU names it.
TEST(environment, gpu_is_there_or_explained) {
  const environment machine = capture_environment("");
  EXPECT_EQ(machine.cuda.devices.empty(), !machine.cuda.note.empty()) << machine.cuda.note;
  if (machine.cuda.devices.empty()) {
    ASSERT_EQ(machine.notes.size(), 1U);
    EXPECT_EQ(machine.notes[0].compare(0, 6, "no GPU"), 0) << machine.notes[0];
    EXPECT_THROW(cuda::measure_copy_roof(0), error);
    EXPECT_THROW(cuda::measure_product_roof(0, cuda::product_kind::f32), error);
    EXPECT_THROW(cuda::measure_product_roof(0, cuda::product_kind::bf16), error);
  } else {
    for (const auto& device : machine.cuda.devices) {
      EXPECT_NE(device.name, "");
      EXPECT_GT(device.memory_bytes, 0U);
    }
    EXPECT_EQ(machine.telemetry.size(), machine.cuda.devices.size());
  }
}

TEST(environment, finds_profilers_on_the_path) {
  const scratch_folder scratch;
  const auto folder = scratch.path() / "with space";
  const auto nsys = folder / "nsys";
  write_file(nsys, "#!/bin/sh\n");
  write_file(folder / "ncu", "not executable\n");
  std::filesystem::permissions(nsys, std::filesystem::perms::owner_all);
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", ("/nonexistent:" + folder.string()).c_str(), 1);
  const environment machine = capture_environment("");
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(machine.nsys, nsys.string());
  EXPECT_EQ(machine.ncu, "") << "a file that cannot be run is not a program";
}

TEST(environment, says_what_was_chosen_by_variables) {
  ::setenv("UNMASK_CUDA_GRAPHS", "off", 1);
  const environment machine = capture_environment("");
  ::unsetenv("UNMASK_CUDA_GRAPHS");
  EXPECT_EQ(json::parse(environment_json(machine))["choices"]["UNMASK_CUDA_GRAPHS"], "off");
  const environment plain = capture_environment("");
  EXPECT_FALSE(json::parse(environment_json(plain))["choices"].contains("UNMASK_CUDA_GRAPHS"));
}

// A forgotten variable of a debugging session makes a GPU slower: it is kept, and said if there is a GPU.
TEST(environment, keeps_variables_that_change_what_a_gpu_does) {
  const char* const names[] = {"CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "NVIDIA_TF32_OVERRIDE",
                               "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG"};
  for (const char* name : names) ::setenv(name, "1", 1);
  const json parsed = json::parse(environment_json(capture_environment("")));
  for (const char* name : names) {
    ::unsetenv(name);
    EXPECT_EQ(parsed["choices"][name], "1") << name;
  }
  const std::string unfit = parsed["unfit"].dump();
  EXPECT_EQ(unfit.find("CUDA_LAUNCH_BLOCKING=1 is set") == std::string::npos,
            parsed["gpus"].empty());
}

TEST(environment, a_busy_machine_is_unfit) {
  environment machine = capture_environment("");
  machine.load_average = {13, 1, 1};
  machine.cpus_usable = 2;
  const std::size_t before = machine.unfit.size();
  look_at_load(machine);
  ASSERT_EQ(machine.unfit.size(), before + 1);
  EXPECT_NE(machine.unfit.back().find("13.0"), std::string::npos) << machine.unfit.back();
}

TEST(environment, json_keeps_values_and_says_null_for_unknown) {
  environment machine;
  machine.build = this_build();
  machine.os = "Some \"OS\"\n\xff";  // quotes, control characters and broken UTF-8 must survive
  machine.cpus_usable = 3;
  machine.load_average = {0.5, 0.25, 0};
  machine.cuda.runtime_version = 13000;
  machine.cuda.driver_version = 12080;
  machine.cuda.devices.push_back({.index = 0,
                                  .name = "A GPU",
                                  .pci_bus_id = "0000:17:00.0",
                                  .compute_major = 9,
                                  .compute_minor = 0,
                                  .memory_bytes = 5000000000});
  gpu_telemetry now;
  now.sm_clock_mhz = 1755;
  now.mig = false;
  machine.telemetry.push_back(now);
  machine.notes = {"one note"};

  const std::string text = environment_json(machine);
  EXPECT_EQ(text.find('\n'), std::string::npos) << "one line: it is stored in JSON Lines";
  const json parsed = json::parse(text);
  EXPECT_EQ(parsed["os"].get<std::string>().substr(0, 10), "Some \"OS\"\n");
  EXPECT_EQ(parsed["cpus_usable"], 3);
  EXPECT_EQ(parsed["load_average"], json({0.5, 0.25, 0.0}));
  EXPECT_EQ(parsed["cuda_runtime"], "13.0");
  EXPECT_EQ(parsed["cuda_driver"], "12.8");
  EXPECT_EQ(parsed["build"]["git_commit"], this_build().git_commit);
  EXPECT_EQ(parsed["notes"], json::array({"one note"}));
  EXPECT_TRUE(parsed["cpu_model"].is_null());
  EXPECT_TRUE(parsed["memory_bytes"].is_null());
  ASSERT_EQ(parsed["gpus"].size(), 1U);
  const json& gpu = parsed["gpus"][0];
  EXPECT_EQ(gpu["compute_capability"], "9.0");
  EXPECT_EQ(gpu["tensor_products"], tensor_products(this_build().cuda_architectures, 9, 0));
  EXPECT_EQ(gpu["memory_bytes"], 5000000000);
  EXPECT_EQ(gpu["sm_clock_mhz"], 1755);
  EXPECT_EQ(gpu["mig"], false);
  EXPECT_TRUE(gpu["temperature_c"].is_null());
}

// Tensor cores multiply faster than CUDA cores, and int8 no slower than bfloat16.
TEST(cuda_device, product_roofs_are_plausible) {
  const cuda::report machine = cuda::query();
  if (machine.devices.empty()) GTEST_SKIP() << machine.note;
  const auto roof = [](cuda::product_kind kind) {
    return cuda::measure_product_roof(0, kind).operations_per_second;
  };
  const double f32 = roof(cuda::product_kind::f32), bf16 = roof(cuda::product_kind::bf16);
  EXPECT_GT(f32, 1e11);
  EXPECT_GT(bf16, f32);
  EXPECT_GT(roof(cuda::product_kind::int8), 0.8 * bf16);
  EXPECT_LT(bf16, 1e17);
}

TEST(cuda_device, copy_roof_is_plausible) {
  const cuda::report machine = cuda::query();
  if (machine.devices.empty()) GTEST_SKIP() << machine.note;
  const cuda::copy_roof roof = cuda::measure_copy_roof(0);
  EXPECT_GT(roof.median_bytes_per_second, 1e10);
  EXPECT_LT(roof.bytes_per_second, 5e13);
  EXPECT_LE(roof.median_bytes_per_second, roof.bytes_per_second);
}

// PTX ISA, "wgmma": sm_90a has it, and code for sm_90a runs on 9.0 alone.
TEST(environment, wgmma_is_of_compute_capability_9_0_alone) {
  const std::string shipped = "80 90a-real 89-real 100-real 120-real";
  EXPECT_EQ(tensor_products(shipped, 9, 0), "wgmma");
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {10, 0}, {10, 3}, {12, 0}}) {
    EXPECT_EQ(tensor_products(shipped, major, minor), "mma.sync") << major << "." << minor;
  }
  EXPECT_EQ(tensor_products("80", 9, 0), "mma.sync") << "without code for sm_90a";
}

}  // namespace
}  // namespace unmask
