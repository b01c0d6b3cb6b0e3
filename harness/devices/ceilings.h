// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a GPU can do at most, for predictions made without one. Declared, with their source. Never
// used for a share of the roof in a measured row: those come from roofs measured in the same process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unmask {

struct device_ceilings {
  std::string name;
  double products = 0;  // FLOP/s, the library's largest bfloat16 products
  double copy = 0;      // bytes/s, read and written
  double read = 0;      // bytes/s, read alone
  double l2 = 0;        // bytes/s read from the L2 cache
  double l2_bytes = 0;
  double memory_bytes = 0;
  int multiprocessors = 0;
  double clock = 0;  // Hz, under load
  bool wgmma = false;
  // Tensor cores by mma.sync, over what the library reaches; 1 where it has nothing faster.
  double mma_share = 1;
  double shared = 227e3;  // bytes of shared memory that the blocks of a multiprocessor have
  // Seconds in which a kernel that depends on the one before does nothing: its start and drain.
  double gap = 0;
  double shortest = 0;     // of a kernel: its start, one trip to memory, its end
  double launch = 0;       // seconds between two launches by the host
  double wait = 0;         // the host sees that the device is done, and launches again
  double latency = 0;      // one trip to memory
  double bus_latency = 0;  // one trip of a kernel to memory of the host
  double bus = 0;          // bytes/s to and from the host
  // Between several of them in one machine: bytes/s that one receives, and seconds of a sum of nothing
  // if each reads the parts of all (in one) or adds a stretch and reads the sums of the others (in two).
  double link = 0, link_one = 0, link_two = 0;
  std::string source;
};

// Until each of `ranks` devices has what lies on every one of them: bytes that it receives by its link, and
// seconds, link_one or link_two + bytes / link. Nothing of one rank.
struct link_time {
  double seconds = 0, bytes = 0;
  bool two_shots = false;
};
link_time gathered_across(const device_ceilings& device, std::int32_t ranks, double bytes);
// The sum of `elements` numbers of `element_bytes` each, in one shot or in two (base/ranks/shots.h), whichever
// is faster: as if `two_shots` were set to where both take as long on this device.
link_time summed_across(const device_ceilings& device, std::int32_t ranks, double elements,
                        double element_bytes);

// a100, b200, h100, h200, rtx4090 or rtx5090; usage error for another name.
const device_ceilings& ceilings_of(const std::string& name);
std::vector<std::string> known_ceilings();

}  // namespace unmask
