// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <bit>
#include <cstdio>
#include <cstring>

#include "tests/softgpu/decode.h"
#include "tests/softgpu/tensor.h"

namespace unmask::softgpu {
namespace {

void need(const warp& w, const instruction& i, u32 named) {
  const u32 there = w.lanes & ~w.left;
  if ((named & there & ~w.active) != 0) {
    char text[128];
    std::snprintf(text, sizeof text, "lanes %08x are named, %08x are here, %08x have left", named,
                  w.active, w.left);
    note(w, i, -1, "named lanes are missing", text);
  }
  if ((w.active & ~named) != 0) {
    note(w, i, std::countr_zero(w.active & ~named),
         "a lane that is not named executes a collective", "");
  }
}

template <int mode>  // 0 idx, 1 up, 2 down, 3 bfly
void shuffle(warp& w, const instruction& i) {
  // d, p (or sink), a, b, c, members
  const u32 members = w.at<u32>(i.o[5])[std::countr_zero(w.active)];
  need(w, i, members);
  u32 before[32];
  std::memcpy(before, w.at<u32>(i.o[2]), sizeof before);
  const u32* b = w.at<u32>(i.o[3]);
  const u32* c = w.at<u32>(i.o[4]);
  u32* d = w.at<u32>(i.o[0]);
  u32 p = 0;
  each_lane(w.active, [&](int lane) {
    const u32 bval = b[lane] & 31, cval = c[lane] & 31, segment = c[lane] >> 8 & 31;
    const u32 l = static_cast<u32>(lane);
    const u32 max_lane = (l & segment) | (cval & ~segment), min_lane = l & segment;
    s32 j = 0;
    bool in = false;
    if (mode == 1) {
      j = static_cast<s32>(l) - static_cast<s32>(bval);
      in = j >= static_cast<s32>(max_lane);
    } else if (mode == 2) {
      j = static_cast<s32>(l + bval);
      in = j <= static_cast<s32>(max_lane);
    } else if (mode == 3) {
      j = static_cast<s32>(l ^ bval);
      in = j <= static_cast<s32>(max_lane);
    } else {
      j = static_cast<s32>(min_lane | (bval & ~segment));
      in = j <= static_cast<s32>(max_lane);
    }
    if (!in) j = static_cast<s32>(l);
    if ((w.active >> j & 1) == 0) {
      note(w, i, lane, "shuffle from a lane that is not there", "lane " + std::to_string(j));
    }
    d[lane] = before[j];
    p |= static_cast<u32>(in) << lane;
  });
  if (i.o[1].bank != operand::nowhere) {
    u32* q = w.at<u32>(i.o[1]);
    *q = (*q & ~w.active) | (p & w.active);
  }
}

template <int mode>  // 0 ballot, 1 any, 2 all
void vote(warp& w, const instruction& i) {
  const u32 members = w.at<u32>(i.o[2])[std::countr_zero(w.active)];
  need(w, i, members);
  const u32 yes = w.mask(i.o[1]) & w.active & members;
  if (mode == 0) {
    u32* d = w.at<u32>(i.o[0]);
    each_lane(w.active, [&](int l) { d[l] = yes; });
  } else {
    const bool r = mode == 1 ? yes != 0 : yes == (members & w.active);
    u32* d = w.at<u32>(i.o[0]);
    *d = (*d & ~w.active) | (r ? w.active : 0);
  }
}

}  // namespace

void decoder::shuffle_lanes() {
  if (!s.is("sync") || P.size() != 5) refuse();
  take(0, 4);
  if (P[0].second.empty()) {
    operand sink;
    sink.bank = operand::nowhere;
    pool.push_back(sink);
  } else {
    pool.push_back(c.reg(P[0].second));
  }
  for (std::size_t n = 1; n < 5; ++n) take(n, 4);
  finish(2);
  i.run = s.is("idx")    ? shuffle<0>
          : s.is("up")   ? shuffle<1>
          : s.is("down") ? shuffle<2>
                         : shuffle<3>;
}

void decoder::vote_lanes() {
  if (!s.is("sync")) refuse();
  take(0, s.is("ballot") ? 4 : 0);
  take(1, 0);
  take(2, 4);
  finish(1);
  i.run = s.is("ballot") ? vote<0> : s.is("any") ? vote<1> : s.is("all") ? vote<2> : nullptr;
  if (i.run == nullptr) refuse();
}

void decoder::barrier() {
  if (s.is("warp")) {
    take(0, 4);
    finish(0);
    i.what = instruction::sort::warp_barrier;
    i.run = [](warp& w, const instruction& x) {
      need(w, x, w.at<u32>(x.o[0])[std::countr_zero(w.active)]);
      share_dependency(w);
      ++w.turn;
    };
    return;
  }
  if (s.is("cluster")) return cluster_barrier();
  const bool arrives = s.is("arrive");
  if ((!s.is("sync") && !arrives) || P.empty() || (arrives && P.size() < 2)) refuse();
  take(0, 4);
  if (P.size() > 1) take(1, 4);
  i.aligned = true;
  if (arrives) {
    i.run = arrive_at_barrier;
  } else {
    i.what = instruction::sort::barrier;
  }
  finish(0);
}

// setmaxnreg moves registers between the warpgroups of a block (PTX ISA 9.7.19.5).
void decoder::move_registers() {
  if (c.k.arch < 90 || !s.is("sync") || !s.is("aligned") || !s.is("u32")) refuse();
  i.extra = static_cast<u32>(P.at(0).bits);
  if (i.extra < 24 || i.extra > 256 || i.extra % 8 != 0) throw ptx_error("setmaxnreg's count");
  i.aligned = true;
  if (!s.is("inc") && !s.is("dec")) refuse();
  i.run = s.is("inc") ? take_registers : give_registers;
  finish(0);
}

void decoder::branch() {
  i.what = instruction::sort::branch;
  const auto found = c.entry.labels.find(P.at(0).name);
  if (found == c.entry.labels.end()) throw ptx_error("label " + P.at(0).name);
  i.target = found->second;
  finish(0);
}

void decoder::leave() {
  i.what = instruction::sort::leave;
  finish(0);
}

void decoder::trap() {
  i.run = [](warp& w, const instruction& x) {
    fail(w, x, std::countr_zero(w.active), 719, "trap");
  };
  finish(0);
}

void decoder::nothing() {
  i.run = [](warp&, const instruction&) {};
  finish(0);
}

void decoder::fence() {
  if (s.is("proxy")) {
    if (!s.is("async") && !s.is("async::generic")) refuse();
    i.run = [](warp& w, const instruction&) {
      proxy_fence(w, w.active);
      fence_mbarriers(w, w.active);
    };
  } else if (s.is("mbarrier_init")) {
    i.run = [](warp& w, const instruction&) { fence_mbarriers(w, w.active); };
  } else {
    i.run = [](warp& w, const instruction&) { fence_for_blocks(w); };
  }
  finish(0);
}

void decoder::matrix_product() {
  const bool bf16 = s.is("m16n8k16") && s.is("bf16") && s.is("f32");
  const bool int8 = s.is("m16n8k32") && s.is("s8") && s.is("s32") && !s.is("satfinite");
  if (!(bf16 || int8) || !s.is("sync") || !s.is("aligned") || !s.is("row") || !s.is("col"))
    refuse();
  const std::size_t sizes[4] = {4, 4, 2, 4};
  for (std::size_t n = 0; n < 4; ++n) {
    if (P.at(n).parts.size() != sizes[n]) refuse();
    for (const ptx_operand& p : P[n].parts) pool.push_back(c.value(p, 4));
  }
  i.aligned = true;
  finish(4);
  i.run = bf16 ? mma_bf16 : mma_int8;
}

void decoder::warpgroup_product() {
  if (c.k.arch < 90) refuse();
  i.aligned = true;
  i.register_use = false;
  c.k.has_wgmma = c.k.proxy_reads = true;
  if (s.op[1] == "fence") {
    finish(0);
    i.run = [](warp& w, const instruction&) {
      w.fence_clock = w.clock;
      w.fenced = true;
    };
    return;
  }
  if (s.op[1] == "commit_group") {
    finish(0);
    i.run = [](warp& w, const instruction&) {
      w.product_groups.push_back(std::move(w.products));
      w.products.clear();
    };
    return;
  }
  if (s.op[1] == "wait_group") {
    i.extra = static_cast<u32>(P.at(0).bits);
    finish(0);
    i.run = [](warp& w, const instruction& x) { wgmma_wait(w, x.extra); };
    return;
  }
  decode_wgmma(s, i, [&](const ptx_operand& p, int bytes) { pool.push_back(c.value(p, bytes)); });
  finish(static_cast<int>(P[0].parts.size()));
  i.run = wgmma_issue;
}

}  // namespace unmask::softgpu
