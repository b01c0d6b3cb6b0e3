// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string_view>

#include "harness/workload/scorers/latex_tokens.h"
#include "harness/workload/scorers/math_value.h"

namespace unmask::scorers {

struct sympy_latex {
  formula_ptr value;  // null for a relation (x < 5)
  bool relation = false;
};

// A text as sympy 1.13.1's parse_latex reads it (ANTLR grammar, not strict): \pi, e and i are plain
// symbols, f(x) is an unknown function, "x^10" takes the whole number, text behind a complete
// formula is ignored. Throws latex_refused and latex_unsupported.
sympy_latex parse_sympy_latex(std::string_view text);

}  // namespace unmask::scorers
