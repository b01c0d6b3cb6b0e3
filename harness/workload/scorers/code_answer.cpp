// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/code_answer.h"

#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"

namespace unmask::scorers {
using py::pattern;
namespace {

std::vector<py::match> blocks_of(std::string_view response) {
  static const pattern block("```\\w*\\n(.*?)```", pattern::dot_all);
  return block.find_all(response);
}

}  // namespace

std::string humaneval_until_stop(std::string_view response) {
  for (const char* stop : {"\nclass", "\ndef", "\n#", "\nif", "\nprint"}) {
    response = response.substr(0, response.find(stop));
  }
  return std::string(response);
}

std::string humaneval_first_block(std::string_view response, bool strip_left) {
  const auto blocks = blocks_of(response);
  const std::string_view text = blocks.empty() ? response : blocks.front()[1];
  return std::string(strip_left ? py::lstrip(text) : text);
}

std::string humaneval_before_fence(std::string_view response) {
  return std::string(response.substr(0, response.find("```")));
}

std::string humaneval_last_block(std::string_view response) {
  const auto blocks = blocks_of(response);
  if (blocks.empty()) return std::string(py::lstrip(response.substr(0, response.find("```"))));
  return std::string(py::lstrip(blocks.back()[1]));
}

std::string mbpp_until_done(std::string_view response) {
  return std::string(response.substr(0, response.find("[DONE]")));
}

std::string mbpp_opencompass(std::string_view response) {
  static const std::vector<pattern> patterns = [] {
    std::vector<pattern> list;
    for (const char* text : {R"(\[BEGIN\]\s*'(.*)'\s*\[DONE\])",
                             R"(BEGIN\s*'(.*)'\s*\[DONE\])",
                             R"(\[BEGIN\]\s*'(.*)'\s*DONE)",
                             R"(BEGIN\s*'(.*)'\s*DONE)",
                             R"(\[BEGIN\]\s*'(.*)\s*\[DONE\])",
                             R"(BEGIN\s*'(.*)\s*\[DONE\])",
                             R"(\[BEGIN\]\s*'(.*)\s*DONE)",
                             R"(BEGIN\s*'(.*)\s*DONE)",
                             R"(\[BEGIN\]\s*(.*)\s*\[DONE\])",
                             R"(BEGIN\s*(.*)\s*\[DONE\])",
                             R"(\[BEGIN\]\s*(.*)\s*DONE)",
                             R"(BEGIN\s*(.*)\s*DONE)",
                             R"(```python\s*(.*)\s*```)",
                             R"(```\s*(.*)\s*```)",
                             R"(```python\s*(.*)\s*$)",
                             R"(```\s*(.*)\s*$)",
                             R"((.*)\s*```.*)",
                             R"(\[BEGIN\]\s*'(.*))",
                             R"(\[BEGIN\](.*))",
                             R"('(.*)'\s*\[DONE\])"}) {
      list.emplace_back(text, pattern::dot_all);
    }
    return list;
  }();
  static const pattern done(R"('?\s*\[?DONE\]?)");
  std::string_view text = response;
  for (const pattern& p : patterns) {
    if (const auto found = p.search(response)) {
      text = (*found)[1];
      break;
    }
  }
  text = text.substr(0, text.find("```"));
  text = done.split(text).front();
  return std::string(py::strip(py::replace_all(text, "\\_", "_")));
}

}  // namespace unmask::scorers
