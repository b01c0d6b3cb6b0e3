// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Libraries that are opened at run time are found in the packages of a Python too, as on a machine
// whose CUDA came with wheels.
#include "harness/base/shared_library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace unmask {
namespace {

namespace fs = std::filesystem;

// A virtual environment with bin/python3 and nvidia/fake/lib/libunmask-fake.so.13, and PATH on it.
class packaged : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("unmask-packages-" + std::to_string(::getpid()));
    lib_ = root_ / "lib" / "python3.12" / "site-packages" / "nvidia" / "fake" / "lib";
    fs::create_directories(lib_);
    fs::create_directories(root_ / "bin");
    std::ofstream(root_ / "bin" / "python3") << "";
    fs::copy_file(FAKE_NVML, lib_ / "libunmask-fake.so.13");
    for (const char* name : {"PATH", "VIRTUAL_ENV"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? "" : value);
    }
    ::setenv("PATH", (root_ / "bin").c_str(), 1);
    ::unsetenv("VIRTUAL_ENV");
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
    ::unsetenv("UNMASK_FAKE_LIBRARY");
    fs::remove_all(root_);
  }
  fs::path root_, lib_;
  std::vector<std::pair<std::string, std::string>> before_;
};

const library_search wanted{{"libunmask-fake.so.13"}, "UNMASK_FAKE_LIBRARY"};

TEST_F(packaged, a_library_in_the_packages_of_the_python_on_path_is_found) {
  const shared_library found = open_shared_library(wanted);
  ASSERT_NE(found.handle, nullptr) << found.tried;
  EXPECT_EQ(fs::canonical(found.path), fs::canonical(lib_ / "libunmask-fake.so.13"));
}

TEST_F(packaged, a_virtual_environment_counts_without_its_folder_on_path) {
  ::setenv("PATH", "/nowhere", 1);
  EXPECT_EQ(open_shared_library(wanted).handle, nullptr);
  ::setenv("VIRTUAL_ENV", root_.c_str(), 1);
  EXPECT_NE(open_shared_library(wanted).handle, nullptr);
}

TEST_F(packaged, the_variable_names_the_file_and_nothing_else_is_tried) {
  ::setenv("UNMASK_FAKE_LIBRARY", "/nowhere/lib.so", 1);
  const shared_library found = open_shared_library(wanted);
  EXPECT_EQ(found.handle, nullptr);
  EXPECT_EQ(found.tried, "/nowhere/lib.so");
}

TEST_F(packaged, what_is_nowhere_is_told_with_every_place) {
  const shared_library found =
      open_shared_library({{"libunmask-absent.so.1"}, nullptr, "/nowhere/built/with.so"});
  EXPECT_EQ(found.handle, nullptr);
  EXPECT_NE(found.tried.find("libunmask-absent.so.1"), std::string::npos);
  EXPECT_NE(found.tried.find("/nowhere/built/with.so"), std::string::npos);
  EXPECT_NE(found.tried.find("python3 on PATH"), std::string::npos);
}

}  // namespace
}  // namespace unmask
