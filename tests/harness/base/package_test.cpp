// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/package.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "harness/base/files.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

// A package that prints its first word on standard error, and ends with its second word as exit status.
class package_call : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path package = folder_.path() / "harness/python/unmask";
    fs::create_directories(package);
    std::ofstream(package / "__init__.py") << "";
    std::ofstream(package / "__main__.py") << "import sys\n"
                                              "sys.stderr.write(sys.argv[1])\n"
                                              "sys.exit(int(sys.argv[2]))\n";
    ::setenv("UNMASK_ROOT", folder_.path().c_str(), 1);
  }
  void TearDown() override { ::unsetenv("UNMASK_ROOT"); }

  // What is passed on, and how the package ended.
  std::string passed_on(const std::string& said, int status) {
    ::testing::internal::CaptureStderr();
    end_ = run_package_for_reason({said, std::to_string(status)});
    return ::testing::internal::GetCapturedStderr();
  }

  scratch_folder folder_;
  package_end end_;
};

TEST_F(package_call, names_the_reason_and_passes_the_rest_on) {
  EXPECT_EQ(passed_on("a hint\nunmask: NOT RUN: needs the Python package jinja2\n", 3), "a hint\n");
  EXPECT_EQ(end_.status, 3);
  EXPECT_EQ(end_.reason, "needs the Python package jinja2");
}

TEST_F(package_call, has_a_reason_if_nothing_was_said_and_none_if_it_went_well) {
  EXPECT_EQ(passed_on("", 5), "");
  EXPECT_EQ(end_.reason, "status 5");
  EXPECT_EQ(passed_on("a hint\n", 0), "a hint\n");
  EXPECT_EQ(end_.reason, "");
}

}  // namespace
}  // namespace unmask
