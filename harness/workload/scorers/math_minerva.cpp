// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/math_minerva.h"

#include "harness/workload/scorers/latex_parser.h"

namespace unmask::scorers {
namespace {

struct formula_reading {
  sympy_latex formula;
  bool refused = false, unsupported = false;
};

formula_reading read(std::string_view text) {
  try {
    return {parse_sympy_latex(text)};
  } catch (const latex_refused&) {
    return {.refused = true};
  } catch (const latex_unsupported&) {
    return {.unsupported = true};
  }
}

}  // namespace

decision minerva_equal(std::string_view a, std::string_view b) {
  const formula_reading x = read(a), y = read(b);
  if (x.refused || y.refused) return decision::broken;
  if (x.unsupported || y.unsupported) return decision::undecided;
  if (x.formula.relation || y.formula.relation) return decision::broken;
  // Infinity minus itself is not a number there, and so not 0.
  for (const formula_reading* r : {&x, &y}) {
    if (contains(*r->formula.value, formula::kind::infinity)) return decision::broken;
  }
  if (has_decimal_exponent(*x.formula.value) != has_decimal_exponent(*y.formula.value)) {
    return decision::broken;
  }
  switch (compare(x.formula.value, y.formula.value)) {
    case sameness::proven:
      return decision::kept;
    case sameness::different:
      return decision::broken;
    default:
      return decision::undecided;
  }
}

}  // namespace unmask::scorers
