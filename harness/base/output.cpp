// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/output.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ostream>
#include <sstream>

#include "harness/base/error.h"

namespace unmask {
namespace {

struct character {
  std::uint32_t code = 0xFFFD;
  std::size_t bytes = 1;
  bool good = false;
};

// The character of UTF-8 at `at`; one bad byte where there is none (RFC 3629, section 3).
character next_character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(at);
  if (first < 0x80) return {first, 1, true};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + bytes > text.size()) return {};
  std::uint32_t code = first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3FU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes, true};
}

bool commands_a_terminal(std::uint32_t c) {
  if (c == '\n' || c == '\t') return false;
  if (c < 0x20 || (c >= 0x7F && c <= 0x9F)) return true;
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

// What stdio said first; its later calls may say nothing.
int failure = 0;

void write(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && failure == 0) {
    failure = errno != 0 ? errno : EIO;
  }
}

void flush() {
  errno = 0;
  if (std::fflush(stdout) != 0 && failure == 0) failure = errno != 0 ? errno : EIO;
}

std::string* caught = nullptr;  // takes what is printed

class error_buffer final : public std::stringbuf {
  int sync() override {
    write_error(str());
    str("");
    return 0;
  }
};

}  // namespace

std::string shown(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const character c = next_character(text, i);
    if (!c.good) {
      out += "\xEF\xBF\xBD";
    } else if (commands_a_terminal(c.code)) {
      out += fmt::format("\\u{:04x}", c.code);
    } else {
      out += text.substr(i, c.bytes);
    }
    i += c.bytes;
  }
  return out;
}

std::string shown_line(std::string_view text) {
  std::string line = shown(text);
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return line;
}

void write_output(std::string_view text) {
  if (caught != nullptr) {
    *caught += shown(text);
  } else {
    write(shown(text));
  }
}

caught_output::caught_output() : before_(caught) {
  caught = &text_;
}

caught_output::~caught_output() {
  caught = before_;
}

void write_error(std::string_view text) {
  flush();
  const std::string clean = shown(text);
  std::fwrite(clean.data(), 1, clean.size(), stderr);
  std::fflush(stderr);
}

std::ostream& error_stream() {
  static error_buffer buffer;
  static std::ostream stream(&buffer);
  stream.setf(std::ios::unitbuf);
  return stream;
}

void draw_output(std::string_view text) {
  write(text);
  flush();
}

void check_output() {
  flush();
  if (std::ferror(stdout) != 0 && failure == 0) failure = EIO;
  if (failure == 0) return;
  throw environment_error(std::string("standard output: ") + std::strerror(failure) +
                          "; what was printed is not complete");
}

}  // namespace unmask
