// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/optimus/chunk_builder.h"

#include <algorithm>

#include "harness/decode/batch.h"
#include "methods/optimus/kernels/chunk.h"

namespace unmask {
namespace {

settle_rule rule_of(cache_rule rule) {
  switch (rule) {
    case cache_rule::none:
      return settle_rule::whole_block;
    case cache_rule::any_decoded:
      return settle_rule::any_decoded;
    case cache_rule::contiguous_prefix:
      return settle_rule::contiguous_prefix;
    case cache_rule::right_neighbour:
      return settle_rule::right_neighbour;
  }
  return settle_rule::any_decoded;
}

}  // namespace

// Under any_decoded, decided tokens come first: they leave after one forward. Under the other rules
// a decided token may have to wait for a mask beside it, so the chunk is a window in position order
// (with decided tokens first, a small chunk could hold nothing but waiting ones, for ever).
std::int32_t chunk_builder::build(const tensor_view& state, std::vector<chunk_request>& requests,
                                  const chunk_rows& out) {
  const std::size_t places = requests.size();
  first_.assign(places, 0);
  last_.assign(places, 0);
  size_.assign(places, 0);
  chunk_params p;
  p.first = first_.data();
  p.last = last_.data();
  p.size = size_.data();
  p.block = settings_.block;
  p.rule = rule_of(settings_.rule);
  p.pending_first = settings_.rule == cache_rule::any_decoded;
  p.compact_slots = settings_.compact_slots;
  // Fixed sub-blocks under the prefix rule are windows as well: recomputed as a whole until they
  // settle as a whole.
  const bool whole_chunks =
      settings_.policy == chunk_policy::naive && settings_.rule == cache_rule::contiguous_prefix;
  if (whole_chunks) p.rule = settle_rule::whole_block;
  for (std::size_t s = 0; s < places; ++s) {
    chunk_request& r = requests[s];
    if (r.first >= r.last) continue;
    first_[s] = r.first;
    last_[s] = r.last;
    size_[s] = r.whole ? r.last - r.first : r.size;
    if (whole_chunks) p.block = r.size;
    if (r.whole) continue;
    const std::uint8_t* of = state.row<std::uint8_t>(static_cast<std::int64_t>(s));
    const std::int32_t end = r.first + settings_.block;
    if (settings_.policy == chunk_policy::prefix_caching) size_[s] = settings_.block;
    if (settings_.policy == chunk_policy::naive) {
      // The first sub-block that is not wholly cached.
      const auto open = static_cast<std::int32_t>(
          std::find_if(of + r.first, of + end, [](std::uint8_t x) { return x != state_cached; }) -
          of);
      first_[s] = r.first + (open - r.first) / r.size * r.size;
      last_[s] = std::min(first_[s] + r.size, end);
      continue;
    }
    const bool clean = std::find(of + r.first, of + end, state_masked) == of + end;
    if (settings_.fusion == fusion_mode::off || !clean || r.last != end || end >= r.limit) continue;
    const auto pending =
        static_cast<std::int32_t>(std::count(of + r.first, of + end, state_decoded));
    if (settings_.fusion == fusion_mode::full && pending > size_[s]) continue;
    if (settings_.fusion == fusion_mode::full) size_[s] += pending;
    r.last = last_[s] = end + settings_.block;
  }
  return run_->run(op::select_chunk{static_cast<std::int32_t>(places), state, p, out.begin,
                                    out.sequence, out.position, out.slot, out.settles});
}

}  // namespace unmask
