// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What an experiment needs from the machine, and what of it is missing: checked before anything is
// loaded, so that nobody waits for a run that cannot end. need_list() says what may be needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/devices/device.h"
#include "harness/plan/spec.h"

namespace unmask {

struct machine_view {
  std::size_t gpus = 0;
  double gpu_memory_gb = 0;  // of the largest GPU, 2^30 bytes
  double memory_gb = 0;
  int cores = 1;
  // has_benchmark: all files of one, as a need names it.
  std::function<bool(const std::string&)> has_weights, has_benchmark, has_trace;
  // Why a device of this name cannot be used; empty: it can.
  std::function<std::string(const std::string&)> lacks_device;
};

enum class need_value : std::uint8_t { none, number, name };
struct need_kind {
  std::string name;
  need_value takes;  // behind a colon
  std::string meaning;
  std::string words;  // in a list of what is missing: "{} GB of memory"
  // What this machine has instead of the value, or of the need itself where it takes none; empty: what
  // is needed.
  std::string (*lacks)(const std::string& value, const machine_view& machine);
  std::string spelled() const;  // "cuda", "gpus:N", "weights:NAME"
};
// All there are: check_need(), its messages and the page of the format read this list.
std::vector<need_kind> need_list();

// Usage error beginning with `where` for a need that is none of these.
void check_need(const std::string& need, const std::string& where);

// The devices an experiment asks for, in its order, none twice: --set before the sweep before [run].
std::vector<std::string> devices_of(const experiment_spec& spec);
// Those, chosen.
std::vector<chosen_device> choose_devices(const experiment_spec& spec);

// The needs that the file states, and those that follow from its models, workloads, devices and ranks
// (overrides included); a rank that another process started needs its own GPU only. In the order of the
// file, none twice.
std::vector<std::string> needs_of(const experiment_spec& spec);

machine_view this_machine();

// Each missing need in words, with what was found instead: "64 GB of memory (this machine has
// 23.5)". Empty: all is there.
std::vector<std::string> missing_needs(const std::vector<std::string>& needs,
                                       const machine_view& machine);

// Why the experiment cannot run on this machine: "NOT RUN: needs a; b", or the reason that the
// file itself gives. Empty: it can.
std::string cannot_run(const experiment_spec& spec, const machine_view& machine);

// The same with a line for each missing need, if there are several.
std::string obstacle_list(const experiment_spec& spec, const machine_view& machine);

}  // namespace unmask
