// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/progress.h"

#include <unistd.h>

#include <fmt/format.h>

#include "harness/base/output.h"

namespace unmask {

std::string short_duration(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.2f} h", seconds / 3600);
}

progress::progress(std::size_t total, std::FILE* stream)
    : total_(total),
      stream_(stream),
      terminal_(stream != nullptr && ::isatty(::fileno(stream)) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_ - std::chrono::hours(1)) {}

progress::~progress() {
  wipe();
}

void progress::wipe() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

void progress::draw(bool always) {
  if (!terminal_) return;
  const auto time = std::chrono::steady_clock::now();
  if (!always && time - last_ < std::chrono::milliseconds(100)) return;
  last_ = time;
  const double spent = std::chrono::duration<double>(time - start_).count();
  std::string line = fmt::format("[{}/{}] {}", done_, total_, what_);
  if (done_ > 0 && done_ < total_) {
    const double left = spent / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    line += " · " + short_duration(left) + " left";
  }
  std::fputs(("\r\033[K" + shown_line(line)).c_str(), stream_);
  std::fflush(stream_);
  drawn_ = true;
}

void progress::now(const std::string& what) {
  what_ = what;
  draw(false);
}

void progress::note(const std::string& line) {
  if (stream_ == nullptr) return;
  wipe();
  std::fputs((shown_line(line) + "\n").c_str(), stream_);
  std::fflush(stream_);
  draw(true);
}

void progress::finished(const std::string& line) {
  ++done_;
  note(fmt::format("[{}/{}] {}", done_, total_, line));
}

}  // namespace unmask
