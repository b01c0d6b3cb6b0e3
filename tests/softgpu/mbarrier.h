// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What instructions on barriers in shared memory and copies that report to them have in common.
#pragma once

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {

struct mbarrier_place {
  block* b;
  u32 at;
};
// The block and the place that a lane names; checked. cluster: it may be another block's.
mbarrier_place mbarrier_at(warp& w, const instruction& i, const operand& o, int lane, s64 offset,
                           bool cluster);
// The barrier that was made there.
mbarrier& valid_mbarrier(warp& w, const instruction& i, int lane, const mbarrier_place& place);
// The phase ends if nothing is to come any more.
void complete(mbarrier& m);
// Where a copy goes, as its instruction names it: shared::cluster addresses; the blocks of a multicast.
struct copy_target {
  u64 to, barrier;
  u32 blocks;
  bool multicast;
};
// It lands in the block, or in each of them, now or later.
void issue_copy(warp& w, const instruction& i, int lane, const copy_target& target, bulk_copy copy);
// Shared memory goes to global memory when its group is waited for.
void issue_store(warp& w, int lane, const bulk_store& s);

}  // namespace unmask::softgpu
