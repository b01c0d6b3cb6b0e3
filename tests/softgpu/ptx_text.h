// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// PTX as text: words, operands and declarations.
#pragma once

#include <cctype>
#include <string>
#include <vector>

#include "tests/softgpu/ptx.h"

namespace unmask::softgpu {

bool is_word(char c);

// Reads a part of a module; comments are nothing, lines are counted.
class scanner {
 public:
  scanner(const std::string& text, std::size_t begin, std::size_t end, int line)
      : text_(text), at_(begin), end_(end), line_(line) {}
  bool done() {
    skip();
    return at_ >= end_;
  }
  int line() const { return line_; }
  std::size_t at() const { return at_; }
  char peek() {
    skip();
    return at_ < end_ ? text_[at_] : '\0';
  }
  char raw(std::size_t ahead = 0) const { return at_ + ahead < end_ ? text_[at_ + ahead] : '\0'; }
  char take() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  std::string word() {
    skip();
    std::string w;
    while (at_ < end_ && is_word(text_[at_])) w += text_[at_++];
    return w;
  }
  std::string until(char stop) {
    std::string s;
    while (at_ < end_ && text_[at_] != stop) {
      if (text_[at_] == '/' && at_ + 1 < end_ && text_[at_ + 1] == '/') {
        while (at_ < end_ && text_[at_] != '\n') ++at_;
        continue;
      }
      s += take();
    }
    if (at_ < end_) take();
    return s;
  }
  std::string rest_of_line() {
    std::string s;
    while (at_ < end_ && text_[at_] != '\n') s += text_[at_++];
    return s;
  }
  void skip() {
    while (at_ < end_) {
      if (text_[at_] == '/' && at_ + 1 < end_ && text_[at_ + 1] == '/') {
        while (at_ < end_ && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        take();
      } else {
        return;
      }
    }
  }

 private:
  const std::string& text_;
  std::size_t at_, end_;
  int line_;
};

std::string trimmed(const std::string& text);
// Parts between signs `by` that stand in no bracket.
std::vector<std::string> split_top(const std::string& text, char by);
int type_bytes(const std::string& type);  // of ".u32" and the like; 0: predicate
bool number(const std::string& text, ptx_operand* out);
ptx_operand operand_of(const std::string& text);
// ".align 8 .b8 name[16]", ".u64 name = {1, 2}": what follows the state space.
ptx_variable variable_of(const std::string& declaration);

}  // namespace unmask::softgpu
