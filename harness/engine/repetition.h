// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// When an answer ends because it repeats itself: the stop of FOCUS' throughput runs (Appendix F.1;
// the numbers are those of its released benchmark script, which runs with a window of 32).
#pragma once

#include <cstdint>
#include <vector>

namespace unmask {

// An answer of n tokens repeats itself when its last three stretches of b tokens are alike, for some
// b from 8 to `window`; while min(window, n / 3) is below 8, for some b from 1 to that.
class repetition_watch {
 public:
  explicit repetition_watch(std::int32_t window = 0);  // 0: nothing repeats

  // The next token of the answer; true when the answer repeats itself from here on.
  bool add(std::int32_t token);

 private:
  std::int32_t window_;
  std::vector<std::int32_t> tokens_;
  // [b]: how many tokens, up to the last, equal the one b before them.
  std::vector<std::int64_t> alike_;
};

}  // namespace unmask
