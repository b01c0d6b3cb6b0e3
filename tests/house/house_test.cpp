// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/house/checker.h"

namespace unmask::house {
namespace {

namespace fs = std::filesystem;

TEST(house, this_repository_keeps_its_rules) {
  for (const violation& found : check(UNMASK_SOURCE_DIR)) {
    ADD_FAILURE() << found.file << ":" << found.line << ": [" << found.rule << "] " << found.text;
  }
}

// A small house with nothing wrong in it, into which each test plants one fault.
class planted : public testing::Test {
 protected:
  planted()
      : root_(fs::temp_directory_path() /
              ("unmask house " + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(root_);
    write("kernels/backend.h", "");
    write("harness/model/model.h", include("kernels/backend.h"));
    write("harness/profile/nvtx.h", include("kernels/backend.h"));
    write("harness/decode/loop.h",
          include("harness/model/model.h") + include("harness/profile/nvtx.h"));
    write("methods/focus/focus.cpp", include("harness/decode/loop.h"));
    write("harness/engine/engine.h", include("harness/decode/loop.h"));
    write("harness/workload/task.h", include("harness/model/model.h"));
    write("harness/plan/plan.cpp",
          include("harness/engine/engine.h") + include("harness/workload/task.h"));
    write("harness/devices/device.h", include("kernels/backend.h"));
    write("harness/rows/row.h", "");
    write("harness/plan/spec.h",
          include("harness/rows/row.h") + include("harness/devices/device.h"));
    write("harness/measure/point.h", include("harness/plan/spec.h"));
    write("harness/run/runner.h", include("harness/measure/point.h"));
    write("harness/cli/main.cpp",
          include("methods/focus/focus.h") + include("harness/run/runner.h"));
    write("tests/kernels/ops_test.cpp", include("kernels/backend.h"));
  }
  ~planted() override { fs::remove_all(root_); }

  static std::string include(const std::string& target) {
    return std::string("#") + "include \"" + target + "\"\n";
  }

  void write_raw(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  void write(const std::string& file, const std::string& text) {
    write_raw(file,
              "// SPDX-License-Identifier: Apache-2.0\n// Copyright The Unmask Authors\n" + text);
  }

  // Exactly one violation, of this rule, in this file.
  void expect_only(const std::string& rule, const std::string& file) {
    const auto found = check(root_);
    ASSERT_EQ(found.size(), 1U) << "rule " << rule;
    EXPECT_EQ(found[0].rule, rule);
    EXPECT_EQ(found[0].file, file);
  }

  fs::path root_;
};

TEST_F(planted, nothing_is_found_in_a_clean_house) {
  EXPECT_TRUE(check(root_).empty());
}

TEST_F(planted, each_forbidden_arrow_is_found) {
  const std::vector<std::pair<std::string, std::string>> forbidden = {
      {"kernels/bad.h", "harness/model/model.h"},
      {"kernels/cuda/bad.cu", "harness/profile/nvtx.h"},
      {"harness/model/bad.h", "harness/profile/nvtx.h"},
      {"harness/model/bad.h", "harness/decode/loop.h"},
      {"harness/profile/bad.h", "harness/model/model.h"},
      {"harness/decode/bad.h", "methods/focus/focus.h"},
      {"harness/decode/bad.h", "harness/engine/engine.h"},
      {"methods/focus/bad.cpp", "harness/engine/engine.h"},
      {"methods/focus/bad.cpp", "harness/workload/task.h"},
      {"methods/focus/bad.cpp", "harness/profile/nvtx.h"},
      {"harness/engine/bad.h", "methods/focus/focus.h"},
      {"harness/engine/bad.h", "harness/workload/task.h"},
      {"harness/workload/bad.h", "harness/decode/loop.h"},
      {"harness/profile/bad.h", "harness/devices/device.h"},
      {"harness/devices/bad.h", "harness/plan/spec.h"},
      {"harness/rows/bad.h", "harness/engine/engine.h"},
      {"harness/plan/bad.h", "harness/measure/point.h"},
      {"harness/plan/bad.h", "harness/run/runner.h"},
      {"harness/plan/bad.h", "methods/focus/focus.h"},
      {"harness/measure/bad.h", "harness/run/runner.h"},
      {"harness/measure/bad.h", "methods/focus/focus.h"},
      {"harness/run/bad.h", "harness/engine/engine.h"},
      {"harness/run/bad.h", "harness/cli/options.h"},
      {"kernels/bad.h", "tests/kernels/ops_test.h"},
  };
  for (const auto& [file, target] : forbidden) {
    write(file, include(target));
    SCOPED_TRACE(file + " -> " + target);
    expect_only("include", file);
    fs::remove(root_ / file);
  }
}

TEST_F(planted, parts_include_no_method_and_nobody_includes_a_combination) {
  write("methods/parts/pace.h", "");
  write("methods/parts/kernels/accept.h", include("methods/parts/pace.h"));
  EXPECT_TRUE(check(root_).empty());
  const std::vector<std::pair<std::string, std::string>> forbidden = {
      {"methods/parts/bad.h", "methods/focus/focus.h"},
      {"methods/parts/kernels/bad.cu", "methods/baselines/vanilla/vanilla.h"},
      {"methods/focus/bad.h", "methods/combinations/both/both.h"},
      {"methods/combinations/more/bad.h", "methods/combinations/both/both.h"},
  };
  for (const auto& [file, target] : forbidden) {
    write(file, include(target));
    SCOPED_TRACE(file + " -> " + target);
    expect_only("method", file);
    fs::remove(root_ / file);
  }
}

TEST_F(planted, a_method_extends_one_method_at_most) {
  write("methods/parts/pace.h", "");
  write("methods/focus/kernels/a.cu", include("methods/parts/pace.h") +
                                          include("methods/focus/focus.h") +
                                          include("methods/baselines/vanilla/vanilla.h"));
  write("methods/focus/b.h", include("methods/baselines/vanilla/kernels/accept.h"));
  write("methods/combinations/both/both.cpp",
        include("methods/focus/b.h") + include("methods/baselines/vanilla/vanilla.h"));
  write("methods/bench/all.cpp", include("methods/focus/b.h") + include("methods/wino/wino.h"));
  EXPECT_TRUE(check(root_).empty());
  write("methods/focus/c.h", include("methods/wino/wino.h"));
  expect_only("method", "methods/focus/c.h");
}

// They are tests: what they hold a method against may be another one, or a whole run.
TEST_F(planted, the_cases_of_a_method_may_include_everything) {
  const std::string all = include("methods/baselines/vanilla/vanilla.h") +
                          include("methods/wino/wino.h") + include("harness/run/runner.h") +
                          include("tests/kernels/scenes.h");
  write("methods/focus/cases.cpp", all);
  write("methods/focus/kernels/cases.cpp", all);
  write("methods/focus/cases/calibration.cpp", all);
  EXPECT_TRUE(check(root_).empty());
  write("methods/focus/focus_cases.cpp", include("tests/kernels/scenes.h"));
  expect_only("include", "methods/focus/focus_cases.cpp");
}

TEST_F(planted, an_angle_bracket_does_not_hide_a_forbidden_arrow) {
  write("kernels/bad.h", std::string("  #  ") + "include <harness/decode/loop.h>\n");
  expect_only("include", "kernels/bad.h");
}

TEST_F(planted, an_include_relative_to_its_own_folder_is_found) {
  write("kernels/bad.h", include("backend.h"));
  expect_only("include", "kernels/bad.h");
}

TEST_F(planted, a_circle_is_found) {
  write("kernels/a.h", include("kernels/b.h"));
  write("kernels/b.h", include("kernels/c.h"));
  write("kernels/c.h", include("kernels/a.h"));
  expect_only("cycle", "kernels/a.h");
}

TEST_F(planted, a_file_in_no_room_is_found) {
  write("harness/utilities/strings.cpp", "");
  expect_only("room", "harness/utilities/strings.cpp");
}

// A stray file, such as one that a test wrote into the folder where it was started, or a folder.
TEST_F(planted, what_has_no_place_at_the_root_is_found) {
  for (const char* name : {"exact_work.jsonl", "notes.md", ".stray"}) {
    write_raw(name, "");
    expect_only("root", name);
    fs::remove(root_ / name);
  }
  write("common/strings.h", "");
  expect_only("root", "common");
}

TEST_F(planted, one_type_defined_in_two_headers_is_found) {
  const std::string open = "namespace unmask {\n", close = "}\n";
  write("methods/a/a.h", open + "struct focus_state;\nstruct focus_state {};\n" + close);
  write("methods/b/b.h",
        open + "struct focus_state;\nclass other {\n  struct inner {};\n};\n" + close);
  write("kernels/cpu/backend.h", "namespace unmask::cpu {\nclass other {};\n" + close);
  write("kernels/cpu/both.h", "namespace unmask::cpu {\nclass focus_state {};\n}\n" + open + close);
  write("kernels/cpu/again.h",
        open + "}  // namespace unmask\nnamespace unmask::cpu {\nclass other {};\n}\n");
  EXPECT_TRUE(check(root_).empty());
  write("methods/c/c.h", open + "struct focus_state {\n  int x;\n};\n" + close);
  expect_only("twice", "methods/c/c.h");
}

TEST_F(planted, a_missing_licence_line_is_found) {
  write_raw("kernels/bad.cpp", "// Copyright The Unmask Authors\n");
  expect_only("head", "kernels/bad.cpp");
}

TEST_F(planted, a_missing_copyright_line_is_found) {
  write_raw("kernels/bad.cpp", "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n");
  expect_only("head", "kernels/bad.cpp");
}

TEST_F(planted, scripts_need_the_licence_after_the_interpreter) {
  write_raw("plots/good.py", "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n");
  write_raw("dev", "#!/bin/sh\necho\n");
  expect_only("head", "dev");
}

TEST_F(planted, a_long_file_is_found_and_the_limit_itself_is_not) {
  std::string text;
  for (int i = 0; i < 798; ++i) text += "\n";
  write("kernels/fits.cpp", text);
  write("kernels/long.cpp", text + "\n");
  expect_only("length", "kernels/long.cpp");
}

TEST_F(planted, a_path_of_one_machine_is_found_in_code_and_in_prose) {
  for (const std::string& place :
       {std::string("/wor") + "k/unmask", std::string("/roo") + "t/.cache"}) {
    write_raw("README.md", "Look into " + place + "\n");
    expect_only("path", "README.md");
    fs::remove(root_ / "README.md");
    write("kernels/bad.cpp", "const char* where = \"" + place + "\";\n");
    expect_only("path", "kernels/bad.cpp");
    fs::remove(root_ / "kernels/bad.cpp");
  }
}

TEST_F(planted, what_git_ignores_is_not_looked_at) {
  write_raw(".gitignore", "build/\n.venv/\n/unmask-gpu.tar.xz\n");
  write_raw("build/dev/generated.cpp", "");
  write_raw(".venv/lib/module.py", "");
  write_raw("unmask-gpu.tar.xz", "");
  write_raw(".git", "gitdir: elsewhere");  // as a worktree has it
  EXPECT_TRUE(check(root_).empty());
}

}  // namespace
}  // namespace unmask::house
