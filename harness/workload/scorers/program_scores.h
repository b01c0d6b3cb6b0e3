// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// pass@1 of one answer to HumanEval or MBPP, in the variants of the papers' harnesses: the program
// that the harness reads out of the answer, its tests below it, run in the sandbox.
#pragma once

#include "harness/workload/scorers/item_scores.h"

namespace unmask::scorers {

//   humaneval_lm_eval              prompt + answer cut at the stop strings, 3 s
//   humaneval_fast_dllm            prompt and first fenced block reduced to what is reachable (also
//                                  Dream, dLLM-Cache), 3 s
//   humaneval_opencompass_focus    first fenced block, white space stripped on its left, 3 s
//   humaneval_opencompass_llada    first fenced block as it stands, 3 s
//   humaneval_opencompass_sparse   everything before the first fence, 3 s
//   humaneval_opencompass_sparse_chat   last fenced block, stripped on its left, 3 s
//   mbpp_lm_eval                   answer up to [DONE], 3 s
//   mbpp_opencompass               the first of twenty patterns, 10 s
// check of HumanEval: prompt, test, entry_point; of MBPP: test_list. Without a sandbox nothing is run:
// not scored, and the note says NOT RUN and why.
const std::vector<named_item_score>& program_scores();

}  // namespace unmask::scorers
