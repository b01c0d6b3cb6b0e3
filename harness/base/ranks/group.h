// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A group of ranks: processes of one machine that run one model together, each with its share of it
// (model/share.h). They exchange bytes over shared memory and wait for each other in the kernel
// (futex): a rank that waits takes no time of a core. All ranks make the same moves in the same order.
//
// A move: each rank writes its bytes into an area of its own, waits until all have, and reads all or its
// stretch of all. Two areas are used in turn, so that one wait suffices: who writes into an area again has
// seen that all wrote into the other, and so read this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"

namespace unmask {

// What ended a group of ranks; its words name the rank. The group moves nothing any more.
class rank_failure : public error {
 public:
  explicit rank_failure(const std::string& sentence) : error(exit_code::environment, sentence) {}
};

inline constexpr int most_ranks = 64;

// Seconds that ranks wait for each other, by the variable of each: 60 unless it is set, and 600 while
// processes start, load and calibrate; 0: for ever. Usage error for a value that is none.
inline constexpr const char* patience_variable = "UNMASK_RANKS_PATIENCE";
inline constexpr const char* loading_patience_variable = "UNMASK_RANKS_LOADING_PATIENCE";
double ranks_patience();
double ranks_loading_patience();

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

 private:
  friend class rank_group;
  rank_memory(void* memory, std::size_t bytes, int ranks, int descriptor);
  void* memory_;
  std::size_t bytes_;
  int ranks_, descriptor_;
};

// What gather() and deal() moved so far.
struct rank_traffic {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  // received from other ranks
  double seconds = 0;       // of waiting for them and of copying
};

// Is told of every gather() and deal(), from its beginning to its end, however that comes.
class gather_listener {
 public:
  virtual ~gather_listener() = default;
  virtual void begin() = 0;
  virtual void end(std::uint64_t received) = 0;
};

// One rank's end of a group.
class rank_group {
 public:
  // Waits for nobody. Environment error for a rank that is there already.
  rank_group(std::shared_ptr<rank_memory> memory, int rank);
  ~rank_group();
  rank_group(const rank_group&) = delete;
  rank_group& operator=(const rank_group&) = delete;

  int rank() const { return rank_; }
  int size() const;

  // all = the `bytes` of every rank, in rank order; as many on every rank. rank_failure if a rank has
  // ended, has failed, or does not come within patience() seconds.
  void gather(const void* mine, std::size_t bytes, void* all);
  // The bytes of every rank are cut into stretches, one for each rank: all [ranks, stretch] = those of this
  // rank. The last stretches may be shorter, or empty. As many bytes on every rank; fails as gather().
  void deal(const void* mine, std::size_t bytes, std::size_t stretch, void* all);
  // The text of every rank; no traffic.
  std::vector<std::string> gather(const std::string& text);
  // The first rank whose value is another than that of rank 0; 0: none. No traffic.
  int first_other(std::uint64_t mine);
  // `bytes` of rank 0 come to all.
  void from_first(void* bytes, std::size_t count);
  double from_first(double value);
  std::string from_first(const std::string& text);

  // Seconds that a move waits for another rank; 0: for ever. At first ranks_patience(). `variable` sets
  // them, as a sentence says when they are over.
  double patience() const { return patience_; }
  void wait_for(double seconds, const char* variable = patience_variable) {
    patience_ = seconds;
    patience_set_by_ = variable;
  }
  // Says why a rank has ended, empty: it has not. Asked several times a second while a move waits.
  void watch(std::function<std::string(int rank)> ended) { ended_ = std::move(ended); }
  // All other ranks stop waiting with these words; the first that fails is heard.
  void fail(const std::string& words);
  // The same, for this rank too.
  [[noreturn]] void give_up(const std::string& words);
  // What somebody failed with; empty: nobody did.
  std::string failure() const;
  // Rank `other` and rank 0 were seen to have unequal values of what should be equal: for whoever compares
  // ranks next. 0: nothing was seen.
  void note_difference(int other) { differs_ = differs_ == 0 ? other : differs_; }
  int difference() const { return differs_; }

  int process(int rank) const;  // of that rank; 0: it has not come
  std::uint64_t moves() const { return moves_; }
  std::uint64_t received() const { return received_; }  // bytes of other ranks, however they came
  const rank_traffic& traffic() const { return traffic_; }

  // ---- moves that devices make among themselves, in the order of their own queues ----

  // This rank has queued so many more, which bring it so many bytes of others.
  void count_on_device(std::uint64_t calls, std::uint64_t bytes);
  std::uint64_t moves_on_device() const { return moves_on_device_; }
  // Asked now and then while the device is waited for, which has taken `waited` seconds: throws as
  // gather() does. A rank that has queued fewer moves than this one has not come. `move` names what is
  // waited for; empty: the last move of the devices.
  void look_around(double waited, const std::string& move = {});
  // What the device keeps for them, while the group lives.
  std::shared_ptr<void>& of_device() { return of_device_; }

  // Returns who was told before; null: nobody is.
  gather_listener* tell(gather_listener* listener) { return std::exchange(listener_, listener); }

 private:
  friend class rank_memory;
  struct header;
  header& head() const;
  char* area(int rank) const;
  void meet();
  // Throws if a rank has failed or ended, or if it takes too long: "rank 1 did not `what`", or "`move` did
  // not end" if all have come.
  void look_for(double waited, const std::function<bool(int rank)>& has_come,
                const std::string& what, const std::string& move);
  // What of every rank's bytes comes here, and how far apart that of two ranks lies.
  struct wanted {
    std::size_t first, end, apart;
  };
  void exchange(const void* mine, std::size_t bytes, const wanted& of, void* all);
  void exchange(const void* mine, std::size_t bytes, void* all) {
    exchange(mine, bytes, {0, bytes, bytes}, all);
  }
  void move(const void* mine, std::size_t bytes, const wanted& of, void* all);

  std::shared_ptr<rank_memory> memory_;
  int rank_, turn_ = 0, differs_ = 0;
  double patience_;
  const char* patience_set_by_ = patience_variable;
  std::uint64_t moves_ = 0, received_ = 0, moves_on_device_ = 0;
  rank_traffic traffic_;
  gather_listener* listener_ = nullptr;
  std::function<std::string(int)> ended_;
  std::shared_ptr<void> of_device_;
};

// The group that this thread is a rank of; null: it computes alone.
rank_group* current_ranks();
// Puts a group in force for this thread while it lives; null: computes alone meanwhile.
class ranks_in_force {
 public:
  explicit ranks_in_force(rank_group* group);
  ~ranks_in_force();
  ranks_in_force(const ranks_in_force&) = delete;
  ranks_in_force& operator=(const ranks_in_force&) = delete;

 private:
  rank_group* before_;
};

}  // namespace unmask
