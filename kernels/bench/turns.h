// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// All ways of an operation in one process, calls alternating. A card that is warm is a fifth slower than a cool
// one: what ran minutes earlier is no comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/choices.h"

namespace unmask::bench {

// One way of a case, and what it took.
struct kernel_way {
  std::string name;             // "wgmma", "cuBLASLt"
  bool own = true;              // else a library's
  std::string why;              // why it was not timed: absent, wrong; empty: it was
  std::vector<double> seconds;  // of a call: one mean for each turn
  bool before = false;          // an own kernel that a newer one would take the place of
  bool second = false;  // by a module of another library, which is taken if it beats every own way
  std::string version;  // of that library
};

struct kernel_case {
  std::string name;  // as of unmask_bench: "linear/rows:1/in:4096/out:24576/bits:16"
  std::vector<kernel_way> ways;
};

struct turn_settings {
  std::function<const backend&(const cuda::choices&)> device;
  cuda::choices asked;  // with what the device check left out
  bool library = true;  // a library of products is there; else `no_library` says why not
  std::string no_library;
  bool wgmma = false;  // the card has it, and this program code for it
  // Which ways are wanted. before: what run.kernels = "before" takes if there is a newer kernel.
  bool own = true, before = true, libraries = true;
  std::string cases;  // regular expression, searched for in names; empty: all
  std::int64_t turns = 3;
  bool small = false;  // sizes for a GPU in software or emulated, one call a turn
  // Called when the turns of a case begin, behind its checks and the calls that warm it up.
  std::function<void()> begin = [] {};
};

// Times every case in turn: in each turn every way makes its calls, forwards in odd turns, backwards in even
// ones. Before that each way computes the case once; one whose result differs from that of the CUDA cores, or
// that throws, is not timed and says so. A second way has passed its small cases before that (library_module.h).
// `tell` is called with each case when its turns are over. Usage error: `cases` is no regular expression, or finds
// nothing.
void time_in_turn(const turn_settings& settings,
                  const std::function<void(const kernel_case&)>& tell);

// Runs the ways in turn: call(way, i) makes call i of a way and may return before it is done, wait(way) waits
// for all of them. Returns the seconds of a call by way and turn.
std::vector<std::vector<double>> alternate(std::size_t ways, std::int64_t turns, int calls,
                                           const std::function<void(std::size_t, int)>& call,
                                           const std::function<void(std::size_t)>& wait);

}  // namespace unmask::bench
