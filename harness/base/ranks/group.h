// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A group of ranks: processes that run one model together, each with its share of it (model/share.h). They
// exchange bytes, all in the same order. A transport (transport.h) moves them: shared memory on one machine,
// TCP between several. Who has a group does not know which one it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/ranks/transport.h"

namespace unmask {

class rank_memory;

// Seconds that ranks wait for each other, by the variable of each: 60 unless it is set, and 600 while
// processes start, load and calibrate; 0: for ever. Usage error for a value that is none.
inline constexpr const char* patience_variable = "UNMASK_RANKS_PATIENCE";
inline constexpr const char* loading_patience_variable = "UNMASK_RANKS_LOADING_PATIENCE";
double ranks_patience();
double ranks_loading_patience();

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
  explicit rank_group(std::unique_ptr<rank_transport> transport);
  // By shared memory (memory.h). Waits for nobody. Environment error for a rank that is there already.
  rank_group(std::shared_ptr<rank_memory> memory, int rank);
  ~rank_group();
  rank_group(const rank_group&) = delete;
  rank_group& operator=(const rank_group&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->ranks(); }
  // How its ranks are connected: the transport's name, and how many machines they are on (of rank 0).
  std::string transport() const { return transport_->name(); }
  int machines() const { return transport_->machines(); }

  static constexpr std::size_t largest_text = std::size_t{64} << 20;  // bytes

  // all = the `bytes` of every rank, in rank order; as many on every rank. rank_failure if a rank has
  // ended, has failed, or does not come within patience() seconds.
  void gather(const void* mine, std::size_t bytes, void* all);
  // The bytes of every rank are cut into stretches, one for each rank: all [ranks, stretch] = those of this
  // rank. The last stretches may be shorter, or empty. As many bytes on every rank; fails as gather().
  void deal(const void* mine, std::size_t bytes, std::size_t stretch, void* all);
  // The text of every rank; no traffic. rank_failure for one of more than largest_text bytes.
  std::vector<std::string> gather(const std::string& text);
  // The first rank whose value is another than that of rank 0; 0: none. No traffic.
  int first_other(std::uint64_t mine);
  // `bytes` of rank 0 come to all; of a text at most largest_text.
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
  void fail(const std::string& words) { transport_->fail(words); }
  // The same, for this rank too.
  [[noreturn]] void give_up(const std::string& words) { transport_->give_up(words); }
  // What somebody failed with; empty: nobody did.
  std::string failure() const { return transport_->failure(); }
  // Rank `other` and rank 0 were seen to have unequal values of what should be equal: for whoever compares
  // ranks next. 0: nothing was seen.
  void note_difference(int other) { differs_ = differs_ == 0 ? other : differs_; }
  int difference() const { return differs_; }

  // Of that rank, on its machine; 0: it has not come.
  int process(int rank) const { return transport_->process(rank); }
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
  // Throws if a rank has failed or ended, or if it takes too long: "rank 1 did not `what`", or "`move` did
  // not end" if all have come.
  void look_for(double waited, const presence_of& of, const std::string& what,
                const std::string& move);
  waiting_check check_of_moves();
  void refuse_large_text(int rank, std::uint64_t bytes);
  // all + r * apart = the stretch of this rank of the bytes of rank r, or all of them.
  void exchange(const void* mine, std::size_t bytes, std::size_t apart, const stretch_of_rank& of,
                void* all);
  void exchange(const void* mine, std::size_t bytes, void* all);
  void counted_exchange(const void* mine, std::size_t bytes, std::size_t apart,
                        const stretch_of_rank& of, void* all);

  std::unique_ptr<rank_transport> transport_;
  int differs_ = 0;
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
