// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// GSM8K as the two harnesses score it: which text counts as the answer, and whether it is right.
#pragma once

#include <string>
#include <string_view>

namespace unmask::scorers {

struct extraction {
  std::string text;    // what the harness takes for the answer
  bool right = false;  // its verdict
};

// lm-eval 0.4.8, task gsm8k, filters strict-match and flexible-extract. target: the worked solution
// that ends with "#### 18"; both sides lose commas, dollar signs, everything up to the last "#### "
// and one full stop at the end before they are compared as text.
extraction gsm8k_strict(std::string_view response, std::string_view target);
// The strict filter of gsm8k_cot: "The answer is 18."
extraction gsm8k_cot_strict(std::string_view response, std::string_view target);
extraction gsm8k_flexible(std::string_view response, std::string_view target);

// OpenCompass, gsm8k_postprocess and Gsm8kEvaluator: the last number before "Question:" against
// the reference ("18"), as text or within 1e-6. "NULL" where there is no number.
extraction gsm8k_opencompass(std::string_view response, std::string_view reference);

// What OpenCompass makes of a worked solution: the text after the first "#### ", without commas.
std::string gsm8k_reference(std::string_view solution);

}  // namespace unmask::scorers
