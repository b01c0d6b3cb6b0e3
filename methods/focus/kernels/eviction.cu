// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/posting.h"
#include "kernels/token_state.h"
#include "methods/focus/kernels/eviction.h"

namespace unmask::cuda::UNMASK_TARGET {

// ---- eviction -----------------------------------------------------------------------------------

struct retain_kernel_params {
  candidate_set candidates;
  const float* score;
  retain_params rule;
  std::uint8_t* accept;
};

// Candidates 0 .. n - 1 of one sequence.
struct retain_view {
  const std::int32_t* position;
  const std::int32_t* row;
  const float* score;
  std::uint8_t* accept;
  int n;
};

UNMASK_DEVICE bool follows_directly(const retain_view& v, bool adjacent_rows, int c) {
  const std::int32_t* at = adjacent_rows ? v.row : v.position;
  return at[c + 1] - at[c] == 1;
}

// Threshold of the deviation rule, summed in the order of the candidates as the definition does.
// at(i) is the score of candidate i, on every thread.
template <class F>
UNMASK_DEVICE double deviation_threshold(int n, const retain_params& rule, const F& at) {
  double mean = 0, square = 0;
  for (int i = 0; i < n; ++i) mean += static_cast<double>(at(i));
  mean /= n;
  for (int i = 0; i < n; ++i) {
    const double difference = static_cast<double>(at(i)) - mean;
    square += product(difference, difference);
  }
  return sqrt(square / (n - rule.ddof)) + (rule.add_mean ? mean : 0.0);
}

UNMASK_DEVICE std::uint64_t vote_word(bool low, bool high) {
  const std::uint64_t first = warp_vote(low);
  return first | (static_cast<std::uint64_t>(warp_vote(high)) << warp_size);
}
UNMASK_DEVICE int highest_bit(std::uint64_t word) {  // -1: none
  const auto high = static_cast<std::uint32_t>(word >> 32);
  return high != 0 ? 63 - leading_zeros(high)
                   : 31 - leading_zeros(static_cast<std::uint32_t>(word));
}

// n <= 64, one warp.
UNMASK_DEVICE void retain_word(const retain_view& v, const retain_params& rule, int s) {
  const int low = lane_index(), high = low + warp_size;
  const float x0 = low < v.n ? v.score[low] : 0.0F, x1 = high < v.n ? v.score[high] : 0.0F;
  const auto key = [&](int i) { return i < v.n ? order_key(i < warp_size ? x0 : x1) : 0U; };
  const warp_group group;
  const int target = rule.target[s];
  const int eligible = group.count(v.n, [&](int i) { return key(i) > lowest_key; });
  const cut c = top_cut(group, v.n, target < eligible ? target : eligible, key);
  bool take0 = false, take1 = false;
  for_each_taken(group, v.n, key, c,
                 [&](int i, bool taken) { (i < warp_size ? take0 : take1) = taken; });
  std::uint64_t chosen = vote_word(take0, take1);
  if (rule.by_deviation && v.n > rule.ddof) {
    const double threshold = deviation_threshold(
        v.n, rule, [&](int i) { return shuffle(i < warp_size ? x0 : x1, i % warp_size); });
    const std::uint64_t passing = vote_word(low < v.n && static_cast<double>(x0) >= threshold,
                                            high < v.n && static_cast<double>(x1) >= threshold);
    const int count = count_bits(static_cast<std::uint32_t>(passing)) +
                      count_bits(static_cast<std::uint32_t>(passing >> 32));
    if (count >= target) chosen = passing;
  }
  if (rule.keep_predecessors) {
    const std::uint64_t linked =
        vote_word(low + 1 < v.n && follows_directly(v, rule.adjacent_rows, low),
                  high + 1 < v.n && follows_directly(v, rule.adjacent_rows, high));
    chosen |= (chosen >> 1) & linked;
  }
  const int furthest = highest_bit(chosen);
  if (furthest < 0) {
    chosen = ~std::uint64_t{0};
  } else if (rule.keep_unprocessed) {
    const int end = v.position[furthest], from = rule.processed[s];
    const auto waits = [&](int i) {
      return i < v.n && v.position[i] < end && v.position[i] >= from;
    };
    chosen |= vote_word(waits(low), waits(high));
  }
  if (low < v.n) v.accept[low] = (chosen >> low) & 1U;
  if (high < v.n) v.accept[high] = (chosen >> high) & 1U;
}

// Any n, one block.
UNMASK_DEVICE void retain_long(const block_group& group, const retain_view& v,
                               const retain_params& rule, int s) {
  const score_keys key{v.score};
  const int target = rule.target[s];
  take_top(group, v.n, key, target, v.accept);
  if (rule.by_deviation && v.n > rule.ddof) {
    const double threshold = deviation_threshold(v.n, rule, [&](int i) { return v.score[i]; });
    const auto passes = [&](int i) { return static_cast<double>(v.score[i]) >= threshold; };
    if (group.count(v.n, passes) >= target) {
      for (int i = group.rank(); i < v.n; i += group.size()) v.accept[i] = passes(i) ? 1 : 0;
    }
  }
  group.sync();
  if (rule.keep_predecessors) {
    // Tiles ascend and a tile is read before it is written, so what is read is always `chosen`.
    for (int base = 0; base < v.n; base += group.size()) {
      const int i = base + group.rank();
      const bool precedes =
          i + 1 < v.n && v.accept[i + 1] != 0 && follows_directly(v, rule.adjacent_rows, i);
      group.sync();
      if (precedes) v.accept[i] = 1;
    }
    group.sync();
  }
  int furthest = -1;
  for (int i = group.rank(); i < v.n; i += group.size()) {
    if (v.accept[i] != 0) furthest = i;
  }
  furthest = group_max(group, furthest);
  for (int i = group.rank(); i < v.n; i += group.size()) {
    const bool waits = furthest >= 0 && rule.keep_unprocessed &&
                       v.position[i] < v.position[furthest] && v.position[i] >= rule.processed[s];
    if (furthest < 0 || waits) v.accept[i] = 1;
  }
}

UNMASK_KERNEL void retain_kernel(retain_kernel_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s];
  const retain_view v{p.candidates.position + first, p.candidates.row + first, p.score + first,
                      p.accept + first, p.candidates.begin[s + 1] - first};
  if (p.rule.target[s] == 0) {
    for (int i = group.rank(); i < v.n; i += group.size()) v.accept[i] = 1;
  } else if (v.n > word_bits) {
    retain_long(group, v, p.rule, s);
  } else if (v.n > 0 && warp_index() == 0) {
    retain_word(v, p.rule, s);
  }
}

struct drop_rows_params {
  row_set rows;
  candidate_set candidates;
  const std::uint8_t* accept;
  std::int32_t* place;  // [rows + 1] scratch: whether a row stays, then how many stay before it
  posted_list<std::int32_t> begin, sequence, position, kept;
};

constexpr unsigned drop_threads = 1024;

// One block, as the host waits for the lists and a forward has a few tiles of rows. What a tile holds is read
// before any of it is overwritten: a list may take the place of the one that it is made from.
UNMASK_KERNEL void UNMASK_THREADS(drop_threads) drop_rows_kernel(drop_rows_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const int n = p.rows.rows;
  for (int r = group.rank(); r < n; r += group.size()) p.place[r] = 1;
  group.sync();
  for (int c = group.rank(); c < p.candidates.count; c += group.size()) {
    if (p.accept[c] == 0) p.place[p.candidates.row[c]] = 0;
  }
  group.sync();
  int left = 0;
  for (int base = 0; base < n; base += group.size()) {
    const int r = base + group.rank();
    const bool there = r < n, stays = there && p.place[r] != 0;
    const std::int32_t sequence = there ? p.rows.sequence[r] : 0,
                       position = there ? p.rows.position[r] : 0;
    int total = 0;
    const int at = left + group.before(stays, total);
    if (there) p.place[r] = at;
    if (stays) {
      p.sequence.put(at, sequence);
      p.position.put(at, position);
      p.kept.put(at, r);
    }
    left += total;
  }
  if (group.rank() == 0) p.place[n] = left;
  group.sync();
  for (int s = group.rank(); s <= p.rows.sequences; s += group.size()) {
    p.begin.put(s, p.place[p.rows.row_begin[s]]);
  }
}

namespace {

void retain(const device_backend& device, const op::retain& args) {
  retain_params rule = args.params;
  rule.target = device.in(rule.target);
  rule.processed = device.in(rule.processed);
  device.work().launch(
      "retain", block_each(args.candidates.sequences), retain_kernel,
      {device.in(args.candidates), device.in(args.score), rule, device.out(args.accept)});
}

void freeze(const device_backend& device, const op::mark_kv_final& args) {
  device.on_host(args, args.state.data, args.first, args.last, args.flags.data);
}

std::int32_t drop_rows(const device_backend& device, const op::drop_rows& args) {
  queue& work = device.work();
  const std::int32_t rows = args.rows.rows;
  auto* place = work.scratch<std::int32_t>(scratch_slot::selection_a, std::int64_t{rows} + 1);
  posting home(work);
  work.launch(
      "drop_rows", {1, drop_threads, group_bytes}, drop_rows_kernel,
      {device.in(args.rows), device.in(args.candidates), device.in(args.accept), place,
       home.list(args.begin, std::int64_t{args.rows.sequences} + 1), home.list(args.sequence, rows),
       home.list(args.position, rows), home.list(args.kept, rows)});
  home.take();
  return args.begin[args.rows.sequences];
}

}  // namespace

const register_operations<retain, freeze, drop_rows> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
