// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/output.h"

namespace unmask {
namespace {

using seconds_double = std::chrono::duration<double>;

// Of the terminal that this stream is; 80 where it does not say.
std::size_t width_of(std::FILE* stream) {
  winsize size{};
  const bool known = ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

struct character {
  std::size_t bytes = 1, columns = 1;
};
// The one at a place of a text in UTF-8, as a terminal shows it; near enough for a line of progress.
character character_at(const std::string& text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const bool wide = lead >= 0xE3 || (lead == 0xE1 && at + 1 < text.size() &&
                                     static_cast<unsigned char>(text[at + 1]) >= 0x84 &&
                                     static_cast<unsigned char>(text[at + 1]) < 0x86);
  return {std::min(bytes, text.size() - at), wide ? std::size_t{2} : std::size_t{1}};
}

// As much of a text as fits, without what would move the cursor.
std::string cut(const std::string& text, std::size_t columns) {
  std::string shown;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const character c = character_at(text, at);
    if (used + c.columns > columns) break;
    const bool control = static_cast<unsigned char>(text[at]) < 0x20 || text[at] == 0x7F;
    shown += control ? "?" : text.substr(at, c.bytes);
    used += c.columns;
    at += c.bytes;
  }
  return shown;
}

}  // namespace

std::size_t columns_of(const std::string& text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const character c = character_at(text, at);
    columns += c.columns;
    at += c.bytes;
  }
  return columns;
}

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

progress::progress(std::size_t points, std::FILE* stream, clock::duration every)
    : points_(points),
      stream_(stream),
      terminal_(stream != nullptr && ::isatty(::fileno(stream)) == 1),
      start_(clock::now()) {
  if (stream_ == nullptr) return;
  if (every == clock::duration::zero()) {
    every = terminal_ ? clock::duration(std::chrono::milliseconds(200)) : std::chrono::minutes(1);
  }
  drawer_ = std::thread([this, every] {
    std::unique_lock hold(guard_);
    while (!wake_.wait_for(hold, every, [this] { return over_; })) draw();
  });
}

progress::~progress() {
  {
    const std::lock_guard hold(guard_);
    over_ = true;
    wipe();
  }
  wake_.notify_all();
  if (drawer_.joinable()) drawer_.join();
}

void progress::wipe() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

// With the lock held, as everything below that is private.
double progress::items_done() const {
  double part = static_cast<double>(meter_.items.load(std::memory_order_relaxed));
  if (pass_tokens_ > 0) {
    const auto tokens = static_cast<double>(meter_.tokens.load(std::memory_order_relaxed));
    part = std::max(part,
                    static_cast<double>(pass_items_) * tokens / static_cast<double>(pass_tokens_));
  }
  return static_cast<double>(done_) + std::min(part, static_cast<double>(pass_items_));
}

std::string progress::status(std::size_t columns) const {
  const bool in_pass = pass_start_ != clock::time_point{};
  const auto here = clock::now();
  const std::int64_t items =
      done_ + std::min(meter_.items.load(std::memory_order_relaxed), pass_items_);
  std::string line = fmt::format("{}/{} items", items, std::max(expected_, items));
  const double timed =
      seconds_double(in_passes_ + (in_pass ? here - pass_start_ : clock::duration::zero())).count();
  const std::int64_t tokens = tokens_ + meter_.tokens.load(std::memory_order_relaxed);
  line += fmt::format(" · {:.0f} tokens/s", timed > 0 ? static_cast<double>(tokens) / timed : 0.0);
  const double done = items_done();
  if (done > 0) {
    const double spent = seconds_double(here - start_).count();
    const double left = std::max(static_cast<double>(expected_) - done, 0.0);
    line += " · " + short_duration(spent / done * left) + " left";
  } else {
    line += " · ? left";
  }
  line += fmt::format(" · [{}/{}] {}", points_done_, points_, what_);
  return columns == 0 ? line : cut(line, columns);
}

void progress::draw() {
  if (over_) return;
  if (!terminal_) {
    std::fputs((status(0) + "\n").c_str(), stream_);
  } else {
    // One column stays free: a full line wraps on some terminals.
    const std::size_t width = width_of(stream_);
    std::fputs(("\r\033[K" + status(width > 1 ? width - 1 : 1)).c_str(), stream_);
    drawn_ = true;
  }
  std::fflush(stream_);
}

void progress::say(const std::string& line) {
  if (stream_ == nullptr) return;
  wipe();
  std::fputs((shown_line(line) + "\n").c_str(), stream_);
  std::fflush(stream_);
}

void progress::expect(std::int64_t items) {
  const std::lock_guard hold(guard_);
  expected_ += items;
}

void progress::now(const std::string& what) {
  const std::lock_guard hold(guard_);
  what_ = what;
  if (terminal_) draw();
}

void progress::begin_pass(const std::string& what, std::int64_t items, std::int64_t tokens) {
  const std::lock_guard hold(guard_);
  what_ = what;
  pass_items_ = items;
  pass_tokens_ = tokens;
  pass_start_ = clock::now();
}

void progress::end_pass(bool whole) {
  const std::lock_guard hold(guard_);
  if (whole) done_ += pass_items_;
  tokens_ += meter_.tokens.exchange(0);
  meter_.items = 0;
  pass_items_ = pass_tokens_ = 0;
  if (pass_start_ != clock::time_point{}) in_passes_ += clock::now() - pass_start_;
  pass_start_ = {};
}

void progress::note(const std::string& line) {
  const std::lock_guard hold(guard_);
  say(line);
}

void progress::finished(const std::string& line) {
  const std::lock_guard hold(guard_);
  ++points_done_;
  say(fmt::format("[{}/{}] {}", points_done_, points_, line));
}

void progress::last_words(const std::string& line) {
  const std::unique_lock hold(guard_, std::try_to_lock);  // who holds it may be waiting for a disk
  over_ = true;
  std::FILE* stream = stream_ ? stream_ : stderr;
  if (drawn_) std::fputs("\r\033[K", stream);
  std::fputs((line + "\n").c_str(), stream);
  std::fflush(stream);
}

}  // namespace unmask
