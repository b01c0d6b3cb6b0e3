// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace unmask {
namespace {

namespace fs = std::filesystem;

// A folder of the group of this process, and the folder at which its hierarchy is mounted.
struct group_place {
  fs::path group, mount;
};

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& text, const std::string& name) {
  const std::vector<std::string> parts = split(text, ',');
  return std::ranges::find(parts, name) != parts.end();
}

// Path of the process in the hierarchy of a controller; "" for version 2 asks for that one.
std::string path_in_hierarchy(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : lists(names, controller)) {
      return line.substr(second + 1);
    }
  }
  return "";
}

// Where the hierarchy of a controller of version 1, or version 2 for "", is mounted and the group of
// the process in it. A mount in a container begins at a group below the root: that part of the path is
// not repeated.
group_place place_of(const fs::path& root, const std::string& controller) {
  const std::string path = path_in_hierarchy(root, controller);
  if (path.empty()) return {};
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' ');
    const std::vector<std::string> after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool is_it = controller.empty() ? after[0] == "cgroup2"
                                          : after[0] == "cgroup" && lists(after[2], controller);
    if (!is_it) continue;
    const fs::path mount = root / fs::path(before[4]).relative_path();
    fs::path inside = fs::path(path).relative_path();
    const fs::path begins = fs::path(before[3]).relative_path();
    if (!begins.empty()) inside = inside.lexically_relative(begins);
    const std::string text = inside.string();
    // A group outside of what is mounted here is not to be seen.
    if (text.empty() || text == "." || text.starts_with("..")) return {mount, mount};
    return {mount / inside, mount};
  }
  return {};
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Processors' worth of time and the period of one group; zeros: no limit.
std::pair<double, double> quota_of(const fs::path& group, bool unified) {
  double quota = 0, period = 0;  // microseconds; -1 or "max": no limit
  if (unified) {
    std::istringstream(first_line(group / "cpu.max")) >> quota >> period;
  } else {
    std::istringstream(first_line(group / "cpu.cfs_quota_us")) >> quota;
    std::istringstream(first_line(group / "cpu.cfs_period_us")) >> period;
  }
  if (!(quota > 0) || !(period > 0)) return {0, 0};
  return {quota / period, period * 1e-6};
}

// Bytes; 0: no limit. Version 1 writes none as a number near 2^63.
std::uint64_t memory_of(const fs::path& group, bool unified) {
  std::uint64_t bytes = 0;
  std::istringstream in(first_line(group / (unified ? "memory.max" : "memory.limit_in_bytes")));
  if (!(in >> bytes) || bytes >= std::uint64_t{1} << 60) return 0;
  return bytes;
}

// Calls `look` with each group from that of the process up to the mount.
template <class Look>
void go_up(const group_place& place, const Look& look) {
  if (place.mount.empty()) return;
  for (fs::path group = place.group;; group = group.parent_path()) {
    look(group);
    if (group == place.mount || !group.has_relative_path()) return;
  }
}

}  // namespace

cgroup_limits read_cgroup_limits(const fs::path& root) {
  cgroup_limits limits;
  for (const bool unified : {false, true}) {
    go_up(place_of(root, unified ? "" : "cpu"), [&](const fs::path& group) {
      const auto [cpus, period] = quota_of(group, unified);
      if (cpus == 0 || (limits.cpus > 0 && limits.cpus <= cpus)) return;
      limits.cpus = cpus;
      limits.period_seconds = period;
      limits.cpu_stat = group / "cpu.stat";
    });
    go_up(place_of(root, unified ? "" : "memory"), [&](const fs::path& group) {
      const std::uint64_t bytes = memory_of(group, unified);
      if (bytes == 0) return;
      limits.memory_bytes = limits.memory_bytes > 0 ? std::min(limits.memory_bytes, bytes) : bytes;
    });
  }
  return limits;
}

std::int64_t throttled_periods(const fs::path& cpu_stat) {
  std::ifstream in(cpu_stat);
  std::string name;
  for (std::int64_t value = 0; in >> name >> value;) {
    if (name == "nr_throttled") return value;
  }
  return 0;
}

}  // namespace unmask
