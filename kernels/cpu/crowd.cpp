// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/crowd.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace unmask::cpu {
namespace {

// proc(5), loadavg: three averages, then threads that want to run / all threads. False where it
// cannot be read: waiting then tells.
bool cores_are_crowded() {
  std::ifstream file("/proc/loadavg");
  double average = 0;
  long running = 0;
  file >> average >> average >> average >> running;
  return running > sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

void crowd_watch::ended(std::int64_t now, std::int64_t work, std::int64_t wait, bool preempted) {
  if (wait >= long_wait && (preempted || 2 * wait > work)) {
    const std::int64_t pause = next_pause_.load(relaxed);
    alone_until_.store(now + pause, relaxed);
    next_pause_.store(std::min(4 * pause, longest_pause), relaxed);
    pauses_.fetch_add(1, relaxed);
    must_ask_.store(true, relaxed);
  } else if (now >= alone_until_.load(relaxed) + calm_after) {
    next_pause_.store(first_pause, relaxed);
  }
}

crowd_watch& crowd() {
  static crowd_watch watch;
  return watch;
}

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool preempted() {
  thread_local long seen = 0;
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  const bool more = use.ru_nivcsw > seen;
  seen = use.ru_nivcsw;
  return more;
}

bool team_allowed() {
  return crowd().team_allowed(steady_nanoseconds(), cores_are_crowded);
}

}  // namespace unmask::cpu
