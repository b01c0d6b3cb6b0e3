// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/latex_tokens.h"

#include <algorithm>
#include <set>

namespace unmask::scorers {
namespace {

using kind = latex_token::kind;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::size_t letters_at(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && is_letter(text[n])) ++n;
  return n;
}

const std::set<std::string_view> skipped = {
    "thinspace",   "medspace",      "thickspace", "quad",  "qquad", "negthinspace",
    "negmedspace", "negthickspace", "left",       "right", "vrule", "vcenter",
    "vbox",        "vskip",         "vspace",     "hfil"};
const std::set<std::string_view> functions = {
    "exp",  "log",  "lg",     "ln",     "sin",    "cos",    "tan",    "csc",
    "sec",  "cot",  "arcsin", "arccos", "arctan", "arccsc", "arcsec", "arccot",
    "sinh", "cosh", "tanh",   "arsinh", "arcosh", "artanh"};
const std::set<std::string_view> keywords = {
    "langle",         "rangle", "lim",      "to",     "rightarrow", "Rightarrow", "longrightarrow",
    "Longrightarrow", "int",    "sum",      "prod",   "lfloor",     "rfloor",     "lceil",
    "rceil",          "sqrt",   "overline", "times",  "cdot",       "div",        "frac",
    "dfrac",          "tfrac",  "binom",    "dbinom", "tbinom",     "mathit"};
const std::set<std::string_view> relations = {"neq", "leq", "le",   "leqq",    "leqslant",
                                              "geq", "ge",  "geqq", "geqslant"};

}  // namespace

const latex_token& latex_tokens::peek(std::size_t ahead) {
  while (ready_.size() <= at_ + ahead) ready_.push_back(cut());
  return ready_[at_ + ahead];
}

latex_token latex_tokens::take() {
  latex_token t = peek();
  if (t.type != kind::end) ++at_;
  return t;
}

// White space and commands without meaning.
bool latex_tokens::skip() {
  if (left_.empty()) return false;
  if (is_blank(left_[0])) {
    left_.remove_prefix(1);
    return true;
  }
  if (left_[0] != '\\' || left_.size() < 2) return false;
  const std::string_view name = left_.substr(1, letters_at(left_.substr(1)));
  if (name.empty()) {
    if (std::string_view(",:;!*-./\"(=").find(left_[1]) == std::string_view::npos) return false;
    left_.remove_prefix(2);
    return true;
  }
  const bool bar =
      (name == "left" || name == "right") && left_.substr(1 + name.size()).starts_with('|');
  if (bar || !skipped.contains(name)) return false;
  left_.remove_prefix(1 + name.size());
  return true;
}

latex_token latex_tokens::cut_command() {
  const std::string name(left_.substr(1, letters_at(left_.substr(1))));
  left_.remove_prefix(1 + name.size());
  if (name.empty()) {
    if (left_.empty() || (left_[0] != '{' && left_[0] != '}')) throw latex_refused{};
    const std::string sign = "\\" + std::string(1, left_[0]);
    left_.remove_prefix(1);
    return {kind::sign, sign};
  }
  if (name == "left" || name == "right") {  // only before a bar; see skip()
    left_.remove_prefix(1);
    return {kind::sign, "\\" + name + "|"};
  }
  if (name == "int" && left_.starts_with("\\limits") && letters_at(left_.substr(1)) == 6) {
    left_.remove_prefix(7);
  }
  if (functions.contains(name)) return {kind::function, name};
  if (keywords.contains(name)) return {kind::keyword, name};
  if (relations.contains(name)) return {kind::relation, name};
  return {kind::command, name};
}

latex_token latex_tokens::cut() {
  while (skip()) {
  }
  if (left_.empty()) return {};
  const char c = left_[0];
  if (c == '\\') return cut_command();
  if (c == 'd') {
    std::size_t at = 1;
    while (at < left_.size() && is_blank(left_[at])) ++at;
    std::size_t n = 0;
    if (at < left_.size() && is_letter(left_[at])) n = 1;
    if (at < left_.size() && left_[at] == '\\') {
      n = letters_at(left_.substr(at + 1));
      n += n > 0 ? 1 : 0;
    }
    if (n > 0) {
      const std::string name(left_.substr(at, n));
      left_.remove_prefix(at + n);
      return {kind::differential, name.starts_with('\\') ? name.substr(1) : name};
    }
  }
  if (c == '\'') {
    const std::size_t n = std::min(left_.find_first_not_of('\''), left_.size());
    const std::string text(left_.substr(0, n));
    left_.remove_prefix(n);
    return {kind::quotes, text};
  }
  if (c == '&') {
    std::size_t at = 1;
    while (at < left_.size() && is_blank(left_[at])) ++at;
    if (at >= left_.size() || left_[at] != '=') throw latex_refused{};
    left_.remove_prefix(at);
    return cut();
  }
  left_.remove_prefix(1);
  if (is_letter(c)) return {kind::letter, std::string(1, c)};
  if (c >= '0' && c <= '9') return {kind::digit, std::string(1, c)};
  if (c == '=' || c == '<' || c == '>') return {kind::relation, std::string(1, c)};
  if (std::string_view("+-*/(){}[]|_^:!,.").find(c) == std::string_view::npos) {
    throw latex_refused{};
  }
  return {kind::sign, std::string(1, c)};
}

}  // namespace unmask::scorers
