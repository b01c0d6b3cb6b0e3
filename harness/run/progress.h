// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where a run stands, on standard error: items done of items there are (every pass of every point
// counts its items), tokens decided a second, time left, and what is being done. On a terminal one line
// that is redrawn and never longer than the window; elsewhere a line a minute. A finished point leaves
// a line of its own. A thread of its own draws: the timed code counts in two atomics and nothing else.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "harness/measure/work_meter.h"

namespace unmask {

class progress {
 public:
  using clock = std::chrono::steady_clock;
  // `points` to measure. `stream` null: silent. `every`: how often a line is drawn; zero: five times a
  // second on a terminal, once a minute elsewhere.
  progress(std::size_t points, std::FILE* stream, clock::duration every = {});
  ~progress();
  progress& operator=(progress&&) = delete;

  void expect(std::int64_t items);    // so many more items to answer (fewer, when negative)
  void now(const std::string& what);  // what is being done
  // A pass over so many items begins, with so many positions to decide (0: nobody knows).
  void begin_pass(const std::string& what, std::int64_t items, std::int64_t tokens);
  void end_pass(bool whole = true);  // false: it was given up
  work_meter& meter() { return meter_; }
  void finished(const std::string& line);    // one more point is over; the line stays on screen
  void note(const std::string& line);        // a line that stays, no point
  void last_words(const std::string& line);  // the same, and nothing is drawn any more

  // The line, no wider than `columns`; 0: of any width.
  std::string status(std::size_t columns) const;

 private:
  void draw();
  void wipe();
  void say(const std::string& line);
  double items_done() const;

  mutable std::mutex guard_;
  std::condition_variable wake_;
  std::size_t points_, points_done_ = 0;
  std::int64_t expected_ = 0, done_ = 0, tokens_ = 0;  // of passes that are over: done, tokens
  std::int64_t pass_items_ = 0, pass_tokens_ = 0;
  std::FILE* stream_;
  bool terminal_, drawn_ = false, over_ = false;
  std::string what_;
  work_meter meter_;
  clock::time_point start_;
  clock::duration in_passes_{};  // of passes that are over
  clock::time_point pass_start_{};
  std::thread drawer_;
};

// As many columns as a terminal gives a text: two for wide East Asian characters and symbols, none for
// the bytes that continue a character.
std::size_t columns_of(const std::string& text);

// "1:05:09", "2:07", "8 s"; for the time left.
std::string short_duration(double seconds);
// "1.50 h", "2.1 min", "8.2 s"; for tables.
std::string duration_text(double seconds);

}  // namespace unmask
