// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where a run stands, on standard error: one line redrawn on a terminal (at most ten times a
// second, with the time left), one plain line per finished point otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

namespace unmask {

class progress {
 public:
  // `total` points. `stream` null: silent.
  progress(std::size_t total, std::FILE* stream);
  ~progress();
  progress& operator=(progress&&) = delete;

  void now(const std::string& what);       // what is being done
  void finished(const std::string& line);  // one more point is over; the line stays on screen
  void note(const std::string& line);      // a line that stays, no point

 private:
  void draw(bool always);
  void wipe();

  std::size_t total_, done_ = 0;
  std::FILE* stream_;
  bool terminal_;
  bool drawn_ = false;
  std::string what_;
  std::chrono::steady_clock::time_point start_, last_;
};

// "1:05:09", "2:07", "8 s"; for the time left.
std::string short_duration(double seconds);
// "1.50 h", "2.1 min", "8.2 s"; for tables.
std::string duration_text(double seconds);

}  // namespace unmask
