// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Whether a JSON object is a row. The package judges by the same schema and the same rules
// (harness/python/unmask/rows/judge.py), so that every command takes the same lines of a file. For the
// .cpp files of this room: includes nlohmann.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace unmask {

// What keeps an object from being a row, as a sentence that names the field; empty: nothing. A null
// of a field that rows may lack means that it is absent. A whole number may be written 3.0.
std::string problem_of_row(const nlohmann::json& row);

}  // namespace unmask
