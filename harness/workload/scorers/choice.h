// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Multiple choice: the letter that a harness reads out of a text, and the choice that likelihoods
// prefer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/workload/scorers/gsm8k.h"

namespace unmask::scorers {

// OpenCompass first_capital_postprocess: the first upper-case character of any script, whatever it
// is; "" when there is none.
std::string first_capital(std::string_view response);

// OpenCompass first_option_postprocess with cushion patterns. options: "ABCD" or "AB". "" when no
// pattern gives a letter.
std::string first_option(std::string_view response, std::string_view options);

// lm-eval mmlu_generative, filter get_response: the first line without white space around it;
// right when equal to gold, case and ASCII punctuation aside.
extraction mmlu_generative(std::string_view response, std::string_view gold);

struct choice_verdict {
  bool acc = false;       // arg-max of the likelihoods
  bool acc_norm = false;  // arg-max of likelihood / characters of the choice
};

// lm-eval multiple_choice. One log likelihood for each choice; the first wins a tie. Usage error
// when the numbers of both differ or gold is none of them.
choice_verdict likelihood_choice(const std::vector<double>& loglikelihoods,
                                 const std::vector<std::string>& choices, std::size_t gold);

}  // namespace unmask::scorers
