// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks as threads of a test: the same group as between processes, without starting any.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/base/ranks/group.h"
#include "harness/base/ranks/memory.h"
#include "harness/base/ranks/tcp.h"

namespace unmask::test {

enum class transport_kind : std::uint8_t { memory, tcp };
inline constexpr transport_kind every_transport[] = {transport_kind::memory, transport_kind::tcp};
inline std::string transport_name(transport_kind kind) {
  return kind == transport_kind::memory ? "memory" : "tcp";
}
inline void PrintTo(transport_kind kind, std::ostream* out) {
  *out << transport_name(kind);
}

// Where the ranks of a test meet.
class meeting_place {
 public:
  meeting_place(transport_kind by, int ranks) : ranks_(ranks) {
    if (by == transport_kind::memory) {
      memory_ = rank_memory::create(ranks);
    } else {
      listener_.emplace("127.0.0.1", 0);
      port_ = listener_->port();
    }
  }
  int port() const { return port_; }
  // Called once for each rank, which it waits for the others of if they use TCP.
  std::unique_ptr<rank_group> join(int rank, double patience = 60) {
    if (memory_) return std::make_unique<rank_group>(memory_, rank);
    const tcp_job job{.rank = rank, .ranks = ranks_, .ranks_variable = "N", .key = "test"};
    if (rank > 0) {
      return std::make_unique<rank_group>(transport_of_tcp_rank("127.0.0.1", port_, job, patience));
    }
    return std::make_unique<rank_group>(
        transport_of_tcp_rank_0(std::move(*listener_), job, patience));
  }

 private:
  int ranks_, port_ = 0;
  std::shared_ptr<rank_memory> memory_;
  std::optional<tcp_listener> listener_;
};

// Runs body(rank) in a thread for each rank, in a group of so many. Returns what each threw; "": nothing.
// A rank that throws ends the group for the others. None leaves it before all are done.
inline std::vector<std::string> on_ranks(int ranks, const std::function<void(rank_group&)>& body,
                                         double patience = 60,
                                         transport_kind by = transport_kind::memory) {
  meeting_place place(by, ranks);
  std::vector<std::string> threw(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  std::latch done(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<rank_group> group;
      try {
        group = place.join(rank);
        group->wait_for(patience);
        const ranks_in_force force(group.get());
        body(*group);
      } catch (const std::exception& problem) {
        threw[static_cast<std::size_t>(rank)] = problem.what();
        if (group) group->fail(problem.what());
      }
      done.arrive_and_wait();
    });
  }
  for (std::thread& t : threads) t.join();
  return threw;
}

}  // namespace unmask::test
