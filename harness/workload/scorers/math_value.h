// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Formulas as trees, and whether two of them are the same number or the same function of their
// symbols: numbers, fractions, roots, powers, pi, e, i, polynomials and their quotients exactly,
// functions as unknowns. Symbols are complex; roots are principal.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace unmask::scorers {

using rational = boost::multiprecision::cpp_rational;

struct formula;
using formula_ptr = std::shared_ptr<const formula>;

struct formula {
  enum class kind {
    number,    // `value`; `decimal`: written with a decimal point
    symbol,    // `name`; one that begins with ~ is real
    constant,  // `name`: pi, e, i
    sum,       // of all parts
    product,   // of all parts
    power,     // parts[0] ^ parts[1]
    function,  // `name` of all parts; a name that begins with $ is an unknown function
    infinity   // of either sign, and everything that holds it or divides by zero
  };
  kind type = kind::number;
  rational value = 0;
  bool decimal = false;
  std::string name = {};
  std::vector<formula_ptr> parts = {};
};

formula_ptr make_number(rational value, bool decimal = false);
formula_ptr make_symbol(std::string name);
formula_ptr make_constant(std::string name);
formula_ptr make_infinity();
formula_ptr make_sum(formula_ptr a, formula_ptr b);
formula_ptr make_product(formula_ptr a, formula_ptr b);
formula_ptr make_power(formula_ptr base, formula_ptr exponent);
formula_ptr make_function(std::string name, std::vector<formula_ptr> parts);
formula_ptr make_negative(formula_ptr a);
formula_ptr make_quotient(formula_ptr a, formula_ptr b);
// "1234.5" exactly; the text holds digits and at most one point.
formula_ptr make_decimal(const std::string& digits);

bool contains(const formula& f, formula::kind type);
bool has_decimal(const formula& f);
// A power of symbols whose exponent holds a decimal: x^2.0 is not x^2 to sympy.
bool has_decimal_exponent(const formula& f);

// Exact value of a formula without symbols that is a fraction; nothing otherwise.
std::optional<rational> exact_value(const formula& f);

// Value of a formula for values of its symbols that `seed` draws from the complex plane; nothing
// for functions we have no values of, and where it is not finite.
std::optional<std::complex<long double>> numeric_value(const formula& f, unsigned seed);

enum class sameness {
  proven,   // the difference reduces to 0
  numeric,  // it is 0 to 15 digits wherever it was tried, but does not reduce
  different,
  unknown  // neither could be established
};
sameness compare(const formula_ptr& a, const formula_ptr& b);

// Text that is equal for formulas that reduce to the same; nothing where the reduction gives up.
std::optional<std::string> reduced_text(const formula& f);

}  // namespace unmask::scorers
