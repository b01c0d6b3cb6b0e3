// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Nothing is measured with kernels that were not checked on the GPU at hand: the first time that this
// program meets it, the device check (kernels/check) runs in its small form. What it found is kept
// under a key of the program, the card, the driver, the libraries and the choices among kernels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/run_keys.h"
#include "kernels/check/checker.h"
#include "kernels/cuda/choices.h"

namespace unmask {

struct left_out_way {
  cuda::multiplied what;
  cuda::multiplier how;
  std::string why;  // the first case that was wrong: "attention, bf16 full 23x8x128 group 4: ..."
};

// A newer kernel and the one before it, timed in turn on this card.
struct raced_kernels {
  cuda::multiplied what;
  double newer_ms, before_ms;  // medians of a call
  bool newer_wins() const { return newer_ms < before_ms; }
};

// Ends the whole run: no other point would fare better.
struct wrong_kernels : error {
  explicit wrong_kernels(const std::string& sentence) : error(exit_code::run_failed, sentence) {}
};

struct device_check_outcome {
  std::int64_t cases = 0;  // of the last run of each check: all are right
  double seconds = 0;
  std::vector<left_out_way> left_out;
  std::vector<raced_kernels> raced;
  // For rows: "95 cases right", "95 cases right; not used: attention by wgmma (WHY)", "95 cases right;
  // attention by newer kernels 1.80 ms, before 2.40 ms".
  std::string text() const;
};

// All operations with several ways to multiply, in the order of ways.h.
const std::vector<cuda::multiplied>& every_multiplied();

// The backend of a device that takes these kernels.
using kernels_with = std::function<const backend&(const cuda::choices&)>;

// Runs these checks on a device's backend. If one is wrong, the way to multiply that it took first is
// left out from there on, and all checks of this kind run again. Throws wrong_kernels, naming operation
// and case, if no other way is left. `wgmma`: the device has it.
device_check_outcome run_device_checks(const kernels_with& device, cuda::choices chosen,
                                       const std::string& name,
                                       const std::vector<device_checks::device_check>& checks,
                                       bool wgmma);

// Times each newer kernel that `chosen` may take against the one before it: calls of both in turn, so that
// the card is as warm for one as for the other. `now`: seconds of any clock.
std::vector<raced_kernels> run_device_races(const kernels_with& device, const cuda::choices& chosen,
                                            const std::vector<device_checks::device_race>& races,
                                            bool wgmma, const std::function<double()>& now);

// What is kept of an outcome, as JSON; environment error where the text is none.
std::string json_of(const device_check_outcome& outcome);
device_check_outcome outcome_of(const std::string& json);

// Where outcomes are kept: $UNMASK_CACHE, or ~/.cache/unmask; empty: nowhere.
std::filesystem::path kept_checks_folder();

// Whether times on this card decide about newer kernels: if neither [run] nor the environment says so. Of
// several ranks each card would choose for itself, and bits are equal by equal kernels only: they take the
// older ones.
bool card_decides(const run_keys& run);

// What the check of the kernels that [run] asks for found on the GPU, as rows say it: once per program
// and key, recalled if it is kept, anew with `again`. Says on standard error what was checked.
// not_checked if device_check is "off".
inline constexpr const char* not_checked = "NOT VERIFIED";
std::string check_gpu(const run_keys& run, bool again = false);
// What a run on a GPU or its emulation takes: what [run] asks for, less what that check found wrong. Newer
// kernels that [run] leaves open (kernels = "auto") are taken where they were right and faster on this card.
cuda::choices checked_choices(const run_keys& run);

}  // namespace unmask
