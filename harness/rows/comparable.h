// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Whether times of two rows may be held against each other: one program on one machine. Resume and the
// plain table ask here; the package asks the same (unmask/rows/comparable.py).
#pragma once

#include <string>

#include "harness/rows/row_table.h"

namespace unmask {

// An environment without what changes while it stays the same machine: how busy and warm it is.
std::string machine_of(const std::string& environment);

// Names what keeps the times of two rows apart, "cpu_model, source_hash"; "" if they are of one program
// and one machine.
std::string difference_of(const result_row& a, const result_row& b);

// Why the times of these rows are not those of a quiet machine that is set up to measure, as one
// sentence; "" if nothing is known against them.
std::string unfit_sentence(const row_list& rows);

}  // namespace unmask
