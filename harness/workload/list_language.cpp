// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/list_language.h"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <limits>
#include <set>
#include <stdexcept>

#include "harness/base/text.h"

namespace unmask {
namespace {

// `square` overflows 64 bits after five stages, and a later `count` or `evens` does not care.
using integer = boost::multiprecision::cpp_int;
using list = std::vector<integer>;

constexpr std::size_t most_stages = 1000;
constexpr std::size_t most_items = 10000;
constexpr std::size_t most_bits = 65536;

// Stays inside this file: a wrong program is a score, not an error.
struct program_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class change>
list mapped(list xs, change f) {
  for (integer& x : xs) {
    x = f(x);
    if (x != 0 && msb(abs(x)) >= most_bits) throw program_error("a number is too large");
  }
  return xs;
}

template <class condition>
list filtered(list xs, condition keep) {
  std::erase_if(xs, [&](const integer& x) { return !keep(x); });
  return xs;
}

list unique(list xs) {  // keeps the first copy of each
  std::set<integer> seen;
  return filtered(std::move(xs), [&](const integer& x) { return seen.insert(x).second; });
}

bool is_even(const integer& x) {
  return x % 2 == 0;
}

// The largest index that n stands for: a list cannot be cut after its end.
std::size_t cut(const integer& n, const list& xs) {
  return n < xs.size() ? static_cast<std::size_t>(n) : xs.size();
}

list apply_plain(std::string_view op, list xs) {
  if (op == "sort") {
    std::sort(xs.begin(), xs.end());
    return xs;
  }
  if (op == "reverse") {
    std::reverse(xs.begin(), xs.end());
    return xs;
  }
  if (op == "double") return mapped(std::move(xs), [](const integer& x) { return integer(2 * x); });
  if (op == "square") return mapped(std::move(xs), [](const integer& x) { return integer(x * x); });
  if (op == "negate") return mapped(std::move(xs), [](const integer& x) { return integer(-x); });
  if (op == "unique") return unique(std::move(xs));
  if (op == "evens") return filtered(std::move(xs), is_even);
  if (op == "odds") {
    return filtered(std::move(xs), [](const integer& x) { return !is_even(x); });
  }
  throw program_error("there is no operation " + in_ticks(op));
}

bool takes_number(std::string_view op) {
  return op == "take" || op == "drop" || op == "add" || op == "above";
}

list apply_number(std::string_view op, const integer& n, list xs) {
  if (op == "add") {
    return mapped(std::move(xs), [&](const integer& x) { return integer(x + n); });
  }
  if (op == "above") return filtered(std::move(xs), [&](const integer& x) { return x > n; });
  const auto middle = xs.begin() + static_cast<std::ptrdiff_t>(cut(n, xs));
  return op == "take" ? list(xs.begin(), middle) : list(middle, xs.end());
}

bool is_reducer(std::string_view op) {
  return op == "sum" || op == "max" || op == "min" || op == "count";
}

integer reduce(std::string_view op, const list& xs) {
  if (op == "count") return xs.size();
  if (op == "sum") {
    integer total = 0;
    for (const integer& x : xs) total += x;
    return total;
  }
  if (xs.empty()) return 0;
  return op == "max" ? *std::max_element(xs.begin(), xs.end())
                     : *std::min_element(xs.begin(), xs.end());
}

integer argument_of(std::string_view op, const std::vector<std::string_view>& words) {
  const bool one = words.size() == 2 && std::all_of(words[1].begin(), words[1].end(), is_digit);
  if (!one) throw program_error(in_ticks(op) + " needs one non-negative integer");
  // cpp_int reads a leading 0 as octal, and the language knows decimal numbers only.
  const std::size_t first = std::min(words[1].find_first_not_of('0'), words[1].size() - 1);
  const std::string_view digits = words[1].substr(first);
  if (digits.size() > most_bits / 4) throw program_error("a number is too large");
  return integer(std::string(digits));
}

list_result narrowed(const list& xs, bool is_list) {
  using limits = std::numeric_limits<std::int64_t>;
  list_result result{is_list, {}, {}};
  for (const integer& x : xs) {
    if (x < limits::min() || x > limits::max()) throw program_error("the result is too large");
    result.items.push_back(static_cast<std::int64_t>(x));
  }
  return result;
}

list_result run(std::string_view program, list xs) {
  const auto stages = split(program, "|");
  if (stages.size() > most_stages) throw program_error("the program has too many stages");
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto words = words_of(stages[i]);
    if (words.empty()) throw program_error("stage " + std::to_string(i + 1) + " is empty");
    const std::string_view op = words[0];
    if (is_reducer(op)) {
      if (words.size() > 1 || i + 1 != stages.size()) {
        throw program_error(in_ticks(op) + " takes no argument and must be the last stage");
      }
      return narrowed({reduce(op, xs)}, false);
    }
    if (takes_number(op)) {
      xs = apply_number(op, argument_of(op, words), std::move(xs));
    } else {
      xs = apply_plain(op, std::move(xs));
      if (words.size() > 1) throw program_error(in_ticks(op) + " takes no argument");
    }
  }
  return narrowed(xs, true);
}

std::vector<std::int64_t> numbers_of(const json_reader& check, std::string_view key,
                                     const json_value& value) {
  std::vector<std::int64_t> numbers;
  const auto add = [&](const json_value& v) {
    const std::int64_t* n = v.integer();
    if (n == nullptr) check.fail(key, std::string("must hold integers, not ") + v.type_name());
    numbers.push_back(*n);
  };
  if (const json_value::array* items = value.items()) {
    for (const json_value& item : *items) add(item);
  } else {
    add(value);
  }
  return numbers;
}

}  // namespace

list_result run_list_program(std::string_view program, const std::vector<std::int64_t>& input) {
  try {
    if (input.size() > most_items) throw program_error("the input has too many items");
    return run(program, list(input.begin(), input.end()));
  } catch (const program_error& problem) {
    return {true, {}, problem.what()};
  }
}

std::string list_program_mismatch(const json_reader& check, std::string_view program) {
  const json_value::array* inputs = check.at("inputs").items();
  const json_value::array* outputs = check.at("outputs").items();
  if (inputs == nullptr) check.fail("inputs", "must be an array of arrays");
  if (outputs == nullptr || outputs->size() != inputs->size()) {
    check.fail("outputs", "must be an array with one result for each of `inputs`");
  }
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    const json_value& expected = (*outputs)[i];
    const list_result right{expected.items() != nullptr, numbers_of(check, "outputs", expected),
                            ""};
    const list_result got = run_list_program(program, numbers_of(check, "inputs", (*inputs)[i]));
    if (!got.problem.empty()) return got.problem;
    if (got != right) return "wrong result on input " + std::to_string(i + 1);
  }
  return "";
}

}  // namespace unmask
