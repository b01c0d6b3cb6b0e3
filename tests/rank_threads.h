// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks as threads of a test: the same group as between processes, without starting any.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness/base/ranks/group.h"

namespace unmask::test {

// Runs body(rank) in a thread for each rank, in a group of so many. Returns what each threw; "": nothing.
// A rank that throws ends the group for the others.
inline std::vector<std::string> on_ranks(int ranks, const std::function<void(rank_group&)>& body,
                                         double patience = 60) {
  const std::shared_ptr<rank_memory> memory = rank_memory::create(ranks);
  std::vector<std::string> threw(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      rank_group group(memory, rank);
      group.wait_for(patience);
      const ranks_in_force force(&group);
      try {
        body(group);
      } catch (const std::exception& problem) {
        threw[static_cast<std::size_t>(rank)] = problem.what();
        group.fail(problem.what());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return threw;
}

}  // namespace unmask::test
