// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string_view>

#include "harness/workload/scorers/decision.h"

namespace unmask::scorers {

// lm-eval 0.4.8, minerva_math exact_match: both normalised answers are read by sympy's parse_latex
// and simplify(a - b) is 0. There is no short cut for equal texts: what the grammar refuses, and
// relations, which cannot be subtracted, are wrong even against themselves. Undecided: formulas
// outside what our own evaluator decides (math_value.h).
decision minerva_equal(std::string_view a, std::string_view b);

}  // namespace unmask::scorers
