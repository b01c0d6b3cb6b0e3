// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/math_answer.h"

#include <algorithm>
#include <utility>

#include "harness/base/text.h"

namespace unmask {
using namespace py;
namespace {

// \sqrt3 -> \sqrt{3}
std::string brace_roots(const std::string& text) {
  const auto parts = split(text, "\\sqrt");
  std::string result(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    result += "\\sqrt";
    if (parts[i].empty() || parts[i][0] == '{') {
      result += parts[i];
    } else {
      result += std::string("{") + parts[i][0] + "}" + std::string(parts[i].substr(1));
    }
  }
  return result;
}

// \frac12 -> \frac{1}{2}, \frac1{72} -> \frac{1}{72}. A fraction cut off after its first character
// leaves the whole text as it was.
std::string brace_fractions(const std::string& text) {
  const auto parts = split(text, "\\frac");
  std::string result(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    result += "\\frac";
    if (part.starts_with('{')) {
      result += part;
      continue;
    }
    if (part.size() < 2) return text;
    result += std::string("{") + part[0] + "}";
    if (part[1] == '{') {
      result += part.substr(1);
    } else {
      result += std::string("{") + part[1] + "}" + std::string(part.substr(2));
    }
  }
  return result;
}

bool is_plain_integer(std::string_view text) {
  const bool minus = text.starts_with('-');
  const std::string_view digits = text.substr(minus ? 1 : 0);
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return false;
  return digits == "0" ? !minus : digits[0] != '0';
}

// 3/4 -> \frac{3}{4}, for whole numbers only
std::string slash_to_fraction(const std::string& text) {
  const auto parts = split(text, "/");
  if (parts.size() != 2 || !is_plain_integer(parts[0]) || !is_plain_integer(parts[1])) return text;
  return "\\frac{" + std::string(parts[0]) + "}{" + std::string(parts[1]) + "}";
}

}  // namespace

std::string last_boxed(std::string_view text) {
  for (std::size_t limit = std::string_view::npos;;) {
    const std::size_t boxed = text.rfind("\\boxed", limit);
    const std::size_t fbox = text.rfind("\\fbox", limit);
    if (boxed == std::string_view::npos && fbox == std::string_view::npos) return "";
    const bool first =
        fbox == std::string_view::npos || (boxed != std::string_view::npos && boxed > fbox);
    const std::size_t at = first ? boxed : fbox;
    std::size_t open = at + (first ? 6 : 5);
    while (open < text.size() && text[open] == ' ') ++open;
    if (open < text.size() && text[open] == '{') {
      int depth = 0;
      for (std::size_t i = open; i < text.size(); ++i) {
        if (text[i] == '{') ++depth;
        if (text[i] == '}' && --depth == 0) {
          return std::string(text.substr(open + 1, i - open - 1));
        }
      }
    } else if (open > at + 6) {  // "\boxed 2": one token without braces
      return std::string(text.substr(open, text.find_first_of(" $\n.", open) - open));
    }
    if (at == 0) return "";
    limit = at - 1;
  }
}

std::string normal_math(std::string_view latex) {
  std::string text(latex);
  const std::pair<const char*, const char*> before_units[] = {
      {"\n", ""},     {"\\!", ""},     {"\\\\", "\\"},    {"tfrac", "frac"}, {"dfrac", "frac"},
      {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""}, {"^\\circ", ""},   {"\\$", ""}};
  for (const auto& [from, to] : before_units) text = replace_all(text, from, to);
  // "\text{ " only ever begins a unit.
  text = text.substr(0, text.find("\\text{ "));
  const std::pair<const char*, const char*> after_units[] = {
      {"\\%", ""}, {" .", " 0."}, {"{.", "{0."}};
  for (const auto& [from, to] : after_units) text = replace_all(text, from, to);
  if (text.empty()) return text;
  if (text[0] == '.') text = "0" + text;
  const auto sides = split(text, "=");  // "k = 5" -> "5"
  if (sides.size() == 2 && sides[0].size() <= 2) text = std::string(sides[1]);
  text = brace_roots(text);
  text = replace_all(text, " ", "");
  text = brace_fractions(text);
  if (text == "0.5") text = "\\frac{1}{2}";
  return slash_to_fraction(text);
}

std::string boxed_mismatch(std::string_view wanted, std::string_view output) {
  const std::string answer = last_boxed(output);
  if (answer.empty()) return "there is no \\boxed{} answer";
  if (normal_math(answer) == normal_math(wanted)) return "";
  return "the answer is " + in_ticks(answer) + ", expected " + in_ticks(wanted);
}

}  // namespace unmask
