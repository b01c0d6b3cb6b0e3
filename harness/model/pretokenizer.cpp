// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/pretokenizer.h"

namespace unmask {

void pretokenizer::add_split(const std::string& pattern, behavior kind, bool invert) {
  steps_.push_back({{regex(pattern)}, kind, invert});
}

void pretokenizer::add_prefix_space() {
  steps_.push_back({});
}

std::vector<std::string> pretokenizer::split(std::string_view text) const {
  std::vector<std::string> pieces;
  if (text.empty()) return pieces;
  pieces.emplace_back(text);
  for (const step& s : steps_) {
    std::vector<std::string> next;
    for (std::string& piece : pieces) {
      if (s.pattern.empty()) {
        if (!piece.starts_with(' ')) piece.insert(piece.begin(), ' ');
        next.push_back(std::move(piece));
        continue;
      }
      const auto emit = [&](std::size_t begin, std::size_t end, bool matched) {
        if (begin == end) return;
        if (s.kind == behavior::removed && matched != s.invert) return;
        next.push_back(piece.substr(begin, end - begin));
      };
      std::size_t done = 0;
      s.pattern[0].for_each_match(piece, [&](std::size_t begin, std::size_t end) {
        emit(done, begin, false);
        emit(begin, end, true);
        done = end;
      });
      emit(done, piece.size(), false);
    }
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace unmask
