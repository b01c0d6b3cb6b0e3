// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as recorded trajectories: refused, or events in order, of positions of the answer.
#include <algorithm>

#include "harness/engine/trajectory.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  const fuzz::input_file file(fuzz::text_of(data, size));
  fuzz::reads_or_refuses([&] {
    const trajectory_source all = load_trajectories(file.path());
    const trajectory first = all(0);
    fuzz::require(std::ranges::is_sorted(first.events, {}, &trajectory_event::step));
    for (const trajectory_event& e : first.events) {
      fuzz::require(e.position >= 0 && e.position < first.length && e.token >= -1);
    }
    fuzz::require(first.steps().size() == first.tokens().size());
  });
  return 0;
}
