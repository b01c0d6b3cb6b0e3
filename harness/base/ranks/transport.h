// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How the bytes of a group go from rank to rank: by memory that processes of one machine share (memory.h),
// or by TCP through rank 0, between machines (tcp.h). A group (group.h) is the same over each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "harness/base/error.h"

namespace unmask {

// What ended a group of ranks; its words name the rank. The group moves nothing any more.
class rank_failure : public error {
 public:
  explicit rank_failure(const std::string& sentence) : error(exit_code::environment, sentence) {}
};

inline constexpr int most_ranks = 64;

// Whether a rank has come to where this one waits. Over TCP only rank 0 knows it of all.
enum class rank_presence : std::uint8_t { absent, there, unknown };
using presence_of = std::function<rank_presence(int rank)>;

// A transport that waits asks it several times a second. Throws if the wait shall end. `waited`: seconds.
using waiting_check = std::function<void(double waited, const presence_of& of)>;

// Distinguishes this machine from others while it runs; empty: the system does not say.
std::string machine_id();

// Bytes of a rank that come to another one: [first, end) of a move.
struct rank_stretch {
  std::size_t first, end;
};
using stretch_of_rank = std::function<rank_stretch(int rank)>;

// One rank's end of the lines between all ranks. All ranks make the same moves in the same order.
class rank_transport {
 public:
  static constexpr std::size_t largest_move = std::size_t{1} << 20;  // bytes of one rank
  static constexpr std::size_t longest_words = 512;

  rank_transport(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~rank_transport() = default;
  rank_transport(const rank_transport&) = delete;
  rank_transport& operator=(const rank_transport&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // As rows say it.
  virtual std::string name() const = 0;
  // Machines that the ranks are on, as rank 0 knows it.
  virtual int machines() const { return 1; }
  virtual int process(int rank) const = 0;  // of that rank, on its machine; 0: not known

  // One move. all + r * apart = of the `bytes` of rank r the stretch of this rank, which may be all of them, or
  // none; at most largest_move bytes, as many on every rank. rank_failure if one of the ranks has failed or left.
  virtual void deal(const void* mine, std::size_t bytes, const stretch_of_rank& of, void* all,
                    std::size_t apart, const waiting_check& check) = 0;
  // One move: `bytes` of rank 0 come to all; at most largest_move.
  virtual void from_first(void* bytes, std::size_t count, const waiting_check& check) = 0;

  // This rank has queued so many moves of devices, from its start on.
  virtual void count_on_device(std::uint64_t moves) = 0;
  // The same of that rank, as far as this one has heard.
  virtual std::uint64_t on_device(int rank) const = 0;
  // Hears of the others, without waiting. rank_failure as deal().
  virtual void listen() {}

  // All other ranks stop waiting with these words, of which the first longest_words count; the first that
  // fails is heard.
  virtual void fail(const std::string& words) = 0;
  virtual std::string failure() const = 0;  // empty: nobody failed
  [[noreturn]] void give_up(const std::string& words) {
    fail(words);
    throw rank_failure(failure());
  }

 private:
  int rank_, ranks_;
};

}  // namespace unmask
