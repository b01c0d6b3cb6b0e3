// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What an answer may be beside a number: sets, tuples, intervals, matrices, relations; and whether
// two of them are the same to math-verify 0.5.2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/workload/scorers/decision.h"
#include "harness/workload/scorers/math_value.h"

namespace unmask::scorers {

struct math_object {
  enum class kind { expression, word, set, tuple, interval, united, all_of, matrix, relation };
  kind type = kind::expression;
  formula_ptr value = nullptr;          // expression
  std::string text = {};                // word: \text{...}; relation: = < > <= >= !=
  std::vector<math_object> items = {};  // members or parts, ends, sides of a relation
  bool left_open = false, right_open = false;
};

// A normalised formula. Throws latex_refused and latex_unsupported (latex_tokens.h).
math_object parse_math_object(std::string_view latex);

// gold and answer stand as MATHVerifyEvaluator passes them: its first argument is the answer.
decision same_object(const math_object& first, const math_object& second);

}  // namespace unmask::scorers
