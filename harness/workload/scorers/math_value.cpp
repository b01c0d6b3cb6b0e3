// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Reduction to a quotient of polynomials with rational coefficients. What the polynomials are in:
// symbols, roots of primes and of -1, and whatever else has to stay as it is (functions, roots of
// sums), each under a name of its own.
#include "harness/workload/scorers/math_value.h"

#include <map>

namespace unmask::scorers {
namespace {

using integer = boost::multiprecision::cpp_int;
// Base to exponent. Roots of primes and of -1 keep exponents between 0 and 1.
using monomial = std::map<std::string, rational>;
using polynomial = std::map<monomial, rational>;

// The reduction gives up: too large, or not finite.
struct gives_up {};

constexpr std::size_t most_terms = 400;
constexpr unsigned most_bits = 4000;
constexpr int most_power = 200;

struct quotient {
  polynomial top, bottom;
};

polynomial constant(const rational& c) {
  polynomial p;
  if (c != 0) p[{}] = c;
  return p;
}

quotient plain(polynomial p) {
  return {std::move(p), constant(1)};
}

unsigned bits(const integer& n) {
  return n == 0 ? 0 : static_cast<unsigned>(msb(abs(n)));
}

void check_size(const rational& c) {
  if (bits(numerator(c)) > most_bits || bits(denominator(c)) > most_bits) throw gives_up{};
}

bool is_root_of_number(const std::string& base) {
  return base[0] == '#';  // "#2", "#-1"
}

rational power_of(const rational& base, int exponent) {
  rational result = 1;
  for (int i = 0; i < std::abs(exponent); ++i) {
    result *= base;
    check_size(result);
  }
  return exponent < 0 ? rational(1) / result : result;
}

int small_integer(const rational& r) {
  if (abs(numerator(r)) > most_power * denominator(r)) throw gives_up{};
  return static_cast<int>(numerator(r) / denominator(r));
}

// base^exponent joins a term; whole powers of numbers go into the coefficient.
void join(monomial& m, rational& coefficient, const std::string& base, const rational& exponent) {
  rational& e = m[base];
  e += exponent;
  if (is_root_of_number(base)) {
    int whole = small_integer(e);
    if (e < whole) --whole;  // towards minus infinity
    coefficient *= power_of(rational(base.substr(1)), whole);
    e -= whole;
  }
  if (e == 0) m.erase(base);
}

polynomial times(const polynomial& a, const polynomial& b) {
  polynomial all;
  for (const auto& [ma, ca] : a) {
    for (const auto& [mb, cb] : b) {
      monomial m = ma;
      rational c = ca * cb;
      for (const auto& [base, exponent] : mb) join(m, c, base, exponent);
      check_size(c);
      rational& sum = all[m];
      sum += c;
      if (sum == 0) all.erase(m);
    }
    if (all.size() > most_terms) throw gives_up{};
  }
  return all;
}

polynomial plus(const polynomial& a, const polynomial& b) {
  polynomial all = a;
  for (const auto& [m, c] : b) {
    rational& sum = all[m];
    sum += c;
    if (sum == 0) all.erase(m);
  }
  return all;
}

bool is_one(const polynomial& p) {
  return p.size() == 1 && p.begin()->first.empty() && p.begin()->second == 1;
}

// A bottom of one term moves into the top; roots of numbers may then leave it free of roots.
quotient tidy(quotient q) {
  if (q.bottom.empty()) throw gives_up{};
  if (q.bottom.size() != 1 || is_one(q.bottom)) return q;
  const auto& [m, c] = *q.bottom.begin();
  monomial inverse;
  rational coefficient = rational(1) / c;
  for (const auto& [base, exponent] : m) join(inverse, coefficient, base, -exponent);
  return plain(times(q.top, {{inverse, coefficient}}));
}

std::string text_of(const polynomial& p) {
  std::string out;
  for (const auto& [m, c] : p) {
    out += (out.empty() ? "" : "+") + c.str();
    for (const auto& [base, exponent] : m) out += "*" + base + "^" + exponent.str();
  }
  return out.empty() ? "0" : out;
}

// Top and bottom divided by the first coefficient of the bottom, so that equal quotients of one
// bottom read the same.
std::string text_of(quotient q) {
  if (is_one(q.bottom)) return text_of(q.top);
  const rational lead = q.bottom.begin()->second;
  for (polynomial* p : {&q.top, &q.bottom}) {
    for (auto& [m, c] : *p) c /= lead;
  }
  return "(" + text_of(q.top) + ")/(" + text_of(q.bottom) + ")";
}

std::optional<rational> number_in(const quotient& q) {
  if (!is_one(q.bottom) || q.top.size() > 1) return {};
  if (q.top.empty()) return rational(0);
  if (!q.top.begin()->first.empty()) return {};
  return q.top.begin()->second;
}

quotient unknown(const std::string& name, const rational& exponent = 1) {
  return plain({{{{name, exponent}}, 1}});
}

// |n|^exponent by its prime factors, as far as small primes go.
void join_number(monomial& m, rational& coefficient, integer n, const rational& exponent) {
  for (integer p = 2; p * p <= n && p < 100000; ++p) {
    int count = 0;
    for (; n % p == 0; n /= p) ++count;
    if (count > 0) join(m, coefficient, "#" + p.str(), exponent * count);
  }
  if (n > 1) join(m, coefficient, "#" + n.str(), exponent);
}

// A root of one term: of the number and of positive roots in it factor by factor; what is left
// stays together, as (-x)^(1/2) does.
quotient root_of_term(const monomial& term, const rational& value, const rational& exponent) {
  monomial m, rest;
  rational coefficient = 1;
  for (const auto& [base, e] : term) {
    if (is_root_of_number(base) && base != "#-1") {
      join(m, coefficient, base, e * exponent);
    } else {
      rest[base] = e;
    }
  }
  join_number(m, coefficient, abs(numerator(value)), exponent);
  join_number(m, coefficient, denominator(value), -exponent);
  const bool negative = value < 0;
  if (rest.empty()) {
    if (negative) join(m, coefficient, "#-1", exponent);
  } else if (!negative && rest.size() == 1 && rest.begin()->second == 1) {
    join(m, coefficient, rest.begin()->first, exponent);
  } else {
    join(m, coefficient, "(" + text_of(polynomial{{rest, negative ? -1 : 1}}) + ")", exponent);
  }
  return plain({{m, coefficient}});
}

quotient reduce(const formula& f);

quotient whole_power(const quotient& base, int exponent) {
  if (std::abs(exponent) > most_power) throw gives_up{};
  if (exponent < 0 && base.top.empty()) throw gives_up{};
  quotient result = plain(constant(1));
  for (int i = 0; i < std::abs(exponent); ++i) {
    result = {times(result.top, base.top), times(result.bottom, base.bottom)};
  }
  if (exponent < 0) std::swap(result.top, result.bottom);
  return tidy(result);
}

quotient reduce_power(const formula& f) {
  const quotient base = reduce(*f.parts[0]), exponent = reduce(*f.parts[1]);
  const auto e = number_in(exponent);
  if (!e) return unknown("[" + text_of(base) + "^" + text_of(exponent) + "]");
  if (denominator(*e) == 1) return whole_power(base, small_integer(*e));
  if (base.top.empty()) {
    if (*e < 0) throw gives_up{};
    return plain({});
  }
  if (denominator(*e) > most_power) throw gives_up{};
  if (is_one(base.bottom) && base.top.size() == 1) {
    return tidy(root_of_term(base.top.begin()->first, base.top.begin()->second, *e));
  }
  return unknown("(" + text_of(base) + ")", *e);
}

// The logarithm of a fraction by its prime factors.
std::optional<quotient> reduce_logarithm(const formula& f) {
  const quotient inner = reduce(*f.parts[0]);
  const auto value = number_in(inner);
  if (!value || *value <= 0) return {};
  monomial m;
  rational whole = 1;
  // A small exponent keeps every prime among the factors; whole powers would become a number.
  join_number(m, whole, numerator(*value), rational(1, 1000));
  join_number(m, whole, denominator(*value), rational(-1, 1000));
  if (whole != 1) return {};
  polynomial sum;
  for (const auto& [base, exponent] : m) {
    sum[{{"log(" + base + ")", 1}}] = exponent * 1000;
  }
  return plain(sum);
}

quotient reduce_function(const formula& f) {
  if (f.name == "log" && f.parts.size() == 1) {
    if (auto by_primes = reduce_logarithm(f)) return *by_primes;
  }
  std::string name = f.name + "(";
  for (const formula_ptr& part : f.parts) name += text_of(reduce(*part)) + ";";
  return unknown(name + ")");
}

quotient reduce(const formula& f) {
  switch (f.type) {
    case formula::kind::number:
      check_size(f.value);
      return plain(constant(f.value));
    case formula::kind::symbol:
      return unknown("$" + f.name);
    case formula::kind::constant:
      return f.name == "i" ? unknown("#-1", rational(1, 2)) : unknown("%" + f.name);
    case formula::kind::sum: {
      quotient all = plain({});
      for (const formula_ptr& part : f.parts) {
        const quotient q = reduce(*part);
        if (all.bottom == q.bottom) {
          all.top = plus(all.top, q.top);
        } else {
          all = {plus(times(all.top, q.bottom), times(q.top, all.bottom)),
                 times(all.bottom, q.bottom)};
        }
      }
      return tidy(all);
    }
    case formula::kind::product: {
      quotient all = plain(constant(1));
      for (const formula_ptr& part : f.parts) {
        const quotient q = reduce(*part);
        all = {times(all.top, q.top), times(all.bottom, q.bottom)};
      }
      return tidy(all);
    }
    case formula::kind::power:
      return reduce_power(f);
    case formula::kind::function:
      return reduce_function(f);
    case formula::kind::infinity:
      break;
  }
  throw gives_up{};
}

}  // namespace

std::optional<rational> exact_value(const formula& f) {
  try {
    return number_in(reduce(f));
  } catch (const gives_up&) {
    return {};
  }
}

std::optional<std::string> reduced_text(const formula& f) {
  try {
    return text_of(reduce(f));
  } catch (const gives_up&) {
    return {};
  }
}

sameness compare(const formula_ptr& a, const formula_ptr& b) {
  const formula_ptr difference = make_sum(a, make_negative(b));
  const auto reduced = reduced_text(*difference);
  if (reduced && (*reduced == "0" || reduced->starts_with("(0)/"))) return sameness::proven;
  constexpr long double near = 1e-13L;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const auto x = numeric_value(*a, seed), y = numeric_value(*b, seed);
    if (!x || !y) return sameness::unknown;
    const long double scale = std::max({std::abs(*x), std::abs(*y), 1e-30L});
    if (std::abs(*x - *y) > near * scale) return sameness::different;
  }
  return sameness::numeric;
}

}  // namespace unmask::scorers
