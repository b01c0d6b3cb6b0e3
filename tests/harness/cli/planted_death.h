// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The test program as the program `unmask`, one rank of which meets an end where it is told to:
//
//   UNMASK_PLANTED="RANK HOW PLACE NUMBER FILE"
//   HOW     kill, stop: by a signal; exit: with exit code 1; no_memory: std::bad_alloc; differ: what the
//           sum gives this rank has the wrong sign
//   PLACE   start: of the process, before it is one of the group
//           loading: where it asks for its kernels: before it reads a model, and before it packs it
//           sum, head: before this operation
//           pass: where rank 0 begins to measure one
//   NUMBER  the how-manieth time that the rank, or rank 0, comes there
//   FILE    is there until it happens, so that it happens once
//
// UNMASK_PLANTED="RANK unmetered - 0 -" asks for no death: each rank has the stand-in for the driver's telemetry
// except RANK, which has none.
//
// Runs have --device mortal, which is the device cpu besides.
#pragma once

namespace unmask::test {

// Whether the environment asks for that.
bool plant_death();

}  // namespace unmask::test
