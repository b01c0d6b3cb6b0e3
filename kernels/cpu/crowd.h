// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// OpenMP teams spin at barriers. That is fastest on idle cores, but when other programs hold them a
// barrier lasts until the last member gets a time slice: a decode of 0.2 s then takes up to 30 s. So
// the matrix products measure how long the calling thread waits for its team, and after a long wait
// operations go on with one thread. Before a team starts again, and before the first one, the kernel
// is asked how many threads want to run: to find out by waiting would take a time slice.
#pragma once

#include <omp.h>

#include <atomic>
#include <cstdint>

namespace unmask::cpu {

// The decision alone: times are nanoseconds of one steady clock, given by the caller.
class crowd_watch {
 public:
  // A wait counts as long from here on, and only when it exceeds half of the caller's own work, for
  // the last piece of a large product may take a millisecond on idle cores too, or when the caller
  // was itself sent away from its core, which makes its work look long.
  static constexpr std::int64_t long_wait = 1'000'000;
  // With one thread for 50 ms after the first long wait, four times as long after each further one,
  // at most 1 s; the first pause again after 200 ms without a long wait.
  static constexpr std::int64_t first_pause = 50'000'000;
  static constexpr std::int64_t longest_pause = 1'000'000'000;
  static constexpr std::int64_t calm_after = 200'000'000;

  // Whether a team may start now. `crowded` is asked at the start and behind a pause: whether more
  // threads want to run than there are cores; if so, again after first_pause.
  bool team_allowed(std::int64_t now, bool (*crowded)()) {
    if (now < alone_until_.load(relaxed)) return false;
    if (!must_ask_.load(relaxed)) return true;
    const bool alone = crowded();
    if (alone) alone_until_.store(now + first_pause, relaxed);
    must_ask_.store(alone, relaxed);
    return !alone;
  }

  // A team's region ended at `now`; its caller worked for `work` in it and waited for `wait`.
  void ended(std::int64_t now, std::int64_t work, std::int64_t wait, bool preempted = false);

  std::int64_t pauses() const { return pauses_.load(relaxed); }

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  std::atomic<std::int64_t> alone_until_{0}, next_pause_{first_pause}, pauses_{0};
  std::atomic<bool> must_ask_{true};
};

// The one of this process.
crowd_watch& crowd();
std::int64_t steady_nanoseconds();

// Whether another program took the calling thread's core since the thread last asked.
bool preempted();

// Whether operations may use more than one thread now.
bool team_allowed();

// A number of elements above which row work is worth waking the other threads: `n > limit` is false
// while others hold the cores, whatever n.
struct team_limit {
  std::int64_t elements;
  friend constexpr team_limit operator*(std::int64_t n, team_limit l) { return {n * l.elements}; }
  friend constexpr team_limit operator/(team_limit l, std::int64_t n) { return {l.elements / n}; }
  friend bool operator>(std::int64_t n, team_limit l) { return n > l.elements && team_allowed(); }
};

// Measures one region: made before it by the thread that starts it.
class watched_region {
 public:
  watched_region() : start_(steady_nanoseconds()), done_(start_) {}
  ~watched_region() {
    if (!begun_) return;  // no team, or none of the work was the caller's
    const std::int64_t now = steady_nanoseconds(), work = done_ - begin_;
    const std::int64_t wait = now - start_ - work;
    crowd().ended(now, work, wait, wait >= crowd_watch::long_wait && preempted());
  }
  watched_region(const watched_region&) = delete;
  watched_region& operator=(const watched_region&) = delete;

 private:
  friend class watched_part;
  std::int64_t start_, begin_ = 0, done_;
  bool begun_ = false;
};

// One piece of work in such a region, on any of its threads: what the caller of the region spends
// outside all of its own pieces it spends waiting for the team, to start or to end.
class watched_part {
 public:
  explicit watched_part(watched_region& region)
      : region_(omp_get_thread_num() == 0 && omp_get_num_threads() > 1 ? &region : nullptr) {
    if (region_ == nullptr || region_->begun_) return;
    region_->begun_ = true;
    region_->begin_ = steady_nanoseconds();
  }
  ~watched_part() {
    if (region_ != nullptr) region_->done_ = steady_nanoseconds();
  }
  watched_part(const watched_part&) = delete;
  watched_part& operator=(const watched_part&) = delete;

 private:
  watched_region* region_;
};

}  // namespace unmask::cpu
