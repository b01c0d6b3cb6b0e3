// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How long a plan took on this machine before: by the rows of its very points, whatever program made
// them.
#pragma once

#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/rows/row.h"

namespace unmask {

// One sentence for a forecast: the hours of warm-up and the fewest repetitions of the points that have a
// timed row of this machine (processor, threads and GPUs of `environment`), and how many have none.
// Nothing is known of the others, so they are not guessed.
std::string past_hours(const experiment_spec& spec, const std::vector<experiment_point>& points,
                       const std::vector<result_row>& rows, const std::string& environment);

}  // namespace unmask
