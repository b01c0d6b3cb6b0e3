// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/number_answer.h"

#include <limits>

#include "harness/base/text.h"

namespace unmask {
using namespace py;
namespace {

// The longest prefix that is an optional minus and digits, "" without digits.
std::string leading_integer(std::string_view text) {
  std::size_t end = text.starts_with('-') ? 1 : 0;
  const std::size_t digits = end;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end > digits ? std::string(text.substr(0, end)) : "";
}

// Digits compared as text, because a model may write any number of them.
std::string without_leading_zeros(const std::string& number) {
  const bool minus = number.starts_with('-');
  const std::size_t first = number.find_first_not_of('0', minus ? 1 : 0);
  if (first == std::string::npos) return "0";
  return (minus ? "-" : "") + number.substr(first);
}

}  // namespace

std::string final_number_mismatch(const json_reader& check, std::string_view output) {
  using limits = std::numeric_limits<std::int64_t>;
  const std::string wanted = std::to_string(check.integer("value", limits::min(), limits::max()));
  const std::size_t mark = output.rfind("####");
  if (mark == std::string_view::npos) return "there is no #### before the answer";
  const std::string_view tail = strip(output.substr(mark + 4));
  const std::string number = leading_integer(tail);
  if (number.empty()) return "no number follows ####";
  if (without_leading_zeros(number) == wanted) return "";
  return "the answer is " + in_ticks(number) + ", expected " + wanted;
}

}  // namespace unmask
