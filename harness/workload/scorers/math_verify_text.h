// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How math-verify 0.5.2 finds the formula in a response and which spellings it straightens first
// (latex2sympy2_extended 1.0.6, math_normalization).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unmask::scorers {

struct found_formula {
  std::string latex;     // normalised
  bool percent = false;  // a percent sign stands behind its environment
};

// The formulas of the first match that counts: several when environments are joined by "and", "or"
// or a comma; none when the response holds no formula. The last \boxed{} counts first, then what
// follows "final answer is", then "answer".
std::vector<found_formula> formulas_in(std::string_view response);

// The gold, as MATHVerifyEvaluator passes it: the whole text as one formula, with the repairs
// (\sqrt2, \frac12, a/b) that an answer does not get. None for an empty one.
std::vector<found_formula> formulas_in_gold(std::string_view reference);

}  // namespace unmask::scorers
