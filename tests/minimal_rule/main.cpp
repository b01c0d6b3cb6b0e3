// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Runs the tests; or, if the first argument names a command, the program with this rule among its
// methods: rule_test run FILE.toml.
#include <gtest/gtest.h>

int unmask_main(int argc, char** argv);

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') return unmask_main(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
