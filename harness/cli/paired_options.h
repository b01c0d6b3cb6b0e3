// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The paired view of rows, shared by `ablation` and `table --paired`.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "harness/analysis/row.h"

namespace unmask {

// --margin, --score-margin, --base
void add_paired_options(boost::program_options::options_description& options);
// The comparison as `format` says, md or json; usage errors for margins and names.
std::string paired_report(const std::vector<result_row>& rows,
                          const boost::program_options::variables_map& values,
                          const std::string& format);

}  // namespace unmask
