// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks that somebody else started: torchrun, mpirun, mpiexec or srun. Their variables say which rank a
// process is. On one machine a note in shared memory leads the others to rank 0. On several machines rank 0
// listens at an address that all of them know, and all ranks use TCP, neighbours too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/base/ranks/group.h"
#include "harness/base/ranks/memory.h"

namespace unmask {

struct rank_place {
  std::string launcher;        // torchrun, ...
  std::string ranks_variable;  // which says how many there are
  std::string key;             // the same for all ranks of one launch, and no other
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 0;  // of this machine; local_ranks 0: not said
  std::string address = {};  // of rank 0 and its port, of ranks on several machines; empty:
  int port = 0;              // they are on one
  bool on_one_machine() const { return address.empty(); }
};

// A variable of the environment; null: it is not set.
using variable_reader = std::function<const char*(const char*)>;

// The place that the first complete set of variables gives; nothing if there is none, or if it is of one
// rank. Read only where a point asks for several ranks: a Slurm batch script without srun sets
// SLURM_PROCID too, but not how many tasks its step has. Usage error, naming the variable, for half a
// set without a complete one, for values that are no places, and for ranks on several machines whose
// address is not said. MASTER_ADDR and MASTER_PORT say it; srun's own variables do if those do not.
std::optional<rank_place> launched_place(const variable_reader& variable);
std::optional<rank_place> launched_place();  // of this process
// RANK FILE: that rank 0 started a process to follow it in a group with that memory.
inline constexpr const char* follows_whom = "UNMASK_FOLLOWS";
// Whether another process started this one as one of several ranks, so that it may see its own GPU only.
// Usage error as launched_place().
bool is_started_rank();

// The GPUs that a rank may see which another process starts, as CUDA_VISIBLE_DEVICES says it: the one of
// its number among those that the starting process sees; none if that has fewer.
std::string gpus_of_rank(int rank, const variable_reader& variable);
std::string gpus_of_rank(int rank);

// "srun --ntasks=4": the command that starts so many.
std::string command_for(const rank_place& place, int ranks);

// The first machine of a list of Slurm: "node3" of "node[3-5,9],gpu1".
std::string first_machine(const std::string& list);

// This rank's end of the group of all that were started with it. Rank 0 waits for the others, or they for it,
// for ranks_patience() seconds: here on several machines, on one in the first move. A rank that ends is named.
// Environment error if they do not meet.
std::shared_ptr<rank_group> join_ranks(const rank_place& place);

// Leads other processes of this user to a group's memory while this object lives.
class rank_note {
 public:
  // A note of a process that has ended is replaced. Environment error for one of a process that lives.
  rank_note(const std::string& key, const rank_memory& memory);
  ~rank_note();
  rank_note(const rank_note&) = delete;
  rank_note& operator=(const rank_note&) = delete;

 private:
  std::string file_;
};

// The memory that rank 0 left a note of. Waits for it so many seconds; 0: for ever. Environment error,
// with the file and what is wrong with it.
std::shared_ptr<rank_memory> noted_memory(const std::string& key, double patience);
std::string note_file(const std::string& key);

}  // namespace unmask
