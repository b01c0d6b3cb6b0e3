// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Answers of MATH problems: LaTeX in \boxed{}, compared as text after the normalisation published
// with the dataset (Hendrycks et al. 2021, math_equivalence.py). It is not a computer algebra
// system: "1/2" equals "\frac12", but "x+1" does not equal "1+x". So it never counts a wrong answer
// as right, and reads a little lower than a symbolic checker.
#pragma once

#include <string>
#include <string_view>

namespace unmask {

// Content of the last \boxed{...} or \fbox{...} whose braces close; "" when there is none.
std::string last_boxed(std::string_view text);

// One spelling for the ways LaTeX writes the same answer.
std::string normal_math(std::string_view latex);

// "" when the last boxed answer of the output equals `wanted`, else the reason.
std::string boxed_mismatch(std::string_view wanted, std::string_view output);

}  // namespace unmask
