// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the control groups of this process allow it: a container, a Slurm job and a systemd scope are
// all control groups, and a limit of any group above the process holds for it too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace unmask {

// Zeros and an empty path: no limit.
struct cgroup_limits {
  double cpus = 0;                 // processors' worth of time
  double period_seconds = 0;       // in which that time is given out
  std::filesystem::path cpu_stat;  // of the group whose quota is the smallest
  std::uint64_t memory_bytes = 0;
};

// Reads /proc/self/cgroup and /proc/self/mountinfo below `root`, and the files of every group from that
// of the process up to the root of its hierarchy, of version 1 and of version 2.
cgroup_limits read_cgroup_limits(const std::filesystem::path& root = "/");

// Periods in which the quota stopped the group, from its cpu.stat; 0 of a file that is not there.
std::int64_t throttled_periods(const std::filesystem::path& cpu_stat);

}  // namespace unmask
