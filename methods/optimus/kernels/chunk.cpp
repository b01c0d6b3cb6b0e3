// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/reference/backend.h"
#include "kernels/token_state.h"
#include "methods/optimus/kernels/chunk.h"

namespace unmask {
namespace reference {
namespace {

// Is K/V of a decided position p final, given the states s of its block [begin, end)?
bool settled(const std::uint8_t* s, std::int32_t p, std::int32_t begin, std::int32_t end,
             settle_rule rule) {
  switch (rule) {
    case settle_rule::any_decoded:
      return true;
    case settle_rule::contiguous_prefix:
      return std::find(s + begin, s + p, state_masked) == s + p;
    case settle_rule::right_neighbour:
      return p + 1 == end || s[p + 1] != state_masked;
    case settle_rule::whole_block:
      return std::find(s + begin, s + end, state_masked) == s + end;
  }
  return false;
}

std::int32_t select_chunk(const op::select_chunk& args) {
  std::int32_t n = 0;
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::uint8_t* of = args.state.row<std::uint8_t>(s);
    std::vector<std::int32_t> open, chosen;
    for (std::int32_t p = args.params.first[s]; p < args.params.last[s]; ++p) {
      if (of[p] != state_cached) open.push_back(p);
    }
    const auto size = static_cast<std::size_t>(std::max(args.params.size[s], 0));
    if (args.params.pending_first) {
      for (const std::uint8_t want : {state_decoded, state_masked}) {
        for (const std::int32_t p : open) {
          if (of[p] == want && chosen.size() < size) chosen.push_back(p);
        }
      }
      std::sort(chosen.begin(), chosen.end());
    } else {
      chosen.assign(open.begin(),
                    open.begin() + static_cast<std::ptrdiff_t>(std::min(open.size(), size)));
    }
    const std::int32_t start = n;
    for (const std::int32_t p : chosen) {
      const std::int32_t block = p / args.params.block * args.params.block;
      args.sequence[n] = s;
      args.position[n] = p;
      args.settles[n] = of[p] == state_decoded &&
                        settled(of, p, block, block + args.params.block, args.params.rule);
      ++n;
    }
    // Inside each block: the cached first, then the rows that settle now, then the others.
    for (std::int32_t r = start; r < n; ++r) {
      const std::int32_t block = args.position[r] / args.params.block * args.params.block;
      std::int32_t rank = static_cast<std::int32_t>(
          std::count(of + block, of + block + args.params.block, state_cached));
      for (std::int32_t o = start; o < n; ++o) {
        if (args.position[o] / args.params.block * args.params.block != block) continue;
        const bool before = args.settles[o] != args.settles[r] ? args.settles[o] != 0 : o < r;
        rank += before ? 1 : 0;
      }
      args.slot[r] = args.params.compact_slots ? block + rank : args.position[r];
    }
    args.begin[s + 1] = n;
  }
  return n;
}

}  // namespace

const register_operations<select_chunk> registered(target::reference);

}  // namespace reference

namespace cpu {
namespace {

std::int32_t select_chunk(const op::select_chunk& args) {
  std::int32_t n = 0;
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::uint8_t* of = args.state.row<std::uint8_t>(s);
    const std::int32_t size = std::max(args.params.size[s], 0);
    std::int32_t take_decided = size, take_masked = size, take = size;
    if (args.params.pending_first) {
      std::int32_t pending = 0;
      for (std::int32_t p = args.params.first[s]; p < args.params.last[s]; ++p)
        pending += of[p] == state_decoded;
      take_decided = std::min(pending, size);
      take_masked = size - take_decided;
    }
    for (std::int32_t block = args.params.first[s] / args.params.block * args.params.block;
         block < args.params.last[s]; block += args.params.block) {
      const std::int32_t end = block + args.params.block;
      std::int32_t in_cache = 0, last_mask = -1;
      for (std::int32_t p = block; p < end; ++p) {
        in_cache += of[p] == state_cached;
        if (of[p] == state_masked) last_mask = p;
      }
      const std::int32_t start = n;
      std::int32_t settling = 0;
      bool prefix = true;  // nothing masked so far in this block
      for (std::int32_t p = block; p < std::min(end, args.params.last[s]) && take > 0; ++p) {
        const std::uint8_t here = of[p];
        prefix = prefix && here != state_masked;
        if (here == state_cached || p < args.params.first[s]) continue;
        std::int32_t& quota = here == state_masked ? take_masked : take_decided;
        if (quota == 0) continue;
        --quota;
        --take;
        bool settle = here == state_decoded;
        if (args.params.rule == settle_rule::contiguous_prefix) settle = settle && prefix;
        if (args.params.rule == settle_rule::whole_block) settle = settle && last_mask < 0;
        if (args.params.rule == settle_rule::right_neighbour) {
          settle = settle && (p + 1 == end || of[p + 1] != state_masked);
        }
        args.sequence[n] = s;
        args.position[n] = p;
        args.settles[n] = settle ? 1 : 0;
        settling += settle ? 1 : 0;
        ++n;
      }
      std::int32_t first = block + in_cache, rest = first + settling;
      for (std::int32_t r = start; r < n; ++r) {
        args.slot[r] = !args.params.compact_slots ? args.position[r]
                       : args.settles[r] != 0     ? first++
                                                  : rest++;
      }
    }
    args.begin[s + 1] = n;
  }
  return n;
}

}  // namespace

const register_operations<select_chunk> registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
