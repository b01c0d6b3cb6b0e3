// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// OpenCompass' MATHVerifyEvaluator over the package math-verify 0.5.2: the formula in the response
// is read as mathematics and compared with the gold as mathematics.
#pragma once

#include <string>
#include <string_view>

#include "harness/workload/scorers/decision.h"

namespace unmask::scorers {

struct math_verdict {
  decision right = decision::broken;
  std::string extracted;  // the normalised formula, "" when the response holds none
};

// reference: the gold in LaTeX, without dollar signs. Undecided: formulas outside what our own
// evaluator decides (math_value.h).
math_verdict math_verify_opencompass(std::string_view response, std::string_view reference);

}  // namespace unmask::scorers
