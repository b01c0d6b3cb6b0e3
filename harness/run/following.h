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
// Where a launcher started all ranks (base/ranks/launch.h), rank 0 waits for the others in place of
// starting them, and cannot start them again. Only then they may be on several machines.
//
// A rank that ends, fails or does not answer ends the group: the pass under way fails with a sentence
// that names it, and the next one gets a group of new ranks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/ranks/launch.h"
#include "harness/measure/point.h"

namespace unmask {

// Whether this process was started to follow. First of all: it then leaves signals to rank 0.
bool follows();
// What a follower does with its plan in place of measuring it. Ends the process.
[[noreturn]] void follow(const std::vector<experiment_point>& points, executor& with);
// The same of a rank that a launcher started.
[[noreturn]] void follow(const std::vector<experiment_point>& points, executor& with,
                         const rank_place& place);

// What ranks tell each other of themselves, as one text. Processor: between machines only.
std::string rank_facts(const std::string& program, const std::string& processor);
// A sentence that names the first rank whose program, then processor, is another than that of rank 0. Empty:
// all that told their facts are alike.
std::string unlike_rank(const std::vector<std::string>& told);

// The place of this process among the ranks of a launcher, where a point asks for several. Usage error
// if it started another number than every point asks for.
std::optional<rank_place> place_for(const std::vector<experiment_point>& points);

// A rank that a launcher started sees one GPU from here on, if it needs one and sees several: this process
// starts its program again, with the one of its number. Environment error if there are fewer.
void take_own_gpu(const rank_place& place, const std::vector<experiment_point>& points);

// An executor that prepares points of one rank as `with` does, and those of several on all ranks.
// Environment error where this process is not the program: it could not be started again. `place`: of a
// launcher, whose ranks are waited for at once, for ranks_patience() seconds.
std::unique_ptr<executor> with_ranks(executor& with, const std::optional<rank_place>& place = {});

}  // namespace unmask
