// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Work that comes back step after step, recorded by the backend when it comes for the second time
// and repeated from then on (ops::record). The first time it runs as it is, so that the backend has
// allocated and tuned what it needs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace unmask {

struct recording_counts {
  std::int64_t direct = 0;    // times that work ran as it is, to be recorded when it comes again
  std::int64_t recorded = 0;  // recordings made
  std::int64_t repeated = 0;  // times that a recording ran, its first included
  double seconds = 0;         // that recording took, while nothing else ran
};

class recordings {
 public:
  // Keeps at most `most` pieces of work; the one that ran longest ago goes first.
  explicit recordings(const ops& run, std::size_t most = 128) : run_(run), most_(most) {}

  // `key` names everything that the body's operations are given and that may differ between calls:
  // numbers of rows, addresses, masks. What arrays hold is not part of it.
  void run(const std::vector<std::uint64_t>& key, const std::function<void()>& body);
  const recording_counts& counts() const { return counts_; }

 private:
  struct entry {
    std::unique_ptr<recorded_work> work;  // null: it ran once
    std::int64_t last = 0;                // when it ran
  };
  void forget_oldest();

  const ops& run_;
  std::size_t most_;
  std::map<std::vector<std::uint64_t>, entry> known_;
  std::int64_t clock_ = 0;
  recording_counts counts_;
};

}  // namespace unmask
