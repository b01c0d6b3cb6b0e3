// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/latex_parser.h"

#include <set>
#include <utility>

#include "harness/base/python_text.h"

namespace unmask::scorers {
namespace {

using kind = latex_token::kind;

formula_ptr checked_quotient(const formula_ptr& a, const formula_ptr& b) {
  const auto value = exact_value(*b);
  return value && *value == 0 ? make_infinity() : make_quotient(a, b);
}

bool has_symbols(const formula& f) {
  return scorers::contains(f, formula::kind::symbol);
}

bool is_number(const formula& f) {
  return f.type == formula::kind::number && !f.decimal;
}

// A number that ends in a dot. `level`: brackets around it; `operand`: an operator before it was taken.
struct open_decimal : latex_mismatch {
  int level;
  bool operand;
};

// Recursive descent over the published grammar; a method for each of its rules.
class parser {
 public:
  parser(std::string_view text, latex_dialect dialect)
      : tokens_(text), verify_(dialect == latex_dialect::verify) {}

  // One formula and nothing behind it.
  formula_ptr whole() {
    formula_ptr all = expression();
    if (next_is(".") || next_is("!")) throw latex_mismatch{};
    if (peek().type != kind::end) throw latex_unsupported{};
    return all;
  }

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
    if (!taken(sign)) throw latex_mismatch{};
  }
  // sympy's parser looks ahead before it takes an operator or a further factor: where what would
  // follow does not parse, it stops in front of it and ignores the rest. Null then. But it has taken an
  // operator as soon as an operand is complete, and "1+3." with its dot is refused then, where "x 3." is x.
  template <class Rule>
  formula_ptr attempt(bool operation, Rule rule) {
    if (verify_) return rule();
    const std::size_t before = tokens_.position();
    const int bars = bars_;
    if (++attempts_ > most_attempts) throw latex_unsupported{};
    try {
      return rule();
    } catch (const open_decimal& number) {
      if (number.level == level_ && (operation || number.operand)) {
        throw open_decimal{{}, level_, true};
      }
    } catch (const latex_mismatch&) {
    }
    tokens_.go_back(before);
    bars_ = bars;
    return nullptr;
  }

  struct nesting {
    explicit nesting(int& depth) : depth_(depth) {
      if (++depth_ > 200) throw latex_unsupported{};
    }
    ~nesting() { --depth_; }
    nesting& operator=(nesting&&) = delete;
    int& depth_;
  };

  formula_ptr expression() {
    const nesting guard(depth_), inside(level_);
    formula_ptr sum = product(false);
    while (next_is("+") || next_is("-")) {
      const bool minus = next_is("-");
      const formula_ptr next = attempt(true, [&] {
        take();
        return product(false);
      });
      if (!next) break;
      sum = make_sum(sum, minus ? make_negative(next) : next);
    }
    return sum;
  }

  // mp and, without functions in the second place of a product, mp_nofunc.
  formula_ptr product(bool bare) {
    formula_ptr all = unary(bare);
    for (;;) {
      const latex_token t = peek();
      const bool times = t.is("*") || t.is_keyword("times") || t.is_keyword("cdot");
      const bool by = t.is("/") || t.is(":") || t.is_keyword("div");
      if (!times && !by) return all;
      const formula_ptr next = attempt(true, [&] {
        take();
        return unary(bare);
      });
      if (!next) return all;
      all = times ? make_product(all, next) : checked_quotient(all, next);
    }
  }

  formula_ptr unary(bool bare) {
    const nesting guard(depth_);
    if (taken("+")) return unary(bare);
    if (taken("-")) return make_negative(unary(bare));
    const bool number_first = peek().type == kind::digit;
    std::vector<formula_ptr> parts = {postfix(true)};
    while (begins_factor(!bare)) {
      const bool mixed = verify_ && number_first && parts.size() == 1 &&
                         peek().type == kind::keyword && peek().text.ends_with("frac");
      if (verify_ && peek().type == kind::digit) throw latex_unsupported{};  // "1 2"
      const bool function = peek().type == kind::function;
      const formula_ptr next = attempt(function, [&] { return postfix(!bare); });
      if (!next) break;
      parts.push_back(next);
      if (mixed && is_number(*parts[0]) && exact_value(*parts[1])) {
        parts = {make_sum(parts[0], parts[1])};
      }
    }
    return multiplied(parts, verify_);
  }

  // Neighbours multiply; an x between two numbers is a multiplication sign.
  static formula_ptr multiplied(const std::vector<formula_ptr>& parts, bool for_verify) {
    formula_ptr all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool cross = i > 0 && !for_verify && i + 1 < parts.size() &&
                         parts[i]->type == formula::kind::symbol && parts[i]->name == "x" &&
                         !has_symbols(*parts[i - 1]) && !has_symbols(*parts[i + 1]);
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
    while (next_is("^")) {
      const formula_ptr exponent = attempt(true, [&] {
        take();
        return next_is("{") ? group("}") : atom();
      });
      if (!exponent) break;
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
      if (!peek().is_keyword(close)) throw latex_mismatch{};
      take();
      return make_function(t.text == "lfloor" ? "floor" : "ceiling", {inner});
    }
    if (with_functions && t.type == kind::function) return named_function();
    if (with_functions && t.is_keyword("sqrt")) return root();
    if (with_functions && t.is_keyword("overline")) {
      take();
      if (!next_is("{")) throw latex_mismatch{};
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
    if (verify_) return verified_name(first, below + quotes, with_functions);
    if (with_functions && next_is("(")) {
      if (auto f = attempt(false, [&] { return unknown_function(text + below + quotes); }))
        return f;
    }
    if (first.type == kind::command) {
      if (text == "infty") return make_infinity();
      return make_symbol("\\" + text + below);
    }
    return make_symbol(text + below + quotes);
  }

  // "(x)", "(2, y)": what makes a name before it a function.
  bool atoms_in_parentheses() {
    for (std::size_t at = 1;; ++at) {
      if (peek(at).type == kind::digit) {
        while (peek(at + 1).type == kind::digit) ++at;
      } else if (peek(at).type != kind::letter) {
        return false;
      }
      ++at;
      if (peek(at).is(")")) return true;
      if (!peek(at).is(",")) return false;
    }
  }

  formula_ptr verified_name(const latex_token& first, const std::string& more, bool functions) {
    const std::string& text = first.text;
    if (functions && next_is("(") && atoms_in_parentheses()) {
      return unknown_function(text + more);
    }
    if (first.type == kind::command) {
      static const std::set<std::string, std::less<>> greek = {
          "alpha", "beta",  "gamma", "delta", "epsilon", "theta", "lambda",
          "mu",    "nu",    "rho",   "sigma", "tau",     "phi",   "varphi",
          "psi",   "omega", "Gamma", "Delta", "Theta",   "Omega", "infty"};
      if (text == "pi" && more.empty()) return make_constant("pi");
      if (!greek.contains(text)) throw latex_unsupported{};
    }
    if (text == "e" && more.empty()) return make_constant("e");
    return make_symbol("~" + text + more);  // a real symbol
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
    std::string digits = next_is(".") ? "0" : take().text;
    const std::size_t first = tokens_.position();
    while (peek().type == kind::digit) digits += take().text;
    std::size_t last_group = 0;
    while (!verify_ && next_is(",") && peek(1).type == kind::digit && peek(2).type == kind::digit &&
           peek(3).type == kind::digit) {
      last_group = tokens_.position();
      take();
      for (int i = 0; i < 3; ++i) digits += take().text;
    }
    if (!verify_ && next_is(".") && peek(1).type != kind::digit) {
      // No number: sympy reads "1,000." as 1 and "12." as 1 before a number "2." that is none.
      // Behind the name of a function it refuses "12." as well.
      const bool argument = argument_level_ == level_;
      if (tokens_.position() == first || (argument && last_group == 0)) {
        throw open_decimal{{}, level_, argument};
      }
      tokens_.go_back(last_group > 0 ? last_group : first);
      digits.resize(last_group > 0 ? digits.size() - 3 : 1);
    } else if (taken(".")) {
      if (peek().type != kind::digit) throw latex_mismatch{};
      digits += ".";
      while (peek().type == kind::digit) digits += take().text;
    }
    // sympy hands the text to Python, where 042 is no number (00 and 04.2 are).
    const bool zeros = digits.find_first_not_of('0') == std::string::npos;
    if (!verify_ && digits[0] == '0' && digits.size() > 1 &&
        digits.find('.') == std::string::npos && !zeros) {
      throw latex_refused{};
    }
    if (digits.size() > 1000) throw latex_unsupported{};
    if (verify_ && next_is("_")) subscript();  // the base of a number is dropped
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
        if (verify_ && t.text == "." && peek(1).type == kind::digit) return number();
        if (t.text == "\\left|") throw latex_mismatch{};  // only a ket begins so; none ends
        break;
      default:
        break;
    }
    throw latex_mismatch{};
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
    if (!next_is("{")) throw latex_mismatch{};
    return group("}");
  }

  formula_ptr fraction_part() {
    if (!verify_ && peek().type == kind::digit) return make_decimal(take().text);
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

  // A number below or above a function leaves its last digit to the argument when nothing else can
  // be one: \log_28.
  formula_ptr script() {
    take();
    if (next_is("{")) return group("}");
    std::size_t digits = 0;
    while (peek(digits).type == kind::digit) ++digits;
    if (digits < 2) return atom();
    const std::size_t before = tokens_.position();
    tokens_.go_back(before + digits);
    const bool argument = begins_factor(true);
    tokens_.go_back(before);
    if (argument) return atom();
    std::string text;
    for (std::size_t i = 0; i + 1 < digits; ++i) text += take().text;
    return make_decimal(text);
  }

  formula_ptr function_argument() {
    if (verify_ && !next_is("(")) return next_is("{") ? group("}") : unary(true);
    if (!next_is("(")) {
      const int before = std::exchange(argument_level_, level_);
      formula_ptr argument = product(true);
      argument_level_ = before;
      return argument;
    }
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
      if (!base && (text == "lg" || (verify_ && text == "log"))) base = make_number(10);
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
  bool verify_;  // the dialect
  static constexpr int most_attempts = 5000;
  int attempts_ = 0;
  int bars_ = 0;  // absolute values that are open
  int depth_ = 0;
  int argument_level_ = -1;  // level of the argument without brackets that is read
  int level_ = 0;            // expressions that are open: one and one for each bracket
};

}  // namespace

sympy_latex parse_sympy_latex(std::string_view text) {
  return parser(py::strip(text), latex_dialect::sympy).relation();
}

formula_ptr parse_verify_latex(std::string_view text) {
  return parser(py::strip(text), latex_dialect::verify).whole();
}

}  // namespace unmask::scorers
