// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/ceilings.h"

#include <algorithm>
#include <utility>

#include "harness/base/nearest.h"
#include "harness/base/ranks/shots.h"

namespace unmask {
namespace {

// Data sheets: H100 SXM and H200 989 TFLOP/s, 3.35 and 4.8 TB/s; A100 SXM 312 TFLOP/s, 2.04 TB/s.
// Products and copy of H100 and H200 are what such cards were measured to reach (8192^3 product,
// copy read and written); those of the A100 are 85 % of its sheet. mma.sync on Hopper reaches 62.9 %
// of the peak as we recall Luo et al. 2024 (arXiv 2402.13499), not checked against their table: an
// assumption like the waits and gaps, which are microseconds of event chains and graphs on such
// cards. Measured on an H100 (results/gpu), and taken for the others: a launch of a short kernel, 4.4 to
// 5.2 us, and reads alone against a copy, 3.02 to 2.82 TB/s.
//
// Links: B of NVLink 4 (H100, H200) and its two latencies are chosen for sums that vLLM published for
// four H100s (pull request 24532), within 20 % of them; cost_model_test holds both together. NVLink 3
// (A100) has 200 GB/s of bus bandwidth in nccl-tests (issues 149 and 178), PCIe 4 x16 (RTX) 20 GB/s (178);
// their latencies are assumed, and that a B200 is no better than an H100.
//
// RTX 4090 and 5090: 165.2 and 209.5 TFLOP/s of bfloat16 with float32 sums, 1008 and 1792 GB/s, 128
// and 170 multiprocessors, L2 of 72 and 96 MiB, boost clocks of 2.52 and 2.407 GHz ("NVIDIA Ada GPU
// Architecture" and "NVIDIA RTX Blackwell GPU Architecture", specifications of the card). B200:
// 2250 TFLOP/s and 8 TB/s (data sheet of HGX B200), 148 multiprocessors, L2 of 126.5 MiB and 178.35
// GiB as its driver reports them (github.com/pytorch/ao, pull request 4002). Of all three 85 % of
// products and 86 % of memory, as of the A100, and the L2 rate of A100 or H200: assumed. B200
// reaches its peak by tcgen05, which these kernels do not use: mma.sync is assumed at the A100's
// 2048 operations per clock and multiprocessor. Shared memory: CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability".
std::vector<device_ceilings> later_cards(const device_ceilings& a100, const device_ceilings& h200) {
  device_ceilings rtx4090 = a100;
  rtx4090.name = "rtx4090";
  rtx4090.products = 0.85 * 165.2e12;
  rtx4090.copy = 0.86 * 1.008e12;
  rtx4090.l2_bytes = 72 * 1048576.0;
  rtx4090.memory_bytes = 24e9;
  rtx4090.multiprocessors = 128;
  rtx4090.clock = 2.52e9;
  rtx4090.shared = 99e3;
  rtx4090.link = 20e9;
  rtx4090.link_one = 15e-6;
  rtx4090.link_two = 30e-6;
  rtx4090.source =
      "declared: 85 % of the data sheet (140 TFLOP/s, 0.87 TB/s), L2, waits and gaps assumed";
  device_ceilings rtx5090 = rtx4090;
  rtx5090.name = "rtx5090";
  rtx5090.products = 0.85 * 209.5e12;
  rtx5090.copy = 0.86 * 1.792e12;
  rtx5090.l2_bytes = 96 * 1048576.0;
  rtx5090.memory_bytes = 32e9;
  rtx5090.multiprocessors = 170;
  rtx5090.clock = 2.407e9;
  rtx5090.source =
      "declared: 85 % of the data sheet (178 TFLOP/s, 1.54 TB/s), L2, waits and gaps assumed";
  device_ceilings b200 = h200;
  b200.name = "b200";
  b200.products = 0.85 * 2250e12;
  b200.copy = 0.86 * 8e12;
  b200.l2_bytes = 126.5 * 1048576.0;
  b200.memory_bytes = 178.35 * 1073741824.0;
  b200.multiprocessors = 148;
  b200.clock = 1.856e9;  // at which 8192 operations per clock and multiprocessor are 2250 TFLOP/s
  b200.wgmma = false;
  b200.mma_share = 148 * 2048 * 1.856e9 / b200.products;
  b200.source =
      "declared: 85 % of the data sheet (1912 TFLOP/s, 6.9 TB/s), mma.sync, L2, waits and gaps "
      "assumed";
  return {rtx4090, rtx5090, b200};
}

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
  h200.wgmma = true;
  h200.mma_share = 0.629 * 989.0 / 788.0;
  h200.gap = 1.0e-6;
  h200.shortest = 2.0e-6;
  h200.launch = 4.9e-6;
  h200.wait = 12.0e-6;
  h200.latency = 0.7e-6;
  h200.bus_latency = 1.8e-6;
  h200.bus = 25e9;
  h200.link = 300e9;
  h200.link_one = 6e-6;
  h200.link_two = 16e-6;
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
  a100.wgmma = false;
  a100.mma_share = 1;
  a100.link = 200e9;
  a100.link_one = 8e-6;
  a100.link_two = 18e-6;
  a100.source = "declared: 85 % of the data sheet (265 TFLOP/s, 1.75 TB/s), waits and gaps assumed";
  std::vector<device_ceilings> all = {h200, h100, a100};
  for (device_ceilings& card : later_cards(a100, h200)) all.push_back(std::move(card));
  for (device_ceilings& card : all) card.read = card.copy * (3.02 / 2.82);
  return all;
}

const std::vector<device_ceilings>& table() {
  static const std::vector<device_ceilings> all = make_table();
  return all;
}

}  // namespace

std::vector<std::string> known_ceilings() {
  return names_in(table(), &device_ceilings::name);
}

link_time gathered_across(const device_ceilings& d, std::int32_t ranks, double bytes) {
  if (ranks < 2) return {};
  const double received = bytes_in_one_shot(bytes, 1, ranks);
  return {d.link_one + received / d.link, received};
}

link_time summed_across(const device_ceilings& d, std::int32_t ranks, double elements,
                        double element_bytes) {
  const link_time one = gathered_across(d, ranks, elements * element_bytes);
  if (ranks < 2) return one;
  const double received = bytes_in_two_shots(elements, element_bytes, ranks);
  const link_time two = {d.link_two + received / d.link, received, true};
  return two.seconds < one.seconds ? two : one;
}

const device_ceilings& ceilings_of(const std::string& name) {
  return table()[find_known("device of the cost model", name, known_ceilings())];
}

}  // namespace unmask
