// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over the ranks that run one model together (harness/base/ranks/group.h), in one fixed order:
// all ranks get the same bits. Without ranks the same operations add the pieces of one process.
#pragma once

#include <cstddef>

#include "harness/base/ranks/group.h"
#include "harness/base/ranks/shots.h"
#include "kernels/operation.h"

namespace unmask {

// x [count] of every rank in force becomes their sum in rank order; one rank: x stays. Collective.
void sum_over_ranks(double* x, std::size_t count);

// How a device adds up what its kernels found of the heads of this rank (head_sum in operation.h): in
// launch order, so that nobody waits. `begin` comes before those kernels and `add` behind them.
struct device_head_sums {
  bool (*holds)(const void* data);  // memory that its kernels may write
  void (*begin)(const head_sum& of);
  void (*add)(const head_sum& of);
};
class register_head_sums {  // before main()
 public:
  explicit register_head_sums(const device_head_sums& of);
};

namespace op {

// y (+)= the sum of all parts of all ranks: parts [m, R * D] float32 of this rank, y [R, D] float32.
// While more than one is left, parts 2i and 2i + 1 become their float32 sum and an odd last one stays;
// the parts of rank 0 come first. A rank adds its own to one before it sends that one: with as many
// parts on each rank, a power of two, the bits depend on the number of all parts alone. `group` null:
// one rank. The reference leaves `parts` as they were; other bodies may overwrite them.
// `travels` bf16: every part is rounded to bfloat16 before it is added, so that it may be sent in half the
// bytes; a rank of several then has one part. What is added is float32 all the same.
// Parts of more than `two_shots` bytes are added in stretches, one by each rank, if fewer bytes move then
// (harness/base/ranks/shots.h): the bits are the same. The reference sends whole parts.
struct sum_ranks {
  rank_group* group = nullptr;
  tensor_view parts;
  tensor_view y;
  bool accumulate = false;
  dtype travels = dtype::f32;
  std::int64_t two_shots = two_shots_above;  // as many on every rank
};

}  // namespace op

// std::logic_error for parts that cannot travel so: what every body asks first.
void check_travels(const op::sum_ranks& args);

}  // namespace unmask
