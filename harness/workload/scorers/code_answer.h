// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The program in an answer to HumanEval or MBPP: text in, text out; nothing is executed. Which one
// a harness uses decides pass@1 as much as the model does.
#pragma once

#include <string>
#include <string_view>

namespace unmask::scorers {

// lm-eval 0.4.8, task humaneval: the response up to the first of its stop strings "\nclass",
// "\ndef", "\n#", "\nif", "\nprint", each cut in this order. The program is prompt + this.
std::string humaneval_until_stop(std::string_view response);

// OpenCompass humaneval_postprocess_v2: the first fenced block, else the whole text. The copies in
// the FOCUS and Sparse-dLLM code strip white space on the left (0.4.2 does not), which breaks an
// answer that is only an indented body.
std::string humaneval_first_block(std::string_view response, bool strip_left);

// Sparse-dLLM human_eval_postprocess_new: everything before the first fence.
std::string humaneval_before_fence(std::string_view response);

// Sparse-dLLM human_eval_postprocess_new_chat: the last fenced block, else everything before the
// first fence; white space stripped on the left.
std::string humaneval_last_block(std::string_view response);

// lm-eval 0.4.8, task mbpp: the response up to "[DONE]".
std::string mbpp_until_done(std::string_view response);

// OpenCompass MBPPEvaluator._process_answer: the first of twenty patterns that matches, then cut at
// a fence and at DONE.
std::string mbpp_opencompass(std::string_view response);

}  // namespace unmask::scorers
