// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "tests/harness/cli/planted_death.h"

int unmask_main(int argc, char** argv);

int main(int argc, char** argv) {
  if (unmask::test::plant_death()) return unmask_main(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
