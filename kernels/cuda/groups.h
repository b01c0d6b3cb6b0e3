// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Threads that decide together: a warp or a thread block works on one sequence. Every algorithm of
// the decision and selection kernels is written once for both. Loops go over i = rank, rank + size,
// ..., so that an element belongs to the same thread in every loop over the same range and may be
// rewritten without a barrier.
//
// Selection orders scores by order_key(): the integer order of the keys is the float order, -0 and
// +0 are one value and NaN comes after every number. The n-th largest key is found by radix select:
// a warp takes one bit after the other by ballots, a block 8 bits at a time from a histogram in
// shared memory. No sorting, no scratch memory, O(n); ties to the lowest index. Counts are
// integers, so the result depends neither on the group's size nor on the order of its threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/portable.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int word_bits = 64;  // sequences of at most this many elements are a warp's work

constexpr int group_threads = 256;  // of the blocks that decide

// Shared memory of a block_group: a word for each warp and a histogram.
constexpr int group_words = 32;
constexpr int group_bins = 256;
constexpr std::size_t group_bytes =
    group_words * sizeof(std::uint64_t) + group_bins * sizeof(std::int32_t);

// One block_group for each of n.
inline grid_shape block_each(std::int64_t n) {
  return {blocks_for(n, 1), group_threads, group_bytes};
}

struct warp_group {
  UNMASK_DEVICE int rank() const { return static_cast<int>(thread_index() % warp_size); }
  UNMASK_DEVICE int size() const { return warp_size; }
  UNMASK_DEVICE void sync() const { sync_warp(); }

  // join(join(v0, v1), ...) in a fixed order; join must be commutative and associative up to the
  // rounding that its caller accepts.
  template <class T, class F>
  UNMASK_DEVICE T combine(T value, const F& join) const {
    for (int mask = warp_size / 2; mask > 0; mask /= 2) {
      value = join(value, shuffle_xor(value, mask));
    }
    return value;
  }
  // How many threads of lower rank, and how many of all, say yes.
  UNMASK_DEVICE int before(bool yes, int& total) const {
    const std::uint32_t votes = warp_vote(yes);
    total = count_bits(votes);
    return count_bits(votes & ((1U << rank()) - 1U));
  }
  // Number of i in [0, n) with test(i).
  template <class F>
  UNMASK_DEVICE int count(int n, const F& test) const {
    int found = 0;
    for (int base = 0; base < n; base += warp_size) {
      const int i = base + rank();
      found += count_bits(warp_vote(i < n && test(i)));
    }
    return found;
  }
};

struct block_group {
  shared_array<std::uint64_t> room;  // [group_words]
  shared_array<std::int32_t> bins;   // [group_bins]

  UNMASK_DEVICE int rank() const { return static_cast<int>(thread_index()); }
  UNMASK_DEVICE int size() const { return static_cast<int>(block_size()); }
  UNMASK_DEVICE void sync() const { sync_block(); }

  template <class T, class F>
  UNMASK_DEVICE T combine(T value, const F& join) const {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    value = warp_group{}.combine(value, join);
    if (rank() % warp_size == 0) put(rank() / warp_size, value);
    sync();
    T all = get<T>(0);
    for (int w = 1; w < size() / warp_size; ++w) all = join(all, get<T>(w));
    sync();
    return all;
  }
  UNMASK_DEVICE int before(bool yes, int& total) const {
    int in_warp = 0;
    const int lower = warp_group{}.before(yes, in_warp);
    if (rank() % warp_size == 0) put(rank() / warp_size, in_warp);
    sync();
    int below = 0;
    total = 0;
    for (int w = 0; w < size() / warp_size; ++w) {
      if (w == rank() / warp_size) below = total;
      total += get<int>(w);
    }
    sync();
    return below + lower;
  }
  template <class F>
  UNMASK_DEVICE int count(int n, const F& test) const {
    int found = 0;
    for (int i = rank(); i < n; i += size()) found += test(i) ? 1 : 0;
    return combine(found, [](int a, int b) { return a + b; });
  }

 private:
  template <class T>
  UNMASK_DEVICE void put(int i, T value) const {
    std::uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    room[i] = bits;
  }
  template <class T>
  UNMASK_DEVICE T get(int i) const {
    const std::uint64_t bits = room[i];
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
  }
};

UNMASK_DEVICE block_group take_group(shared_allocator& shared) {
  return {shared.take<std::uint64_t>(group_words), shared.take<std::int32_t>(group_bins)};
}

template <class G, class T>
UNMASK_DEVICE T group_sum(const G& group, T value) {
  return group.combine(value, [](T a, T b) { return a + b; });
}
template <class G, class T>
UNMASK_DEVICE T group_max(const G& group, T value) {
  return group.combine(value, [](T a, T b) { return a > b ? a : b; });
}
template <class G, class T>
UNMASK_DEVICE T group_min(const G& group, T value) {
  return group.combine(value, [](T a, T b) { return a < b ? a : b; });
}

// ---- order of scores ---------------------------------------------------------------------------

// a > b exactly where order_key(a) > order_key(b).
UNMASK_DEVICE std::uint32_t order_key(float x) {
  const std::uint32_t u = bits_of(x);
  const std::uint32_t magnitude = u & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0;   // NaN
  if (magnitude == 0) return 0x80000000U;  // -0 and +0
  return (u >> 31) != 0 ? ~u : u | 0x80000000U;
}
// A candidate at or below this one, NaN or -infinity, is not eligible.
constexpr std::uint32_t lowest_key = 0x007FFFFFU;  // order_key(-infinity)

// Best first, then the lowest index: a larger value comes earlier.
UNMASK_DEVICE std::uint64_t order_value(std::uint32_t key, int index) {
  return (static_cast<std::uint64_t>(key) << 32) |
         (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}
UNMASK_DEVICE int index_of(std::uint64_t value) {
  return static_cast<int>(0xFFFFFFFFU - static_cast<std::uint32_t>(value));
}

// The largest logit of a row of n, the lowest index among equals; known to every thread.
template <class G>
UNMASK_DEVICE int best_of_row(const G& group, const float* logit, int n) {
  std::uint64_t mine = 0;
  for (int v = group.rank(); v < n; v += group.size()) {
    const std::uint64_t value = order_value(order_key(logit[v]), v);
    if (value > mine) mine = value;
  }
  return index_of(group_max(group, mine));
}
// Sum of exp(logit - top) over a row of n, in float64; known to every thread.
template <class G>
UNMASK_DEVICE double sum_of_exponentials(const G& group, const float* logit, int n, double top) {
  double part = 0;
  for (int v = group.rank(); v < n; v += group.size()) {
    part += exp(static_cast<double>(logit[v]) - top);
  }
  return group_sum(group, part);
}

// The keys of at most 64 elements in the registers of a warp; every loop of the groups asks lane l
// for i = l and l + 32 only.
struct register_keys {
  std::uint32_t low, high;
  UNMASK_DEVICE std::uint32_t operator()(int i) const { return i < warp_size ? low : high; }
};
struct score_keys {
  const float* score;
  UNMASK_DEVICE std::uint32_t operator()(int i) const { return order_key(score[i]); }
};

// The first elements in descending order: those with a key above `key` and the first `ties` (by
// index) of those equal to it.
struct cut {
  std::uint32_t key;
  int ties;
};

// The n keys' first `wanted`, 0 <= wanted <= n.
template <class K>
UNMASK_DEVICE cut top_cut(const warp_group& group, int n, int wanted, const K& key) {
  if (wanted <= 0) return {0xFFFFFFFFU, 0};
  std::uint32_t found = 0;  // the largest value that at least `wanted` keys reach
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t next = found | (1U << bit);
    if (group.count(n, [&](int i) { return key(i) >= next; }) >= wanted) found = next;
  }
  const int above = group.count(n, [&](int i) { return key(i) > found; });
  return {found, wanted - above};
}
template <class K>
UNMASK_DEVICE cut top_cut(const block_group& group, int n, int wanted, const K& key) {
  if (wanted <= 0) return {0xFFFFFFFFU, 0};
  std::uint32_t found = 0, known = 0;  // bits of the key so far, and which bits they are
  int left = wanted;                   // how many are taken from the keys that agree so far
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = group.rank(); i < group_bins; i += group.size()) group.bins[i] = 0;
    group.sync();
    for (int i = group.rank(); i < n; i += group.size()) {
      const std::uint32_t mine = key(i);
      if ((mine & known) == found) {
        atomic_add(&group.bins[static_cast<int>((mine >> shift) & 0xFFU)], 1);
      }
    }
    group.sync();
    // Every warp finds the digit for itself: lane l has the bins 255 - 8 l .. 248 - 8 l.
    const int top = group_bins - 1 - 8 * lane_index();
    int sum = 0;
    for (int b = 0; b < 8; ++b) sum += group.bins[top - b];
    const int reached = warp_scan(sum);
    int above = reached - sum, digit = top;
    while (digit > top - 7 && above + group.bins[digit] < left) above += group.bins[digit--];
    const int lane = first_bit(warp_vote(reached >= left)) - 1;
    digit = shuffle(digit, lane);
    left -= shuffle(above, lane);
    found |= static_cast<std::uint32_t>(digit) << shift;
    known |= 0xFFU << shift;
    group.sync();
  }
  return {found, left};
}

// write(i, taken) for every i in [0, n).
template <class G, class K, class F>
UNMASK_DEVICE void for_each_taken(const G& group, int n, const K& key, const cut& c,
                                  const F& write) {
  int seen = 0;
  for (int base = 0; base < n; base += group.size()) {
    const int i = base + group.rank();
    const std::uint32_t mine = i < n ? key(i) : 0;
    const bool tie = i < n && mine == c.key;
    int total = 0;
    const int rank = seen + group.before(tie, total);
    if (i < n) write(i, mine > c.key || (tie && rank < c.ties));
    seen += total;
  }
}

// Index of the element of rank `rank` (0: the best) in descending order; 0 <= rank < n.
template <class G, class K>
UNMASK_DEVICE int nth_index(const G& group, int n, int rank, const K& key) {
  const cut c = top_cut(group, n, rank + 1, key);
  int seen = 0, found = n;
  for (int base = 0; base < n; base += group.size()) {
    const int i = base + group.rank();
    const bool tie = i < n && key(i) == c.key;
    int total = 0;
    if (seen + group.before(tie, total) == c.ties - 1 && tie) found = i;
    seen += total;
  }
  return group_min(group, found);
}

// Runs work(group, key) for a segment of n scores: by one warp with the keys in registers when they
// fit, else by the block. Threads without work return.
template <class F>
UNMASK_DEVICE void with_keys(const float* score, int n, const block_group& block, const F& work) {
  if (n > word_bits) {
    work(block, score_keys{score});
  } else if (thread_index() < warp_size) {
    const int lane = static_cast<int>(thread_index());
    const std::uint32_t low = lane < n ? order_key(score[lane]) : 0;
    const std::uint32_t high = lane + warp_size < n ? order_key(score[lane + warp_size]) : 0;
    work(warp_group{}, register_keys{low, high});
  }
}

// The `quota` best of n.
template <class G, class K>
UNMASK_DEVICE void take_top(const G& group, int n, const K& key, int quota, std::uint8_t* accept) {
  const int eligible = group.count(n, [&](int i) { return key(i) > lowest_key; });
  const cut c = top_cut(group, n, quota < eligible ? quota : eligible, key);
  for_each_taken(group, n, key, c, [&](int i, bool taken) { accept[i] = taken ? 1 : 0; });
}

// a b rounded on its own, as in the definition of a decision (portable.h).
UNMASK_DEVICE double product(double a, double b) {
  return a * b;
}

// sum[0 .. s) of what the sequences before s have: where the entries of s begin.
template <class G>
UNMASK_DEVICE int entries_before(const G& group, const std::int32_t* count, int s) {
  int sum = 0;
  for (int i = group.rank(); i < s; i += group.size()) sum += count[i];
  return group_sum(group, sum);
}

}  // namespace unmask::cuda::UNMASK_TARGET
