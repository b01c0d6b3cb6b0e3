// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Tokens of the LaTeX grammar of sympy 1.13 (sympy/parsing/latex/LaTeX.g4), cut when they are asked
// for: what the parser never reaches is never refused.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace unmask::scorers {

// The grammar refuses the text: the answer is wrong, whatever it is compared with.
struct latex_refused {};
// The parser misses a token, where a character that is none would be latex_refused.
struct latex_mismatch : latex_refused {};
// The grammar accepts what our evaluator has no value for.
struct latex_unsupported {};

struct latex_token {
  enum class kind {
    end,
    letter,        // one of a-z, A-Z
    digit,         // one of 0-9
    command,       // \name that is no other token; text without the backslash
    differential,  // d and a letter or command
    function,      // \sin, \log, ...; text without the backslash
    keyword,       // \frac, \sqrt, \lim, ...; text without the backslash
    relation,      // =, <, \le, ...
    quotes,        // one or more '
    sign           // any other character or \{ \} \left| \right|, as written
  };
  kind type = kind::end;
  std::string text = {};

  bool is(std::string_view sign_text) const { return type == kind::sign && text == sign_text; }
  bool is_keyword(std::string_view name) const { return type == kind::keyword && text == name; }
};

class latex_tokens {
 public:
  explicit latex_tokens(std::string_view text) : left_(text) {}
  // The token after `ahead` others. Throws latex_refused at a character that begins none.
  const latex_token& peek(std::size_t ahead = 0);
  latex_token take();
  std::size_t position() const { return at_; }
  void go_back(std::size_t position) { at_ = position; }

 private:
  latex_token cut();
  latex_token cut_command();
  bool skip();
  std::string_view left_;
  std::deque<latex_token> ready_;
  std::size_t at_ = 0;  // the next of them
};

}  // namespace unmask::scorers
