// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Points of several ranks. Rank 0 is the program as it is: it alone plans, claims points, writes rows,
// keeps passes and draws progress. It starts the other ranks with its own command line; they make the
// same plan, then follow its commands:
//
//   prepare  the points of a group        each rank loads its share; what it lacks goes to rank 0
//   remember what a point knows by now    a calibration
//   pass     a point once                 all ranks compute; their records but rank 0's are dropped
//   end
//
// A rank that ends, fails or does not answer ends the group: the pass under way fails with a sentence
// that names it, and the next one gets a group of new ranks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "harness/measure/point.h"

namespace unmask {

// Whether this process was started to follow. First of all: it then leaves signals to rank 0.
bool follows();
// What a follower does with its plan in place of measuring it. Ends the process.
[[noreturn]] void follow(const std::vector<experiment_point>& points, executor& with);

// An executor that prepares points of one rank as `with` does, and those of several on all ranks.
// Environment error where this process is not the program: it could not be started again.
std::unique_ptr<executor> with_ranks(executor& with);

}  // namespace unmask
