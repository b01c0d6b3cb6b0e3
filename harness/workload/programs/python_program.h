// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Verdicts on Python programs: functional correctness as HumanEval and MBPP define it.
#pragma once

#include <string>

#include "harness/workload/programs/sandbox.h"

namespace unmask {

enum class program_verdict { pass, fail, timeout };
const char* name_of(program_verdict verdict);

struct program_result {
  program_verdict verdict = program_verdict::fail;
  std::string reason;  // as the official harnesses word it: "passed", "timed out", "failed: ..."
  std::string output;
};

// Executes the text (an answer followed by its tests) as `exec` does in an empty module, in a
// sandbox. It passes if and only if every statement ran to the end, which is shown by a random
// token that is reported after the last one: an exit status of 0 proves nothing, because the
// program may leave early by itself. Environment error when no sandbox can be made.
program_result run_python_program(const std::string& text, const sandbox_limits& limits = {});

// Reduces an answer to the code that its entry point needs, as the evaluation code of Fast-dLLM,
// Dream and dLLM-Cache does before it runs HumanEval: of the first 100 lines the longest run that
// Python parses; of that all imports, and those functions with a return statement, classes and
// assignments that the entry point reaches by name, each printed from its syntax tree. Python's
// own parser does this, in a sandbox, because the text is the model's. An empty text when nothing
// parses; the time limit applies.
std::string reachable_python_code(const std::string& text, const std::string& entry_point,
                                  const sandbox_limits& limits = {});

}  // namespace unmask
