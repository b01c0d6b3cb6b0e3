// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/gsm8k.h"

#include <cmath>

#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"

namespace unmask::scorers {
using py::pattern;
namespace {

constexpr const char* nothing = "[invalid]";

// What lm-eval's exact_match compares after `regexes_to_ignore` and lower-casing.
std::string compared(std::string_view text) {
  static const pattern up_to_mark("(?s:.*)#### "), full_stop("\\.$");
  std::string plain = py::replace_all(py::replace_all(text, ",", ""), "$", "");
  return py::lower(full_stop.sub_text(up_to_mark.sub_text(plain, ""), ""));
}

extraction judged(std::string_view found, std::string_view target) {
  const std::string text(py::strip(found));
  return {text, compared(text) == compared(target)};
}

}  // namespace

extraction gsm8k_strict(std::string_view response, std::string_view target) {
  static const pattern marked(R"(#### (\-?[0-9\.\,]+))");
  const auto found = marked.search(response);
  return judged(found ? (*found)[1] : nothing, target);
}

extraction gsm8k_cot_strict(std::string_view response, std::string_view target) {
  static const pattern marked(R"(The answer is (\-?[0-9\.\,]+).)");
  const auto found = marked.search(response);
  return judged(found ? (*found)[1] : nothing, target);
}

extraction gsm8k_flexible(std::string_view response, std::string_view target) {
  static const pattern number(R"((-?[$0-9.,]{2,})|(-?[0-9]+))");
  const auto all = number.find_all(response);
  return judged(all.empty() ? nothing : all.back()[0], target);
}

extraction gsm8k_opencompass(std::string_view response, std::string_view reference) {
  static const pattern number(R"(\-?\d+\.\d+|\-?\d+)");
  const auto all = number.find_all(response.substr(0, response.find("Question:")));
  if (all.empty()) return {"NULL", reference == "NULL"};
  const std::string text(all.back()[0]);
  if (text == reference) return {text, true};
  const auto value = py::parse_float(text);
  const auto whole = py::parse_int(reference);
  if (!value || !whole) return {text, false};
  return {text, std::abs(*value - *py::parse_float(*whole)) < 1e-6};
}

std::string gsm8k_reference(std::string_view solution) {
  const auto parts = py::split(solution, "#### ");
  return parts.size() < 2 ? "" : py::replace_all(parts[1], ",", "");
}

}  // namespace unmask::scorers
