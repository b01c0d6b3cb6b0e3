// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks of one machine move bytes by memory that they share, and wait for each other in the kernel
// (futex): a rank that waits takes no time of a core.
//
// A move: each rank writes its bytes into an area of its own, waits until all have, and reads all or its
// stretch of all. Two areas are used in turn, so that one wait suffices: who writes into an area again has seen that
// all wrote into the other, and so read this one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "harness/base/ranks/transport.h"

namespace unmask {

// Memory of a group: of this process, its threads, and the processes that open it. It has no name in the
// system: nothing is left of it once the last of them has ended, however that comes.
class rank_memory {
 public:
  // Environment error if the system gives none.
  static std::shared_ptr<rank_memory> create(int ranks);
  // By the file() of the process that made it. Environment error if that is gone or of another kind.
  static std::shared_ptr<rank_memory> open(const std::string& file);
  ~rank_memory();
  rank_memory(const rank_memory&) = delete;
  rank_memory& operator=(const rank_memory&) = delete;

  int ranks() const { return ranks_; }
  // By which other processes of this user open it while this one lives.
  std::string file() const;
  void* address() const { return memory_; }

 private:
  rank_memory(void* memory, std::size_t bytes, int ranks, int descriptor);
  void* memory_;
  std::size_t bytes_;
  int ranks_, descriptor_;
};

// Waits for nobody. Environment error for a rank that is there already.
std::unique_ptr<rank_transport> transport_by_memory(std::shared_ptr<rank_memory> memory, int rank);

}  // namespace unmask
