// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/choice.h"

#include <cmath>
#include <map>

#include "harness/base/error.h"
#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"

namespace unmask::scorers {
using py::pattern;
namespace {

// The patterns of first_option_postprocess in their order; @ stands for the valid letters. In the
// published list a comma is missing after the fourteenth, so that Python glues it to the next one;
// kept, because it decides cases.
constexpr const char* option_patterns[] = {R"(答案是?\s*([@]))",
                                           R"(答案是?\s*：\s*([@]))",
                                           R"(答案是?\s*:\s*([@]))",
                                           R"(答案选项应?该?是\s*([@]))",
                                           R"(答案选项应?该?为\s*([@]))",
                                           R"(答案应该?是\s*([@]))",
                                           R"(答案应该?选\s*([@]))",
                                           R"(答案选项为?\s*：\s*([@]))",
                                           R"(答案选项为?\s+\(?\*?\*?([@])\*?\*?\)?)",
                                           R"(答案选项是?\s*:\s*([@]))",
                                           R"(答案为\s*([@]))",
                                           R"(答案选\s*([@]))",
                                           R"(选择?\s*([@]))",
                                           R"(故选?\s*([@])只有选?项?\s?([@])\s?是?对)",
                                           R"(只有选?项?\s?([@])\s?是?错)",
                                           R"(只有选?项?\s?([@])\s?不?正确)",
                                           R"(只有选?项?\s?([@])\s?错误)",
                                           R"(说法不?对选?项?的?是\s?([@]))",
                                           R"(说法不?正确选?项?的?是\s?([@]))",
                                           R"(说法错误选?项?的?是\s?([@]))",
                                           R"(([@])\s?是正确的)",
                                           R"(([@])\s?是正确答案)",
                                           R"(选项\s?([@])\s?正确)",
                                           R"(所以答\s?([@]))",
                                           R"(所以\s?([@][.。$]?$))",
                                           R"(所有\s?([@][.。$]?$))",
                                           R"([\s，：:,]([@])[。，,\.]?$)",
                                           R"([\s，,：:][故即]([@])[。\.]?$)",
                                           R"([\s，,：:]因此([@])[。\.]?$)",
                                           R"([是为。]\s?([@])[。\.]?$)",
                                           R"(因此\s?([@])[。\.]?$)",
                                           R"(显然\s?([@])[。\.]?$)",
                                           R"(答案是\s?(\S+)(?:。|$))",
                                           R"(答案应该是\s?(\S+)(?:。|$))",
                                           R"(答案为\s?(\S+)(?:。|$))",
                                           R"((?i:ANSWER\s*:\s*([@])))",
                                           R"([Tt]he answer is:?\s+\(?([@])\)?)",
                                           R"([Tt]he answer is:?\s+\(?\*?\*?([@])\*?\*?\)?)",
                                           R"([Tt]he answer is option:?\s+\(?([@])\)?)",
                                           R"([Tt]he correct answer is:?\s+\(?([@])\)?)",
                                           R"([Tt]he correct answer is option:?\s+\(?([@])\)?)",
                                           R"([Tt]he correct answer is:?.*?boxed\{([@])\})",
                                           R"([Tt]he correct option is:?.*?boxed\{([@])\})",
                                           R"([Tt]he correct answer option is:?.*?boxed\{([@])\})",
                                           R"([Tt]he answer to the question is:?\s+\(?([@])\)?)",
                                           R"(^选项\s?([@]))",
                                           R"(^([@])\s?选?项)",
                                           R"((\s|^)[@][\s。，,：:\.$])",
                                           R"(1.\s?(.*?)$)",
                                           R"(1.\s?([@])[.。$]?$)",
                                           R"(([@]):)",
                                           R"(([@]))"};

const std::vector<pattern>& patterns_for(const std::string& options) {
  static std::map<std::string, std::vector<pattern>, std::less<>> known;
  std::vector<pattern>& list = known[options];
  if (list.empty()) {
    for (const char* text : option_patterns) {
      list.emplace_back(py::replace_all(text, "@", options), pattern::dot_all);
    }
  }
  return list;
}

std::string without_punctuation(std::string_view text) {
  constexpr std::string_view ascii = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  std::string out;
  for (const char c : text) {
    if (ascii.find(c) == std::string_view::npos) out += c;
  }
  return out;
}

// As numpy: the first of equals, and a NaN before everything.
std::size_t arg_max(const std::vector<double>& values) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) return i;
    if (values[i] > values[best]) best = i;
  }
  return best;
}

}  // namespace

std::string first_capital(std::string_view response) {
  for (const char32_t c : py::decode(response)) {
    if (py::is_upper(c)) return py::encode(c);
  }
  return "";
}

std::string first_option(std::string_view response, std::string_view options) {
  const std::string_view text = py::strip(response);
  for (const pattern& p : patterns_for(std::string(options))) {
    const auto found = p.search(text);
    if (!found) continue;
    const std::string_view output = (*found)[1].empty() ? (*found)[0] : (*found)[1];
    for (const char letter : options) {
      if (output.find(letter) != std::string_view::npos) return std::string(1, letter);
    }
  }
  return "";
}

extraction mmlu_generative(std::string_view response, std::string_view gold) {
  const std::string text(py::strip(response.substr(0, response.find('\n'))));
  // numpy's strings, which the harness compares, end before their last zero characters.
  const auto compared = [](std::string_view t) {
    std::string plain = without_punctuation(py::lower(t));
    while (plain.ends_with('\0')) plain.pop_back();
    return plain;
  };
  return {text, compared(text) == compared(gold)};
}

choice_verdict likelihood_choice(const std::vector<double>& loglikelihoods,
                                 const std::vector<std::string>& choices, std::size_t gold) {
  if (loglikelihoods.size() != choices.size() || gold >= choices.size()) {
    throw usage_error("a multiple choice item has " + std::to_string(choices.size()) +
                      " choices, " + std::to_string(loglikelihoods.size()) +
                      " likelihoods and the right one is number " + std::to_string(gold));
  }
  std::vector<double> by_length;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    by_length.push_back(loglikelihoods[i] / static_cast<double>(py::length(choices[i])));
  }
  return {arg_max(loglikelihoods) == gold, arg_max(by_length) == gold};
}

}  // namespace unmask::scorers
