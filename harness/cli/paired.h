// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The paired view of rows, shared by `run --paired` and `table --view paired`.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "harness/analysis/frame.h"
#include "harness/analysis/text_table.h"

namespace unmask {

// --margin, --score-margin, --base
void add_paired_options(boost::program_options::options_description& options);
// Each setting beside its base, with verdicts; usage errors for margins and names.
std::string paired_report(const frame& rows, const boost::program_options::variables_map& values,
                          table_format format);

}  // namespace unmask
