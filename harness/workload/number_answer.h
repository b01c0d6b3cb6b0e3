// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The number an answer ends with.
#pragma once

#include <string>
#include <string_view>

#include "harness/base/json.h"

namespace unmask {

// "" when the integer after the last `####` of the output equals check.value, else the reason.
// Only the number's beginning counts: what follows its digits is not looked at.
std::string final_number_mismatch(const json_reader& check, std::string_view output);

}  // namespace unmask
