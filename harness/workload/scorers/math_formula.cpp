// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Building formulas, and their values in floating point.
#include <cmath>
#include <functional>
#include <map>
#include <numbers>

#include "harness/workload/scorers/math_value.h"

namespace unmask::scorers {
namespace {

using complex = std::complex<long double>;

formula_ptr make(formula f) {
  return std::make_shared<const formula>(std::move(f));
}

bool is_infinite(const formula_ptr& f) {
  return f->type == formula::kind::infinity;
}

// The same value for a name and a seed on every machine.
complex drawn(const std::string& name, unsigned seed) {
  std::uint64_t state = seed;
  for (const char c : name) state = state * 1099511628211u + static_cast<unsigned char>(c);
  const auto next = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<long double>(state >> 40) / 16777216.0L;
  };
  next();
  // Both half-planes for every name, so that a root of a square is not taken for its base.
  const unsigned last = name.empty() ? 0 : static_cast<unsigned char>(name.back());
  const long double side = (last + seed) % 2 == 0 ? 1 : -1;
  const long double real = side * (0.3L + 1.7L * next());
  if (name.starts_with('~')) return real;
  return {real, -1.1L + 2.2L * next()};
}

complex factorial(complex n) {
  return std::tgamma(n.real() + 1);
}

// Functions of one argument; null for a name without values here.
using function = std::function<complex(complex)>;
const function* find_function(const std::string& name) {
  static const std::map<std::string, function> known = {
      {"sin", [](complex z) { return std::sin(z); }},
      {"cos", [](complex z) { return std::cos(z); }},
      {"tan", [](complex z) { return std::tan(z); }},
      {"cot", [](complex z) { return 1.0L / std::tan(z); }},
      {"sec", [](complex z) { return 1.0L / std::cos(z); }},
      {"csc", [](complex z) { return 1.0L / std::sin(z); }},
      {"sinh", [](complex z) { return std::sinh(z); }},
      {"cosh", [](complex z) { return std::cosh(z); }},
      {"tanh", [](complex z) { return std::tanh(z); }},
      {"asin", [](complex z) { return std::asin(z); }},
      {"acos", [](complex z) { return std::acos(z); }},
      {"atan", [](complex z) { return std::atan(z); }},
      {"exp", [](complex z) { return std::exp(z); }},
      {"log", [](complex z) { return std::log(z); }},
      {"abs", [](complex z) { return complex(std::abs(z)); }},
      {"floor", [](complex z) { return complex(std::floor(z.real()), std::floor(z.imag())); }},
      {"ceiling", [](complex z) { return complex(std::ceil(z.real()), std::ceil(z.imag())); }},
      {"conjugate", [](complex z) { return std::conj(z); }}};
  const auto found = known.find(name);
  return found == known.end() ? nullptr : &found->second;
}

std::optional<complex> binomial(complex n, complex k) {
  if (n.imag() != 0 || k.imag() != 0 || k.real() < 0 || k.real() > 400) return {};
  if (k.real() != std::floor(k.real())) return {};
  long double value = 1;
  for (int i = 1; i <= static_cast<int>(k.real()); ++i) value *= (n.real() - k.real() + i) / i;
  return complex(n.real() == std::floor(n.real()) ? std::round(value) : value);
}

std::optional<complex> function_value(const formula& f, const std::vector<complex>& parts) {
  if (f.name == "factorial" && parts.size() == 1) {
    const complex n = parts[0];
    const bool pole = n.real() < 0 && n.real() == std::floor(n.real());
    if (n.imag() != 0 || pole || n.real() > 1000) return {};
    return factorial(n);
  }
  if (f.name.starts_with('$')) return drawn(reduced_text(f).value_or(f.name), 7);
  if (f.name == "binomial" && parts.size() == 2) return binomial(parts[0], parts[1]);
  const auto* known = parts.size() == 1 ? find_function(f.name) : nullptr;
  if (known == nullptr) return {};
  return (*known)(parts[0]);
}

std::optional<complex> power_value(complex base, complex exponent) {
  if (base == complex(0)) {
    if (exponent.real() > 0) return complex(0);
    return {};
  }
  if (exponent.imag() == 0 && exponent.real() == std::floor(exponent.real()) &&
      std::abs(exponent.real()) < 1e6L) {
    return std::pow(base, static_cast<int>(exponent.real()));
  }
  return std::pow(base, exponent);
}

}  // namespace

formula_ptr make_number(rational value, bool decimal) {
  return make({.value = std::move(value), .decimal = decimal});
}

formula_ptr make_symbol(std::string name) {
  return make({.type = formula::kind::symbol, .name = std::move(name)});
}

formula_ptr make_constant(std::string name) {
  return make({.type = formula::kind::constant, .name = std::move(name)});
}

formula_ptr make_infinity() {
  return make({.type = formula::kind::infinity});
}

formula_ptr make_sum(formula_ptr a, formula_ptr b) {
  return make({.type = formula::kind::sum, .parts = {std::move(a), std::move(b)}});
}

formula_ptr make_product(formula_ptr a, formula_ptr b) {
  return make({.type = formula::kind::product, .parts = {std::move(a), std::move(b)}});
}

formula_ptr make_power(formula_ptr base, formula_ptr exponent) {
  return make({.type = formula::kind::power, .parts = {std::move(base), std::move(exponent)}});
}

formula_ptr make_function(std::string name, std::vector<formula_ptr> parts) {
  return make(
      {.type = formula::kind::function, .name = std::move(name), .parts = std::move(parts)});
}

formula_ptr make_negative(formula_ptr a) {
  if (a->type == formula::kind::number) return make_number(-a->value, a->decimal);
  return make_product(make_number(-1), std::move(a));
}

formula_ptr make_quotient(formula_ptr a, formula_ptr b) {
  return make_product(std::move(a), make_power(std::move(b), make_number(-1)));
}

formula_ptr make_decimal(const std::string& digits) {
  const std::size_t point = digits.find('.');
  std::string all = digits;
  rational scale = 1;
  if (point != std::string::npos) {
    for (std::size_t i = point + 1; i < digits.size(); ++i) scale *= 10;
    all.erase(point, 1);
  }
  const std::size_t first = all.find_first_not_of('0');
  const std::string plain = first == std::string::npos ? "0" : all.substr(first);
  return make_number(rational(plain) / scale, point != std::string::npos);
}

bool contains(const formula& f, formula::kind type) {
  if (f.type == type) return true;
  for (const formula_ptr& part : f.parts) {
    if (contains(*part, type)) return true;
  }
  return false;
}

bool has_decimal(const formula& f) {
  if (f.decimal) return true;
  for (const formula_ptr& part : f.parts) {
    if (has_decimal(*part)) return true;
  }
  return false;
}

bool has_decimal_exponent(const formula& f) {
  if (f.type == formula::kind::power && has_decimal(*f.parts[1]) &&
      contains(*f.parts[0], formula::kind::symbol)) {
    return true;
  }
  for (const formula_ptr& part : f.parts) {
    if (has_decimal_exponent(*part)) return true;
  }
  return false;
}

std::optional<complex> numeric_value(const formula& f, unsigned seed) {
  std::vector<complex> parts;
  for (const formula_ptr& part : f.parts) {
    if (is_infinite(part)) return {};
    const auto value = numeric_value(*part, seed);
    if (!value) return {};
    parts.push_back(*value);
  }
  std::optional<complex> value;
  switch (f.type) {
    case formula::kind::number:
      value = complex(f.value.convert_to<long double>());
      break;
    case formula::kind::symbol:
      value = drawn(f.name, seed);
      break;
    case formula::kind::constant:
      value = f.name == "i"    ? complex(0, 1)
              : f.name == "pi" ? complex(std::numbers::pi_v<long double>)
                               : complex(std::numbers::e_v<long double>);
      break;
    case formula::kind::sum:
      value = complex(0);
      for (const complex& part : parts) *value += part;
      break;
    case formula::kind::product:
      value = complex(1);
      for (const complex& part : parts) *value *= part;
      break;
    case formula::kind::power:
      value = power_value(parts[0], parts[1]);
      break;
    case formula::kind::function:
      value = function_value(f, parts);
      break;
    case formula::kind::infinity:
      break;
  }
  if (value && !(std::isfinite(value->real()) && std::isfinite(value->imag()))) return {};
  return value;
}

}  // namespace unmask::scorers
