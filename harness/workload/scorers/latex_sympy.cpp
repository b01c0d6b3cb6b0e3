// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/latex_sympy.h"

#include <utility>

#include "harness/base/text.h"

namespace unmask::scorers {
namespace {

using kind = latex_token::kind;

formula_ptr checked_quotient(const formula_ptr& a, const formula_ptr& b) {
  const auto value = exact_value(*b);
  return value && *value == 0 ? make_infinity() : make_quotient(a, b);
}

bool has_symbols(const formula& f) {
  if (f.type == formula::kind::symbol) return true;
  for (const formula_ptr& part : f.parts) {
    if (has_symbols(*part)) return true;
  }
  return false;
}

// Recursive descent over the published grammar; a method for each of its rules.
class parser {
 public:
  explicit parser(std::string_view text) : tokens_(text) {}

  sympy_latex relation() {
    sympy_latex result{expression()};
    while (peek().type == kind::relation) {
      take();
      expression();
      result = {nullptr, true};
    }
    return result;
  }

 private:
  const latex_token& peek(std::size_t ahead = 0) { return tokens_.peek(ahead); }
  latex_token take() { return tokens_.take(); }
  bool next_is(std::string_view sign) { return peek().is(sign); }
  bool taken(std::string_view sign) {
    if (!next_is(sign)) return false;
    take();
    return true;
  }
  void expect(std::string_view sign) {
    if (!taken(sign)) throw latex_refused{};
  }
  struct nesting {
    explicit nesting(int& depth) : depth_(depth) {
      if (++depth_ > 200) throw latex_unsupported{};
    }
    ~nesting() { --depth_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;
    int& depth_;
  };

  formula_ptr expression() {
    const nesting guard(depth_);
    formula_ptr sum = product(false);
    for (;;) {
      if (taken("+")) {
        sum = make_sum(sum, product(false));
      } else if (taken("-")) {
        sum = make_sum(sum, make_negative(product(false)));
      } else {
        return sum;
      }
    }
  }

  // mp and, without functions in the second place of a product, mp_nofunc.
  formula_ptr product(bool bare) {
    formula_ptr all = unary(bare);
    for (;;) {
      const latex_token& t = peek();
      if (t.is("*") || t.is_keyword("times") || t.is_keyword("cdot")) {
        take();
        all = make_product(all, unary(bare));
      } else if (t.is("/") || t.is(":") || t.is_keyword("div")) {
        take();
        all = checked_quotient(all, unary(bare));
      } else {
        return all;
      }
    }
  }

  formula_ptr unary(bool bare) {
    const nesting guard(depth_);
    if (taken("+")) return unary(bare);
    if (taken("-")) return make_negative(unary(bare));
    std::vector<formula_ptr> parts = {postfix(true)};
    while (begins_factor(!bare)) parts.push_back(postfix(!bare));
    return multiplied(parts);
  }

  // Neighbours multiply; an x between two numbers is a multiplication sign.
  static formula_ptr multiplied(const std::vector<formula_ptr>& parts) {
    formula_ptr all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool cross = i > 0 && i + 1 < parts.size() && parts[i]->type == formula::kind::symbol &&
                         parts[i]->name == "x" && !has_symbols(*parts[i - 1]) &&
                         !has_symbols(*parts[i + 1]);
      if (!cross) all = all ? make_product(all, parts[i]) : parts[i];
    }
    return all;
  }

  bool begins_factor(bool with_functions) {
    const latex_token& t = peek();
    switch (t.type) {
      case kind::letter:
      case kind::digit:
      case kind::command:
      case kind::differential:
        return true;
      case kind::function:
        return with_functions;
      case kind::keyword:
        if (t.text == "int" || t.text == "sum" || t.text == "prod" || t.text == "lim" ||
            t.text == "sqrt" || t.text == "overline") {
          return with_functions;
        }
        return t.text.ends_with("frac") || t.text.ends_with("binom") || t.text == "lfloor" ||
               t.text == "lceil" || t.text == "mathit" || t.text == "langle";
      case kind::sign:
        if (t.text == "|") return bars_ == 0;
        return t.text == "(" || t.text == "[" || t.text == "{" || t.text == "\\{" ||
               t.text == "\\left|";
      default:
        return false;
    }
  }

  formula_ptr postfix(bool with_functions) {
    formula_ptr value = power(with_functions);
    for (;;) {
      if (taken("!")) {
        value = make_function("factorial", {value});
      } else if (next_is("|") && (peek(1).is("^") || peek(1).is("_"))) {
        throw latex_unsupported{};  // evaluation at a point
      } else {
        return value;
      }
    }
  }

  formula_ptr power(bool with_functions) {
    formula_ptr base = component(with_functions);
    while (taken("^")) {
      formula_ptr exponent;
      if (taken("{")) {
        exponent = expression();
        expect("}");
      } else {
        exponent = atom();
      }
      base = make_power(base, exponent);
      if (next_is("_")) subscript();
    }
    return base;
  }

  formula_ptr group(std::string_view close) {
    take();
    const int outer = std::exchange(bars_, 0);
    formula_ptr inner = expression();
    expect(close);
    bars_ = outer;
    return inner;
  }

  formula_ptr component(bool with_functions) {
    const latex_token t = peek();
    if (t.is("(")) return group(")");
    if (t.is("[")) return group("]");
    if (t.is("{")) return group("}");
    if (t.is("\\{")) return group("\\}");
    if (t.is("|")) {
      take();
      ++bars_;
      formula_ptr inner = expression();
      expect("|");
      --bars_;
      return make_function("abs", {inner});
    }
    if (t.is_keyword("lfloor") || t.is_keyword("lceil")) {
      take();
      formula_ptr inner = expression();
      const std::string close = t.text == "lfloor" ? "rfloor" : "rceil";
      if (!peek().is_keyword(close)) throw latex_refused{};
      take();
      return make_function(t.text == "lfloor" ? "floor" : "ceiling", {inner});
    }
    if (with_functions && t.type == kind::function) return named_function();
    if (with_functions && t.is_keyword("sqrt")) return root();
    if (with_functions && t.is_keyword("overline")) {
      take();
      if (!next_is("{")) throw latex_refused{};
      return make_function("conjugate", {group("}")});
    }
    if (with_functions && t.type == kind::keyword &&
        (t.text == "int" || t.text == "sum" || t.text == "prod" || t.text == "lim")) {
      throw latex_unsupported{};
    }
    if (t.type == kind::letter || t.type == kind::command) return name(with_functions);
    return atom();
  }

  // A subscript as it stands in a symbol's name.
  std::string subscript() {
    expect("_");
    formula_ptr inner;
    if (taken("{")) {
      inner = expression();
      expect("}");
    } else {
      inner = atom();
    }
    const auto text = reduced_text(*inner);
    if (!text) throw latex_unsupported{};
    return "_{" + *text + "}";
  }

  // A symbol or, before a parenthesis, an unknown function.
  formula_ptr name(bool with_functions) {
    const latex_token first = take();
    std::string text = first.text;
    std::string below, quotes;
    if (next_is("_")) below = subscript();
    if (peek().type == kind::quotes) quotes = take().text;
    if (below.empty() && next_is("_")) below = subscript();
    if (with_functions && next_is("(")) return unknown_function(text + below + quotes);
    if (first.type == kind::command) {
      if (text == "infty") return make_infinity();
      return make_symbol("\\" + text + below);
    }
    return make_symbol(text + below + quotes);
  }

  formula_ptr unknown_function(const std::string& text) {
    take();
    const int outer = std::exchange(bars_, 0);
    std::vector<formula_ptr> parts = {expression()};
    while (taken(",")) parts.push_back(expression());
    expect(")");
    bars_ = outer;
    return make_function("$" + text, parts);
  }

  formula_ptr number() {
    std::string digits = take().text;
    while (peek().type == kind::digit) digits += take().text;
    while (next_is(",") && peek(1).type == kind::digit && peek(2).type == kind::digit &&
           peek(3).type == kind::digit) {
      take();
      for (int i = 0; i < 3; ++i) digits += take().text;
    }
    if (taken(".")) {
      if (peek().type != kind::digit) throw latex_refused{};
      digits += ".";
      while (peek().type == kind::digit) digits += take().text;
    }
    // sympy hands the text to Python, where 042 is no number (00 and 04.2 are).
    const bool zeros = digits.find_first_not_of('0') == std::string::npos;
    if (digits[0] == '0' && digits.size() > 1 && digits.find('.') == std::string::npos && !zeros) {
      throw latex_refused{};
    }
    if (digits.size() > 1000) throw latex_unsupported{};
    return make_decimal(digits);
  }

  formula_ptr atom() {
    const latex_token t = peek();
    switch (t.type) {
      case kind::letter:
      case kind::command:
        return name(false);
      case kind::digit:
        return number();
      case kind::differential:
        take();
        return make_symbol("d" + t.text);
      case kind::keyword:
        if (t.text.ends_with("frac")) return fraction();
        if (t.text.ends_with("binom")) return binomial();
        if (t.text == "mathit") return italic();
        if (t.text == "langle") throw latex_unsupported{};
        break;
      case kind::sign:
        if (t.text == "\\left|") throw latex_refused{};  // only a ket begins so; none ends
        break;
      default:
        break;
    }
    throw latex_refused{};
  }

  formula_ptr italic() {
    take();
    expect("{");
    std::string text;
    while (peek().type == kind::letter) text += take().text;
    expect("}");
    return make_symbol(text);
  }

  formula_ptr braced() {
    if (!next_is("{")) throw latex_refused{};
    return group("}");
  }

  formula_ptr fraction_part() {
    if (peek().type == kind::digit) return make_decimal(take().text);
    return braced();
  }

  formula_ptr fraction() {
    take();
    const bool derivative = next_is("{") && (peek(1).text == "d" || peek(1).text == "partial" ||
                                             peek(1).type == kind::differential);
    const formula_ptr top = fraction_part();
    const bool by = next_is("{") && (peek(1).type == kind::differential ||
                                     (peek(1).type == kind::command && peek(1).text == "partial"));
    if (derivative && by) throw latex_unsupported{};
    return checked_quotient(top, fraction_part());
  }

  formula_ptr binomial() {
    take();
    formula_ptr n = braced();
    return make_function("binomial", {n, braced()});
  }

  formula_ptr root() {
    take();
    formula_ptr degree = make_number(2);
    if (next_is("[")) degree = group("]");
    return make_power(braced(), checked_quotient(make_number(1), degree));
  }

  formula_ptr script() {
    take();
    if (!next_is("{")) return atom();
    return group("}");
  }

  formula_ptr function_argument() {
    if (!next_is("(")) return product(true);
    take();
    const int outer = std::exchange(bars_, 0);
    formula_ptr inner = expression();
    while (taken(",")) expression();  // the published code drops further arguments
    expect(")");
    bars_ = outer;
    return inner;
  }

  formula_ptr named_function() {
    std::string text = take().text;
    formula_ptr base, exponent;
    for (int i = 0; i < 2; ++i) {
      if (!base && next_is("_")) base = script();
      if (!exponent && next_is("^")) exponent = script();
    }
    const formula_ptr argument = function_argument();
    const bool logarithm = text == "log" || text == "ln" || text == "lg";
    if (text.starts_with("arc")) text = "a" + text.substr(3);
    if (text.starts_with("ar") && text.ends_with("h")) text = "a" + text.substr(2);
    formula_ptr value;
    if (logarithm) {
      value = make_function("log", {argument});
      if (!base && text == "lg") base = make_number(10);
      if (base) value = make_quotient(value, make_function("log", {base}));
    } else if (text == "exp") {
      value = make_power(make_constant("e"), argument);
    }
    const auto power = exponent ? exact_value(*exponent) : std::nullopt;
    const bool inverse = !logarithm && text != "exp" && power && *power == -1 && text[0] != 'a';
    if (inverse) text = "a" + text;
    if (!value) value = make_function(text, {argument});
    return exponent && !inverse ? make_power(value, exponent) : value;
  }

  latex_tokens tokens_;
  int bars_ = 0;  // absolute values that are open
  int depth_ = 0;
};

}  // namespace

sympy_latex parse_sympy_latex(std::string_view text) {
  return parser(py::strip(text)).relation();
}

}  // namespace unmask::scorers
