// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Work that comes back step after step is captured as a graph when it comes for the second time and
// replayed from then on (backend::capture). The first time it runs uncaptured, so that the backend has
// allocated and tuned what it needs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace unmask {

struct graph_counts {
  std::int64_t direct = 0;    // times that work ran uncaptured, to be captured when it comes again
  std::int64_t replayed = 0;  // times that a graph ran, its first included
  double seconds = 0;         // that capturing took, while nothing else ran
};

class captured_graphs {
 public:
  // Keeps at most `most` pieces of work; the one that ran longest ago goes first.
  explicit captured_graphs(const backend& backend, std::size_t most = 128)
      : run_(backend), most_(most) {}

  // `key` names everything that the body's operations are given and that may differ between calls:
  // numbers of rows, addresses, masks. What arrays hold is not part of it. Arrays stay where they are
  // until forget().
  void run(const std::vector<std::uint64_t>& key, const std::function<void()>& body);
  // Forgets all work, because an array has moved. Memory that comes back at an old address would be known
  // on one rank and not on another, and ranks capture the same work at the same time.
  void forget();
  const graph_counts& counts() const { return counts_; }

 private:
  struct entry {
    std::unique_ptr<captured_graph> work;  // null: it ran once
    std::int64_t last = 0;                 // when it ran
  };
  void forget_oldest();

  const backend& run_;
  std::size_t most_;
  std::map<std::vector<std::uint64_t>, entry> known_;
  std::int64_t clock_ = 0;
  graph_counts counts_;
};

}  // namespace unmask
