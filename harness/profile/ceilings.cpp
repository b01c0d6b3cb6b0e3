// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/ceilings.h"

#include "harness/base/nearest.h"

namespace unmask {
namespace {

// Data sheets: H100 SXM and H200 989 TFLOP/s, 3.35 and 4.8 TB/s; A100 SXM 312 TFLOP/s, 2.04 TB/s.
// Products and copy of H100 and H200 are what such cards were measured to reach (8192^3 product,
// copy read and written); those of the A100 are 85 % of its sheet. mma.sync on Hopper reaches 62.9 %
// of the peak as we recall Luo et al. 2024 (arXiv 2402.13499), not checked against their table: an
// assumption like the waits and gaps, which are microseconds of event chains and graphs on such
// cards. A first run must replace them all.
std::vector<device_ceilings> make_table() {
  device_ceilings h200;
  h200.name = "h200";
  h200.products = 788e12;
  h200.copy = 4.3e12;
  h200.l2 = 5.5e12;
  h200.l2_bytes = 50e6;
  h200.memory_bytes = 139e9;
  h200.multiprocessors = 132;
  h200.clock = 1.755e9;
  h200.mma_share = 0.629 * 989.0 / 788.0;
  h200.gap = 1.0e-6;
  h200.shortest = 2.0e-6;
  h200.launch = 4.0e-6;
  h200.wait = 12.0e-6;
  h200.latency = 0.7e-6;
  h200.bus_latency = 1.8e-6;
  h200.bus = 25e9;
  h200.source =
      "declared: 788 TFLOP/s and 4.3 TB/s (reached by such cards), waits and gaps assumed";
  device_ceilings h100 = h200;
  h100.name = "h100";
  h100.products = 798e12;
  h100.copy = 3.0e12;
  h100.memory_bytes = 79e9;
  h100.mma_share = 0.629 * 989.0 / 798.0;
  h100.source =
      "declared: 798 TFLOP/s and 3.0 TB/s (reached by such cards), waits and gaps assumed";
  device_ceilings a100 = h200;
  a100.name = "a100";
  a100.products = 265e12;
  a100.copy = 1.75e12;
  a100.l2 = 4.0e12;
  a100.l2_bytes = 40e6;
  a100.memory_bytes = 79e9;
  a100.multiprocessors = 108;
  a100.clock = 1.41e9;
  a100.mma_share = 1;
  a100.source = "declared: 85 % of the data sheet (265 TFLOP/s, 1.75 TB/s), waits and gaps assumed";
  return {h200, h100, a100};
}

const std::vector<device_ceilings>& table() {
  static const std::vector<device_ceilings> all = make_table();
  return all;
}

}  // namespace

std::vector<std::string> known_ceilings() {
  return names_in(table(), &device_ceilings::name);
}

const device_ceilings& ceilings_of(const std::string& name) {
  return table()[find_known("device of the cost model", name, known_ceilings())];
}

device_ceilings measured_ceilings(device_ceilings declared, double products, double copy) {
  if (products > 0) {
    declared.mma_share *= declared.products / products;
    declared.products = products;
  }
  if (copy > 0) declared.copy = copy;
  if (products > 0 || copy > 0) {
    declared.source = "measured products and copy; waits and gaps assumed";
  }
  return declared;
}

}  // namespace unmask
