// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Nothing is measured with kernels that were not checked on the GPU at hand: the first time that this
// program meets it, the device check (kernels/check) runs in its small form. What it found is kept
// under a key of the program, the card, the driver, the libraries and the choices among kernels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/run_keys.h"
#include "kernels/check/checker.h"

namespace unmask {

struct left_out_way {
  cuda::multiplied what;
  cuda::multiplier how;
  std::string why;  // the first case that was wrong: "attention, bf16 full 23x8x128 group 4: ..."
};

// Ends the whole run: no other point would fare better.
struct wrong_kernels : error {
  explicit wrong_kernels(const std::string& sentence) : error(exit_code::run_failed, sentence) {}
};

struct device_check_outcome {
  std::int64_t cases = 0;  // of the last run of each check: all are right
  double seconds = 0;
  std::vector<left_out_way> left_out;
  // For rows: "95 cases right", "95 cases right; not used: attention by wgmma (WHY)".
  std::string text() const;
};

// Runs these checks on the backend. Where one is wrong, the way to multiply that it took first is left
// out for the rest of the program (cuda::may_multiply), and all checks of this kind run again. Throws
// wrong_kernels, naming operation and case, where no other way is left. `wgmma`: the device has it.
device_check_outcome run_device_checks(const backend& device, const std::string& name,
                                       const std::vector<device_checks::device_check>& checks,
                                       bool wgmma);

// What is kept of an outcome, as JSON; environment error where the text is none.
std::string json_of(const device_check_outcome& outcome);
device_check_outcome outcome_of(const std::string& json);

// Where outcomes are kept: $UNMASK_CACHE, or ~/.cache/unmask; empty: nowhere.
std::filesystem::path kept_checks_folder();

// Tells the CUDA backend what [run] says about kernels.
void choose_ways(const run_keys& run);
// The same, and returns what the check of those kernels found on the GPU, as rows say it: once per
// program and key, recalled where it is kept, anew with `again`. Says on standard error what was
// checked. not_checked where device_check is "off".
inline constexpr const char* not_checked = "NOT VERIFIED";
std::string use_gpu(const run_keys& run, bool again = false);

}  // namespace unmask
