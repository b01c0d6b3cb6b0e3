// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/watch.h"

#include <algorithm>
#include <array>
#include <thread>

#include "harness/base/display.h"
#include "harness/base/output.h"
#include "harness/base/text.h"

namespace unmask {
namespace {

constexpr const char* masked = "\xC2\xB7";         // middle dot
constexpr const char* end_sign = "\xE2\x96\xAA";   // small square
constexpr const char* line_sign = "\xE2\x8F\x8E";  // return sign

struct confidence_colour {
  float least;
  int colour;  // of the 256-colour cube; readable on dark and light backgrounds
  const char* words;
};
constexpr confidence_colour colours[] = {{0.95F, 34, "from 0.95"},
                                         {0.8F, 37, "from 0.8"},
                                         {0.5F, 178, "from 0.5"},
                                         {0.0F, 167, "below 0.5"}};

int colour_of(float confidence) {
  for (const confidence_colour& c : colours) {
    if (confidence >= c.least) return c.colour;
  }
  return std::end(colours)[-1].colour;
}

std::string painted(const watched_cell& cell, bool color) {
  if (!color || !cell.decided) return cell.text;
  return fmt::format("\x1b[{}38;5;{}m{}\x1b[0m", cell.now ? "4;" : "", colour_of(cell.confidence),
                     cell.text);
}

std::string legend(int columns, bool color) {
  std::string plain = fmt::format("{} masked  {} end", masked, end_sign);
  if (!color) return cut_to_width(plain, columns);
  std::string text = plain;
  int used = display_width(plain);
  for (const confidence_colour& c : colours) {
    const int width = 2 + display_width(c.words);
    if (used + width > columns) break;
    text += fmt::format("  \x1b[38;5;{}m{}\x1b[0m", c.colour, c.words);
    used += width;
  }
  return used > columns ? cut_to_width(plain, columns) : text;
}

}  // namespace

std::vector<std::string> screen_of(const std::vector<watched_cell>& cells,
                                   const std::string& status, terminal_size size, bool color) {
  std::vector<std::string> canvas = {""};
  int column = 0;
  std::size_t shown_line = 0;
  bool found = false;
  for (const watched_cell& cell : cells) {
    const watched_cell cut = {cut_to_width(cell.text, size.columns), cell.decided, cell.now,
                              cell.confidence};
    const int width = display_width(cut.text);
    if (column + width > size.columns) {
      canvas.emplace_back();
      column = 0;
    }
    column += width;
    canvas.back() += painted(cut, color);
    if (cell.now && !found) {
      shown_line = canvas.size() - 1;
      found = true;
    }
  }
  // The last line of a terminal stays free, so that nothing scrolls.
  const auto room = static_cast<std::size_t>(std::max(1, size.rows - 3));
  const std::size_t most = canvas.size() > room ? canvas.size() - room : 0;
  const std::size_t first = std::min(most, shown_line > room / 2 ? shown_line - room / 2 : 0);
  std::string head = status;
  if (most > 0) {
    head += fmt::format("  lines {} to {} of {}", first + 1, first + room, canvas.size());
  }
  std::vector<std::string> lines = {cut_to_width(head, size.columns)};
  for (std::size_t i = first; i < std::min(canvas.size(), first + room); ++i) {
    lines.push_back(canvas[i]);
  }
  lines.push_back(legend(size.columns, color));
  return lines;
}

watch_canvas::watch_canvas(const tokenizer& tokens, watch_settings settings)
    : tokens_(tokens), settings_(std::move(settings)) {
  if (settings_.terminal) screen_.emplace();
}

void watch_canvas::on_step(const step_view& step) {
  const sequence& q = step.state.at(0);
  cells_.resize(static_cast<std::size_t>(q.length - q.prompt_length), {masked});
  ++step_;
  for (watched_cell& c : cells_) c.now = false;
  for (const decision_event& d : step.decisions) {
    const std::int32_t at = d.position - q.prompt_length;
    if (d.sequence != 0 || at < 0 || at >= static_cast<std::int32_t>(cells_.size())) continue;
    if (d.what == decision_reopen) {
      cells_[static_cast<std::size_t>(at)] = {masked, false, true};
      continue;
    }
    const std::array<std::int32_t, 1> token = {d.token};
    const bool ends = std::ranges::find(settings_.end_ids, token[0]) != settings_.end_ids.end();
    const std::string text =
        ends ? end_sign : replace_all(shown(tokens_.decode(token, false)), "\n", line_sign);
    cells_[static_cast<std::size_t>(at)] = {shown_line(text), true, true, d.confidence};
  }
  const auto decided = std::ranges::count_if(cells_, &watched_cell::decided);
  const std::string status =
      fmt::format("step {:3}  {:7}  rows {:4}  decided {}/{}", step_, name_of(step.plan.of[0].what),
                  step.entered.rows, decided, cells_.size());
  if (!screen_) {
    std::string line = status + "\n";
    for (const watched_cell& c : cells_) line += painted(c, settings_.color);
    draw_output(line + "\n");
    return;
  }
  std::string screen = "\x1b[H";
  for (const std::string& line : screen_of(cells_, status, size_of_terminal(), settings_.color)) {
    screen += line + "\x1b[K\r\n";
  }
  draw_output(screen + "\x1b[J");
  std::this_thread::sleep_for(settings_.pause);
}

}  // namespace unmask
