// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// IFEval (Zhou et al., 2023) as lm-eval 0.4.8 has it: 25 kinds of instructions that a program can
// check. Strict looks at the response as it is; loose is content when one of eight variants keeps
// the instruction: without first line, last line or both, each with and without asterisks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"
#include "harness/workload/scorers/decision.h"

namespace unmask::scorers {

// Undecided are instructions that need NLTK's sentence model (number_sentences,
// capital_word_frequency), that the harness completes at random because an argument is missing, and
// languages on which random draws of langdetect disagree.
struct ifeval_verdict {
  std::vector<decision> strict, loose;  // one for each instruction

  static decision all_of(const std::vector<decision>& instructions);  // the level of the prompt
};

// check: instruction_id_list and kwargs, as in the data set. Environment error that names the key
// for an instruction that does not exist or lacks what the harness insists on.
ifeval_verdict score_ifeval(const json_reader& check, std::string_view response);

// Python's json.loads(text) succeeds.
bool is_python_json(std::string_view text);

}  // namespace unmask::scorers
