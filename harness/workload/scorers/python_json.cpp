// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What Python's json.loads accepts: RFC 8259, and also NaN, Infinity and lone surrogates in
// escapes, numbers of any size and names given twice.
#include <string_view>

#include "harness/base/python_text.h"
#include "harness/workload/scorers/ifeval.h"

namespace unmask::scorers {
namespace {

class checker {
 public:
  explicit checker(std::string_view text) : left_(text) {}
  bool whole() {
    blanks();
    if (!value(0)) return false;
    blanks();
    return left_.empty();
  }

 private:
  static constexpr int deepest = 900;  // Python's recursion ends near here

  bool take(std::string_view token) {
    if (!left_.starts_with(token)) return false;
    left_.remove_prefix(token.size());
    return true;
  }
  void blanks() { left_.remove_prefix(std::min(left_.find_first_not_of(" \t\n\r"), left_.size())); }
  std::size_t digits() {
    const std::size_t n = std::min(left_.find_first_not_of("0123456789"), left_.size());
    left_.remove_prefix(n);
    return n;
  }

  bool value(int depth) {
    if (depth > deepest || left_.empty()) return false;
    if (take("{")) return members(depth);
    if (take("[")) return items(depth);
    if (take("\"")) return string();
    for (const char* name : {"null", "true", "false", "NaN", "Infinity", "-Infinity"}) {
      if (take(name)) return true;
    }
    return number();
  }

  bool members(int depth) {
    blanks();
    if (take("}")) return true;
    for (;;) {
      if (!take("\"") || !string()) return false;
      blanks();
      if (!take(":")) return false;
      blanks();
      if (!value(depth + 1)) return false;
      blanks();
      if (take("}")) return true;
      if (!take(",")) return false;
      blanks();
    }
  }

  bool items(int depth) {
    blanks();
    if (take("]")) return true;
    for (;;) {
      if (!value(depth + 1)) return false;
      blanks();
      if (take("]")) return true;
      if (!take(",")) return false;
      blanks();
    }
  }

  bool string() {
    while (!left_.empty()) {
      const char c = left_[0];
      left_.remove_prefix(1);
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\' && !escape()) return false;
    }
    return false;
  }

  bool escape() {
    if (left_.empty()) return false;
    const char c = left_[0];
    left_.remove_prefix(1);
    if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    const std::size_t hex =
        std::min(left_.find_first_not_of("0123456789abcdefABCDEF"), left_.size());
    if (hex < 4) return false;
    left_.remove_prefix(4);
    return true;
  }

  bool number() {
    take("-");
    if (!take("0") && digits() == 0) return false;
    // A point or an e without digits behind it ends the number; what follows is then no JSON.
    const std::string_view whole = left_;
    if (take(".") && digits() == 0) left_ = whole;
    const std::string_view mantissa = left_;
    if (take("e") || take("E")) {
      if (!take("+")) take("-");
      if (digits() == 0) left_ = mantissa;
    }
    return true;
  }

  std::string_view left_;
};

}  // namespace

bool is_python_json(std::string_view text) {
  return checker(text).whole();
}

}  // namespace unmask::scorers
