// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/math_verify.h"

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/latex_tokens.h"
#include "harness/workload/scorers/math_object.h"
#include "harness/workload/scorers/math_verify_text.h"

namespace unmask::scorers {
namespace {

using kind = math_object::kind;

decision of(bool same) {
  return same ? decision::kept : decision::broken;
}

bool is_relation(const math_object& o) {
  return o.type == kind::relation || o.type == kind::all_of;
}

const math_object& last_relation(const math_object& o) {
  return o.type == kind::all_of ? o.items.back() : o;
}

bool is_equation(const math_object& o) {
  if (o.type == kind::relation) return o.text == "=";
  return o.type == kind::all_of &&
         std::ranges::all_of(o.items, [](const math_object& r) { return r.text == "="; });
}

// The left side is a symbol or a product of symbols, as the name of what is computed.
bool is_assignment(const math_object& o) {
  if (!is_equation(o)) return false;
  const math_object& left = (o.type == kind::all_of ? o.items.front() : o).items.front();
  if (left.type == kind::word) return true;
  if (left.type != kind::expression) return false;
  const auto only_symbols = [](const formula& f, const auto& self) -> bool {
    if (f.type == formula::kind::symbol) return true;
    const bool joins = f.type == formula::kind::product || f.type == formula::kind::function;
    return joins &&
           std::ranges::all_of(f.parts, [&](const formula_ptr& p) { return self(*p, self); });
  };
  return only_symbols(*left.value, only_symbols);
}

bool is_collection(const math_object& o) {
  return o.type == kind::set || o.type == kind::tuple || o.type == kind::interval ||
         o.type == kind::united;
}

// Rounded to six decimals, ties to even.
boost::multiprecision::cpp_int rounded(const rational& value) {
  const rational scaled = value * 1000000;
  boost::multiprecision::cpp_int whole = numerator(scaled) / denominator(scaled);
  if (scaled < whole) --whole;
  const rational rest = scaled - whole;
  const rational half(1, 2);
  if (rest > half || (rest == half && whole % 2 != 0)) ++whole;
  return whole;
}

bool is_decimal(const formula& f) {
  return f.type == formula::kind::number && f.decimal;
}

bool is_whole(const formula& f, const rational& value) {
  return denominator(value) == 1 && !has_decimal(f);
}

// Symbols side by side as one word, e among them: "yes" is y * e * s.
std::optional<std::string> spelled(const formula& f) {
  if (f.type == formula::kind::symbol) return f.name.substr(f.name.starts_with('~') ? 1 : 0);
  if (f.type == formula::kind::constant && f.name == "e") return "e";
  if (f.type != formula::kind::product) return {};
  std::string all;
  for (const formula_ptr& part : f.parts) {
    const auto piece = spelled(*part);
    if (!piece) return {};
    all += *piece;
  }
  return all;
}

decision same_expression(const formula_ptr& a, const formula_ptr& b) {
  const bool a_infinite = contains(*a, formula::kind::infinity);
  const bool b_infinite = contains(*b, formula::kind::infinity);
  if (a_infinite || b_infinite) {
    return a_infinite && b_infinite ? decision::undecided : decision::broken;
  }
  if (has_decimal_exponent(*a) != has_decimal_exponent(*b)) {
    // x^2.0 is not x^2 there, x^0.5 is the root: only what differs anyway is certain.
    return compare(a, b) == sameness::different ? decision::broken : decision::undecided;
  }
  const auto x = exact_value(*a), y = exact_value(*b);
  if (x && y && (is_decimal(*a) || is_decimal(*b))) {
    // A decimal equals a fraction to six places, but a whole number only exactly.
    if (is_whole(*a, *x) || is_whole(*b, *y)) return of(*x == *y);
    return of(rounded(*x) == rounded(*y));
  }
  switch (compare(a, b)) {
    case sameness::proven:
      return decision::kept;
    case sameness::different:
      return decision::broken;
    case sameness::numeric: {
      const bool symbols =
          contains(*a, formula::kind::symbol) || contains(*b, formula::kind::symbol);
      return symbols ? decision::undecided : decision::kept;
    }
    default:
      return decision::undecided;
  }
}

// A word against what else sympy may print or spell so.
decision same_word(const math_object& word, const math_object& other) {
  if (other.type == kind::word) return of(word.text == other.text);
  if (const auto value = exact_value(*other.value)) return of(value->str() == word.text);
  const auto letters = spelled(*other.value);
  if (!letters) {
    return contains(*other.value, formula::kind::sum) ? decision::broken : decision::undecided;
  }
  if (other.value->type == formula::kind::symbol) return of(*letters == word.text);
  return of(py::lower(*letters) == py::lower(word.text));
}

decision all_of(const std::vector<decision>& parts) {
  if (std::ranges::find(parts, decision::broken) != parts.end()) return decision::broken;
  const bool open = std::ranges::find(parts, decision::undecided) != parts.end();
  return open ? decision::undecided : decision::kept;
}

decision in_order(const std::vector<math_object>& a, const std::vector<math_object>& b) {
  if (a.size() != b.size()) return decision::broken;
  std::vector<decision> parts;
  for (std::size_t i = 0; i < a.size(); ++i) parts.push_back(same_object(a[i], b[i]));
  return all_of(parts);
}

// Members without those equal to an earlier one.
std::vector<math_object> distinct(const std::vector<math_object>& items) {
  std::vector<math_object> all;
  for (const math_object& item : items) {
    const bool known = std::ranges::any_of(
        all, [&](const math_object& other) { return same_object(item, other) == decision::kept; });
    if (!known) all.push_back(item);
  }
  return all;
}

// Sets are sorted by value before they are compared, so any pairing that fits does.
decision in_any_order(const std::vector<math_object>& raw_a,
                      const std::vector<math_object>& raw_b) {
  const auto a = distinct(raw_a), b = distinct(raw_b);
  if (a.size() != b.size()) return decision::broken;
  std::vector<bool> used(b.size(), false);
  decision all = decision::kept;
  for (const math_object& item : a) {
    decision best = decision::broken;
    std::size_t at = b.size();
    for (std::size_t j = 0; j < b.size() && best != decision::kept; ++j) {
      if (used[j]) continue;
      const decision d = same_object(item, b[j]);
      if (d == decision::broken) continue;
      best = d;
      at = j;
    }
    if (at == b.size()) return decision::broken;
    used[at] = true;
    if (best == decision::undecided) all = best;
  }
  return all;
}

math_object as_collection(const math_object& o) {
  return is_collection(o) ? o : math_object{.type = kind::set, .items = {o}};
}

decision same_collection(const math_object& first, const math_object& second) {
  const math_object a = as_collection(first), b = as_collection(second);
  if (a.type == kind::united || b.type == kind::united) {
    const bool finite = a.type == kind::set || b.type == kind::set || a.type == kind::tuple ||
                        b.type == kind::tuple;
    if (finite) return decision::broken;
    if (a.type != b.type) return decision::undecided;
    const decision same = in_any_order(a.items, b.items);
    return same == decision::kept ? same : decision::undecided;  // parts may overlap
  }
  if (a.type == kind::interval && b.type == kind::interval) {
    if (a.left_open != b.left_open || a.right_open != b.right_open) return decision::broken;
    return in_order(a.items, b.items);
  }
  if (a.type == kind::interval || b.type == kind::interval) {
    const math_object& interval = a.type == kind::interval ? a : b;
    const math_object& other = a.type == kind::interval ? b : a;
    if (!interval.left_open || !interval.right_open || other.items.size() != 2) {
      return decision::broken;
    }
    return in_order(a.items, b.items);  // (1, 2) may be meant as a pair
  }
  if (a.type == kind::set && b.type == kind::set) return in_any_order(a.items, b.items);
  if (a.type == kind::set) return in_any_order(a.items, b.items);
  return in_order(a.items, b.items);
}

formula_ptr difference(const math_object& left, const math_object& right) {
  if (left.type != kind::expression || right.type != kind::expression) return nullptr;
  return make_sum(left.value, make_negative(right.value));
}

decision same_relation(const math_object& a, const math_object& b) {
  if (a.type == kind::all_of || b.type == kind::all_of) {
    if (a.type != b.type || a.items.size() != b.items.size()) return decision::undecided;
    std::vector<decision> parts;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
      parts.push_back(same_relation(a.items[i], b.items[i]));
    }
    return all_of(parts);
  }
  const formula_ptr x = difference(a.items[0], a.items[1]);
  const formula_ptr y = difference(b.items[0], b.items[1]);
  if (!x || !y) {
    const decision sides = in_order(a.items, b.items);
    return a.text == b.text && sides == decision::kept ? sides : decision::undecided;
  }
  const decision same = a.text == b.text ? same_expression(x, y) : decision::broken;
  if (same != decision::broken) return same;
  const auto flipped = [](const std::string& sign) -> std::string {
    if (sign == "<") return ">";
    if (sign == ">") return "<";
    if (sign == "<=") return ">=";
    if (sign == ">=") return "<=";
    return sign == "=" ? "=" : "";
  };
  return flipped(a.text) == b.text ? same_expression(x, make_negative(y)) : decision::broken;
}

struct reading {
  math_object object;
  bool refused = false, unsupported = false;
};

reading read(const std::vector<found_formula>& formulas) {
  try {
    std::vector<math_object> all;
    for (const found_formula& f : formulas) {
      math_object o = parse_math_object(f.latex);
      if (f.percent) {
        if (o.type != kind::expression || o.value->type != formula::kind::number) {
          throw latex_unsupported{};
        }
        o.value = make_number(o.value->value / 100, o.value->decimal);
      }
      all.push_back(std::move(o));
    }
    if (all.size() == 1) return {all.front()};
    math_object joined{.type = kind::set};
    for (const math_object& o : all) {
      if (o.type == kind::set) {
        joined.items.insert(joined.items.end(), o.items.begin(), o.items.end());
      } else {
        joined.items.push_back(o);
      }
    }
    return {joined};
  } catch (const latex_refused&) {
    return {.refused = true};
  } catch (const latex_unsupported&) {
    return {.unsupported = true};
  }
}

bool is_refused(const found_formula& f) {
  try {
    parse_math_object(f.latex);
  } catch (const latex_refused&) {
    return true;
  } catch (const latex_unsupported&) {
  }
  return false;
}

}  // namespace

decision same_object(const math_object& first, const math_object& second) {
  if (is_assignment(first) && !is_equation(second)) {
    return same_object(last_relation(first).items[1], second);
  }
  if (is_equation(second) && !is_equation(first)) {
    return same_object(first, last_relation(second).items[1]);
  }
  if (is_relation(first) && is_relation(second)) return same_relation(first, second);
  if (is_relation(first) || is_relation(second)) {
    // Inequalities against sets of numbers are turned into sets there.
    const bool sets = is_collection(first) || is_collection(second);
    return sets ? decision::undecided : decision::broken;
  }
  if (is_collection(first) || is_collection(second)) return same_collection(first, second);
  if (first.type == kind::matrix || second.type == kind::matrix) {
    return first.type == second.type ? in_order(first.items, second.items) : decision::broken;
  }
  if (first.type == kind::word) return same_word(first, second);
  if (second.type == kind::word) return same_word(second, first);
  return same_expression(first.value, second.value);
}

math_verdict math_verify_opencompass(std::string_view response, std::string_view reference) {
  std::vector<found_formula> answer;
  try {
    answer = formulas_in(response);
  } catch (const error&) {
    return {decision::undecided, ""};  // a text on which the search for formulas takes too long
  }
  const std::vector<found_formula> gold = formulas_in_gold(reference);
  if (answer.empty() || gold.empty()) return {decision::broken, ""};
  // Several are taken together when all can be read; else the first alone counts.
  if (answer.size() > 1 && std::ranges::any_of(answer, is_refused)) answer.resize(1);
  std::string shown;
  for (const found_formula& f : answer) shown += (shown.empty() ? "" : " and ") + f.latex;
  // Texts are compared where formulas cannot be read, and equal ones are equal anyway.
  const std::string ours = answer.front().latex;
  if (!ours.empty() && ours == gold.front().latex && answer.size() == 1) {
    return {decision::kept, shown};
  }
  const reading a = read(answer), b = read(gold);
  if (a.refused || b.refused) return {decision::broken, shown};
  if (a.unsupported || b.unsupported) return {decision::undecided, shown};
  return {same_object(a.object, b.object), shown};
}

}  // namespace unmask::scorers
