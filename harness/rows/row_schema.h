// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a row may hold, as a JSON Schema: made of the lists of fields (row_fields.h) and of [run]'s keys.
#pragma once

#include <string>

namespace unmask {

// The text of results/row.schema.json, which the package has a copy of (`unmask show schema`).
std::string row_schema_text();

}  // namespace unmask
