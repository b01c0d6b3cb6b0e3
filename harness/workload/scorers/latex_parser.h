// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LaTeX as the two packages read it whose grammars have one ancestor: sympy and
// latex2sympy2_extended.
#pragma once

#include <string_view>

#include "harness/workload/scorers/latex_tokens.h"
#include "harness/workload/scorers/math_value.h"

namespace unmask::scorers {

enum class latex_dialect { sympy, verify };

struct sympy_latex {
  formula_ptr value;  // null for a relation (x < 5)
  bool relation = false;
};

// A text as sympy 1.13.1's parse_latex reads it (ANTLR grammar, not strict): \\pi, e and i are plain
// symbols, f(x) is an unknown function, "x^10" takes the whole number, text behind a complete
// formula is ignored. Throws latex_refused and latex_unsupported.
sympy_latex parse_sympy_latex(std::string_view text);

// One expression as latex2sympy2_extended 1.0.6 reads it: pi and e are numbers, i is a symbol, other
// symbols are real, a name before "(x)" is a function and before "(x+1)" a factor, "1\\frac{1}{2}" is a mixed number,
// \\sqrt and \\frac need their braces. Throws as above.
formula_ptr parse_verify_latex(std::string_view text);

}  // namespace unmask::scorers
