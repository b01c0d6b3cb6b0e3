// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The paired view of rows, shared by `run --paired` and `table --view paired`.
#pragma once

#include <string>

#include "harness/analysis/frame.h"
#include "harness/cli/options.h"

namespace unmask {

// --margin, --score-margin, --base
option_table paired_options();
// Each setting beside its base, with verdicts; usage errors for margins and names.
std::string paired_report(const frame& rows, const command_line& line);

}  // namespace unmask
