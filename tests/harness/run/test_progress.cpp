// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "harness/run/progress.h"

namespace unmask {
namespace {

using namespace std::chrono_literals;

// A terminal of some width that a progress line is drawn on.
class terminal {
 public:
  explicit terminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    const int slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    winsize size{};
    size.ws_col = columns;
    size.ws_row = 24;
    EXPECT_EQ(::ioctl(slave, TIOCSWINSZ, &size), 0);
    stream_ = ::fdopen(slave, "w");
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  ~terminal() {
    std::fclose(stream_);
    ::close(master_);
  }
  std::FILE* stream() { return stream_; }
  std::string shown() {
    std::string text;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(master_, bytes, sizeof bytes)) > 0;) text.append(bytes, n);
    return text;
  }

 private:
  int master_;
  std::FILE* stream_ = nullptr;
};

const char* const long_name = "a-model-with-a-long-name word_problem Jetzt mit Umlauten äöü 日本語";

TEST(progress, durations_are_short) {
  EXPECT_EQ(short_duration(8.2), "8 s");
  EXPECT_EQ(short_duration(127), "2:07");
  EXPECT_EQ(short_duration(3909), "1:05:09");
}

TEST(progress, plain_lines_when_not_on_a_terminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    progress p(2, file);
    p.now("loading");
    p.finished("one");
    p.note("remark");
  }
  std::rewind(file);
  char buffer[256] = {};
  const std::size_t n = std::fread(buffer, 1, sizeof buffer - 1, file);
  EXPECT_EQ(std::string(buffer, n), "[1/2] one\nremark\n");
  std::fclose(file);
  progress silent(1, nullptr);
  silent.now("x");
  silent.finished("y");
}

TEST(progress, a_line_fits_its_terminal_whatever_its_width) {
  for (const unsigned short columns : {1, 2, 9, 20, 40, 79, 80, 200}) {
    terminal screen(columns);
    {
      progress shown(12, screen.stream(), 5ms);
      shown.expect(48);
      shown.begin_pass(long_name, 4, 256);
      std::this_thread::sleep_for(60ms);
      shown.now("another\nthing \033[2J");
    }
    std::string text = screen.shown(), line;
    std::size_t lines = 0;
    // Redrawn lines begin with a carriage return and "erase to the end of the line".
    for (std::size_t at = 0; (at = text.find("\r\033[K", at)) != std::string::npos; ++lines) {
      at += 4;
      line = text.substr(at, text.find("\r\033[K", at) - at);
      EXPECT_LE(columns_of(line), std::max<std::size_t>(columns - 1u, 1)) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
      EXPECT_EQ(line.find('\033'), std::string::npos);
    }
    EXPECT_GT(lines, 1u);
  }
}

TEST(progress, says_items_tokens_and_time_left_from_the_first_pass_on) {
  progress p(12, nullptr);
  p.expect(48);
  EXPECT_TRUE(p.status(0).starts_with("0/48 items · 0 tokens/s · ? left · [0/12] ")) << p.status(0);
  p.begin_pass("tiny vanilla warm-up", 4, 256);
  std::this_thread::sleep_for(50ms);
  p.meter().tokens += 64;  // a quarter of the positions, no item yet
  std::smatch found;
  std::string text = p.status(0);
  ASSERT_TRUE(std::regex_match(
      text, found, std::regex("0/48 items · (\\d+) tokens/s · (\\d+) s left · .*vanilla warm-up")))
      << text;
  // One item's worth of 48 after 50 ms or more: 47 times as long is left.
  EXPECT_GE(std::stoi(found[2]), 2);
  EXPECT_LE(std::stoi(found[1]), 1280);
  p.meter().items += 3;
  EXPECT_TRUE(p.status(0).starts_with("3/48 items")) << p.status(0);
  p.meter().items += 1;
  p.end_pass();
  EXPECT_TRUE(p.status(0).starts_with("4/48 items")) << p.status(0);
  p.begin_pass("x", 4, 0);
  p.meter().items += 2;
  p.end_pass(false);  // given up: its items are still to be answered
  EXPECT_TRUE(p.status(0).starts_with("4/48 items")) << p.status(0);
  p.expect(-44);
  EXPECT_TRUE(p.status(0).starts_with("4/4 items")) << p.status(0);
  EXPECT_NE(p.status(0).find(" 0 s left"), std::string::npos) << p.status(0);
}

TEST(progress, elsewhere_than_on_a_terminal_it_is_plain_lines) {
  char name[] = "/tmp/unmask-progress-XXXXXX";
  const int file = ::mkstemp(name);
  std::FILE* stream = ::fdopen(file, "w+");
  {
    progress p(2, stream, 20ms);
    p.expect(8);
    p.begin_pass("first", 4, 16);
    std::this_thread::sleep_for(100ms);
    p.meter().items += 4;
    p.end_pass();
    p.finished("first PASS");
    p.note("a note");
  }
  std::rewind(stream);
  std::string text;
  for (int c = 0; (c = std::fgetc(stream)) != EOF;) text += static_cast<char>(c);
  std::fclose(stream);
  ::unlink(name);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(text.find("0/8 items · 0 tokens/s · ? left · [0/2] first\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("[1/2] first PASS\na note\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace unmask
