// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The canvas of one request while it is decoded, step by step.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/terminal.h"
#include "harness/decode/step_loop.h"
#include "harness/model/tokenizer.h"

namespace unmask {

struct watch_settings {
  bool terminal = false;  // redraw one screen; otherwise a plain line per step
  bool color = false;
  std::chrono::milliseconds pause{0};  // between steps on a terminal
  std::vector<std::int32_t> end_ids;   // drawn as a small square
};

// One position: what is drawn of it, and how it was decided.
struct watched_cell {
  std::string text;
  bool decided = false, now = false;  // now: in the step that is shown
  float confidence = 0;
};

// The lines of one screen: a status line, the canvas around the first cell of this step, clipped to
// what the terminal holds, and a legend.
std::vector<std::string> screen_of(const std::vector<watched_cell>& cells,
                                   const std::string& status, terminal_size size, bool color);

// Masks as dots, tokens coloured by the confidence they were decided with, those of this step
// underlined.
class watch_canvas final : public step_observer {
 public:
  watch_canvas(const tokenizer& tokens, watch_settings settings);
  void on_step(const step_view& step) override;
  // Leaves the terminal's other screen: the canvas is done.
  void close() { screen_.reset(); }

 private:
  const tokenizer& tokens_;
  const watch_settings settings_;
  std::optional<alternate_screen> screen_;
  std::vector<watched_cell> cells_;
  int step_ = 0;
};

}  // namespace unmask
