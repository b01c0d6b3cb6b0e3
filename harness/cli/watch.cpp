// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/watch.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <ostream>
#include <thread>

namespace unmask {
namespace {

// Low to high confidence, from the 256-colour cube; readable on dark and light backgrounds.
int colour_of(float confidence) {
  if (confidence >= 0.95F) return 34;  // green
  if (confidence >= 0.8F) return 37;   // teal
  if (confidence >= 0.5F) return 178;  // amber
  return 167;                          // red
}

// Columns a text takes: code points, which is right for the Latin text of the embedded models.
int width_of(const std::string& text) {
  int n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

int terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

std::string printable(std::string text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\n') {
      shown += "\xE2\x8F\x8E";  // return symbol
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace

watch_canvas::watch_canvas(const tokenizer& tokens, std::ostream& out, bool terminal,
                           std::chrono::milliseconds pause)
    : tokens_(tokens), out_(out), terminal_(terminal), pause_(pause) {}

void watch_canvas::on_step(const step_view& step) {
  const sequence& q = step.state.at(0);
  cells_.resize(static_cast<std::size_t>(q.length - q.prompt_length));
  ++step_;
  for (std::int32_t c = 0; c < step.candidates.count; ++c) {
    if (step.candidates.accept.as<std::uint8_t>()[c] == 0) continue;
    const auto at = step.candidates.position.as<std::int32_t>()[c] - q.prompt_length;
    if (at < 0 || at >= static_cast<std::int32_t>(cells_.size())) continue;
    cells_[static_cast<std::size_t>(at)] = {step.candidates.token.as<std::int32_t>()[c],
                                            step.candidates.probability.as<float>()[c], step_};
  }
  draw(step);
  if (terminal_) std::this_thread::sleep_for(pause_);
}

void watch_canvas::draw(const step_view& step) {
  std::string text;
  if (terminal_ && drawn_lines_ > 0) text += fmt::format("\x1b[{}A\x1b[J", drawn_lines_);
  int decided = 0;
  for (const cell& c : cells_) decided += c.token >= 0;
  text += fmt::format("step {:3}  {:7}  rows {:4}  decided {}/{}\n", step_,
                      name_of(step.plan.of[0].what), step.entered.rows, decided, cells_.size());
  const int columns = terminal_columns();
  int column = 0, lines = 1;
  for (const cell& c : cells_) {
    std::string piece = "\xC2\xB7";  // middle dot: masked
    if (c.token >= 0) {
      const std::array<std::int32_t, 1> one = {c.token};
      piece = printable(tokens_.decode(one, false));
    }
    const int width = width_of(piece);
    if (terminal_ && column + width > columns) {
      text += '\n';
      column = 0;
      ++lines;
    }
    column += width;
    if (!terminal_ || c.token < 0) {
      text += piece;
    } else {
      text += fmt::format("\x1b[{}38;5;{}m{}\x1b[0m", c.step == step_ ? "4;" : "",
                          colour_of(c.confidence), piece);
    }
  }
  text += '\n';
  out_ << text << std::flush;
  drawn_lines_ = lines + 1;
}

}  // namespace unmask
