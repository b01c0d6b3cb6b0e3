// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/machine_use.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace unmask {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return std::nan("");
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds that these processors had nothing to do since the machine started.
double idle_seconds(const cpu_set_t& usable) {
  const double tick = 1.0 / static_cast<double>(std::max(sysconf(_SC_CLK_TCK), 1L));
  std::ifstream in("/proc/stat");
  double idle = 0;
  int found = 0;
  for (std::string line; std::getline(in, line) && line.rfind("cpu", 0) == 0;) {
    if (line.size() < 4 || line[3] == ' ') continue;  // of all processors together
    std::istringstream words(line.substr(3));
    int processor = 0;
    double user = 0, nice = 0, system = 0, nothing = 0, waiting = 0;
    if (!(words >> processor >> user >> nice >> system >> nothing >> waiting)) continue;
    if (processor < 0 || processor >= CPU_SETSIZE || !CPU_ISSET(processor, &usable)) continue;
    idle += tick * (nothing + waiting);
    ++found;
  }
  return found > 0 && found == CPU_COUNT(&usable) ? idle : std::nan("");
}

}  // namespace

machine_use& machine_use::operator+=(const machine_use& more) {
  if (seconds == 0) return *this = more;
  seconds += more.seconds;
  own_seconds += more.own_seconds;
  other_seconds += more.other_seconds;
  processors = std::max(processors, more.processors);
  threads = std::max(threads, more.threads);
  throttled_seconds += more.throttled_seconds;
  moved = moved || more.moved;
  return *this;
}

double machine_use::other_share() const {
  const double share = other_seconds / (seconds * processors);
  return share < 0 ? 0 : share;
}

namespace {

// Of many threads some may have nothing to do for long: then the other processors are idle too, and one
// thread at least always runs.
bool leaves_threads_idle(const machine_use& use) {
  constexpr double quiet = 0.05, one_thread = 0.9;
  return use.threads > 2 && use.seconds >= least_seconds && use.other_share() < quiet &&
         use.own_seconds >= one_thread * use.seconds;
}

}  // namespace

std::string disturbance(const machine_use& use, bool waits) {
  if (!(use.seconds > 0)) return "";
  // In tens: the row has the exact shares, and rows of one moment have one sentence.
  const auto percent = [](double share) { return 10 * std::lround(10 * share); };
  if (use.throttled_seconds > most_throttled_share * use.seconds) {
    return fmt::format("a CPU quota stopped the process in about {} % of the time",
                       std::min(percent(use.throttled_seconds / use.seconds), 100L));
  }
  // A process that waits for a GPU needs one processor: there is one until nearly all are taken.
  const double most = waits ? 0.5 : most_other_share;
  if (use.seconds >= least_seconds && use.other_share() > most) {
    return fmt::format("other work on the machine took about {} % of the processors",
                       percent(use.other_share()));
  }
  if (!waits && use.own_share() < least_own_share && !leaves_threads_idle(use)) {
    return fmt::format(
        "the process had about {} % of its threads' time (90 % on a quiet machine): "
        "other work ran, or it was stopped",
        percent(use.own_share()));
  }
  if (use.moved) return "the processors that the process may use changed during a pass";
  return "";
}

machine_watch::machine_watch() : limits_(read_cgroup_limits()), begin_(read()) {}

machine_watch::reading machine_watch::read() const {
  reading now;
  if (sched_getaffinity(0, sizeof now.usable, &now.usable) != 0) CPU_ZERO(&now.usable);
  now.throttled = limits_.cpu_stat.empty() ? 0 : throttled_periods(limits_.cpu_stat);
  now.idle = idle_seconds(now.usable);
  now.own = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  now.seconds = seconds_of(CLOCK_MONOTONIC);
  return now;
}

machine_use machine_watch::stop() const {
  const reading end = read();
  machine_use use;
  use.seconds = end.seconds - begin_.seconds;
  use.own_seconds = end.own - begin_.own;
  use.processors = CPU_COUNT(&end.usable);
  use.moved = CPU_EQUAL(&begin_.usable, &end.usable) == 0;
  const double busy = use.seconds * use.processors - (end.idle - begin_.idle);
  use.other_seconds = use.moved ? std::nan("") : busy - use.own_seconds;
  use.threads = std::min<double>(omp_get_max_threads(), use.processors);
  if (limits_.cpus > 0) use.threads = std::min(use.threads, limits_.cpus);
  use.throttled_seconds =
      static_cast<double>(end.throttled - begin_.throttled) * limits_.period_seconds;
  return use;
}

bool threads_sleep() {
  const auto is = [](const char* variable, const char* first) {
    const char* text = std::getenv(variable);
    return text != nullptr && std::string(text).starts_with(first);
  };
  return is("OMP_WAIT_POLICY", "p") || is("OMP_WAIT_POLICY", "P") || is("GOMP_SPINCOUNT", "0") ||
         is("KMP_BLOCKTIME", "0");
}

}  // namespace unmask
