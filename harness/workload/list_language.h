// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The list language of the family list_program: stages separated by `|`, applied left to right.
//
//   program := stage { "|" stage }        stage := operation [ non-negative integer ]
//   lists   : sort reverse double square negate unique evens odds, take N, drop N, add N, above N
//   reducers: sum max min count, last stage only; max and min of an empty list are 0
//
// An output is scored by running it, so that any program with the right behaviour is right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace unmask {

struct list_result {
  bool is_list = true;  // false: a reducer gave the one number in `items`
  std::vector<std::int64_t> items;
  std::string problem;  // why the program did not run; empty when it did

  bool operator==(const list_result&) const = default;
};

// Runs a program. Integers grow as needed on the way, as in the Python definition; limits that no
// sensible answer reaches keep a hostile output cheap: 1000 stages, 10000 input items, 65536 bits
// a number, and a final result within 64 bits.
list_result run_list_program(std::string_view program, const std::vector<std::int64_t>& input);

// "" when the program gives check.outputs[i] on every check.inputs[i], else the first difference.
std::string list_program_mismatch(const json_reader& check, std::string_view program);

}  // namespace unmask
