// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as recorded trajectories: refused, or a step and a token for every position.
#include "harness/engine/trajectory.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  const fuzz::input_file file(fuzz::text_of(data, size));
  fuzz::reads_or_refuses([&] {
    const trajectory_source all = load_trajectories(file.path());
    const trajectory first = all(0);
    fuzz::require(first.step.size() == first.token.size());
    for (const std::int32_t token : first.token) fuzz::require(token >= 0);
  });
  return 0;
}
