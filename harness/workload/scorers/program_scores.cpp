// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/program_scores.h"

#include <string>

#include "harness/workload/programs/python_program.h"
#include "harness/workload/scorers/code_answer.h"

namespace unmask::scorers {
namespace {

constexpr double humaneval_seconds = 3.0;
constexpr double mbpp_lm_eval_seconds = 3.0;
constexpr double mbpp_opencompass_seconds = 10.0;

score run(const std::string& program, double seconds) {
  if (const auto missing = sandbox_missing()) {
    return {false, 0.0, false, "NOT RUN: " + *missing};
  }
  sandbox_limits limits;
  limits.seconds = seconds;
  const program_result r = run_python_program(program, limits);
  const bool right = r.verdict == program_verdict::pass;
  score s{true, right ? 1.0 : 0.0, right, right ? "" : r.reason};
  s.extracted = program;
  return s;
}

// `program`: prompt and completion, or what stands for them.
score humaneval(const json_reader& check, const std::string& program) {
  return run(program + "\n" + check.text("test") + "\ncheck(" + check.text("entry_point") + ")",
             humaneval_seconds);
}

score humaneval_lm_eval(const task_item&, const json_reader& check, std::string_view output) {
  return humaneval(check, check.text("prompt") + humaneval_until_stop(output));
}

score humaneval_fast_dllm(const task_item&, const json_reader& check, std::string_view output) {
  if (const auto missing = sandbox_missing()) {
    return {false, 0.0, false, "NOT RUN: " + *missing};
  }
  // The first block of Python, to its end or the answer's.
  constexpr std::string_view fence = "```python\n";
  if (const std::size_t open = output.find(fence); open != std::string_view::npos) {
    output.remove_prefix(open + fence.size());
  }
  const std::string body(output.substr(0, output.find("```")));
  return humaneval(
      check, reachable_python_code(check.text("prompt") + "\n" + body, check.text("entry_point")));
}

score humaneval_focus(const task_item&, const json_reader& check, std::string_view output) {
  return humaneval(check, check.text("prompt") + humaneval_first_block(output, true));
}

score humaneval_llada(const task_item&, const json_reader& check, std::string_view output) {
  return humaneval(check, check.text("prompt") + humaneval_first_block(output, false));
}

score humaneval_sparse(const task_item&, const json_reader& check, std::string_view output) {
  return humaneval(check, check.text("prompt") + humaneval_before_fence(output));
}

score humaneval_sparse_chat(const task_item&, const json_reader& check, std::string_view output) {
  return humaneval(check, check.text("prompt") + humaneval_last_block(output));
}

score mbpp(const json_reader& check, const std::string& program, double seconds) {
  const json_value::array* tests = check.at("test_list").items();
  if (tests == nullptr) check.fail("test_list", "must be an array of strings");
  std::string text = program;
  for (const json_value& test : *tests) {
    if (test.text() == nullptr) check.fail("test_list", "must be an array of strings");
    text += "\n" + *test.text();
  }
  return run(text, seconds);
}

score mbpp_lm_eval(const task_item&, const json_reader& check, std::string_view output) {
  return mbpp(check, mbpp_until_done(output), mbpp_lm_eval_seconds);
}

score mbpp_of_opencompass(const task_item&, const json_reader& check, std::string_view output) {
  return mbpp(check, mbpp_opencompass(output), mbpp_opencompass_seconds);
}

}  // namespace

const std::vector<named_item_score>& program_scores() {
  static const std::vector<named_item_score> all = {
      {"humaneval_lm_eval", humaneval_lm_eval},
      {"humaneval_fast_dllm", humaneval_fast_dllm},
      {"humaneval_opencompass_focus", humaneval_focus},
      {"humaneval_opencompass_llada", humaneval_llada},
      {"humaneval_opencompass_sparse", humaneval_sparse},
      {"humaneval_opencompass_sparse_chat", humaneval_sparse_chat},
      {"mbpp_lm_eval", mbpp_lm_eval},
      {"mbpp_opencompass", mbpp_of_opencompass}};
  return all;
}

}  // namespace unmask::scorers
