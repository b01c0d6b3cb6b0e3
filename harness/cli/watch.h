// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The canvas in the terminal, step by step: masks as dots, tokens coloured by the confidence they
// were decided with, those of this step underlined.
#pragma once

#include <chrono>
#include <iosfwd>
#include <vector>

#include "harness/decode/step_loop.h"
#include "harness/model/tokenizer.h"

namespace unmask {

class watch_canvas final : public step_observer {
 public:
  // `terminal`: redraw in place with colours; otherwise one plain line per step.
  watch_canvas(const tokenizer& tokens, std::ostream& out, bool terminal,
               std::chrono::milliseconds pause);
  void on_step(const step_view& step) override;

 private:
  struct cell {
    std::int32_t token = -1;  // -1: masked
    float confidence = 0;
    int step = -1;
  };
  void draw(const step_view& step);
  const tokenizer& tokens_;
  std::ostream& out_;
  bool terminal_;
  std::chrono::milliseconds pause_;
  std::vector<cell> cells_;
  int step_ = 0;
  int drawn_lines_ = 0;
};

}  // namespace unmask
