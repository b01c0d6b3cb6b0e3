// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Who used the processors while something was measured: this process, or others. A steady disturbance
// makes every pass equally slow, so the spread between passes does not show it; this does.
#pragma once

#include <sched.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "harness/devices/cgroup.h"

namespace unmask {

// Of a span of time. The share of others counts only processors that this process may use. Their idle
// time has steps of 10 ms, so it says little about less than least_seconds; the process's own time is
// exact.
struct machine_use {
  double seconds = 0;
  double own_seconds = std::nan("");  // processor time of this process, all threads
  double other_seconds =
      std::nan("");              // of everybody else, and of the host under a virtual machine
  double processors = 0;         // that the process may use
  double threads = 0;            // that can run at a time: of OpenMP, processors and quota
  double throttled_seconds = 0;  // periods in which a quota stopped the process
  bool moved = false;            // which processors it may use changed meanwhile

  machine_use& operator+=(const machine_use& more);  // of two spans one after the other
  double own_share() const { return own_seconds / (seconds * threads); }
  double other_share() const;  // of all processors it may use; never below 0
};

// Measured on two cores with two threads: 0.89 on a quiet machine, 0.50 next to one process that
// spins. OpenMP's threads spin while they wait for the next operation, so a quiet process is busy
// nearly all the time.
inline constexpr double least_own_share = 0.7;
// One process that spins next to two threads on two cores has half of them.
inline constexpr double most_other_share = 0.1;
inline constexpr double most_throttled_share = 0.05;
inline constexpr double least_seconds = 0.3;

// Why a time of this span is not that of a quiet machine, as a sentence; "" if it may be.
// `waits`: the process itself waits, for a GPU or for requests; then its own share says nothing.
std::string disturbance(const machine_use& use, bool waits);

// Begins when it is made.
class machine_watch {
 public:
  machine_watch();
  machine_use stop() const;

 private:
  struct reading {
    double seconds = 0, own = 0, idle = std::nan("");
    std::int64_t throttled = 0;
    cpu_set_t usable{};
  };
  reading read() const;
  cgroup_limits limits_;
  reading begin_;
};

// Whether the threads of OpenMP were asked to sleep while they wait.
bool threads_sleep();

}  // namespace unmask
