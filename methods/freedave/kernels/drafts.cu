// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/freedave/kernels/drafts.h"

namespace unmask::cuda::UNMASK_TARGET {

struct drafts_params {
  candidate_set candidates;
  const std::int32_t* row_begin;
  const std::int32_t* branches;
  const std::int32_t* width;
  const std::int32_t* first_only;
  const std::int32_t* block_last;
  const float* confidence;
  std::int32_t per_step;
  bool use_threshold;
  float threshold;
  bool in_order, exact;
  std::int32_t block;
  std::int32_t* guess;
  std::int64_t guess_stride;
  std::int32_t* turn;
  std::int64_t turn_stride;
  std::int32_t* order;
  std::int32_t* token;
  std::int32_t* chosen;
  std::int32_t* left;
  std::int32_t* left_in_block;
  std::uint8_t* accept;
};

// The candidates of one branch, and how many of them its step takes.
struct branch_span {
  int begin, end, taken;
};

// First entry of the ascending list[begin .. end) that is not below `value`.
UNMASK_DEVICE int first_from(const std::int32_t* list, int begin, int end, std::int32_t value) {
  while (begin < end) {
    const int middle = begin + (end - begin) / 2;
    if (list[middle] < value) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

UNMASK_DEVICE branch_span span_of_branch(const drafts_params& p, int s, int branch) {
  const int first = p.candidates.begin[s], last = p.candidates.begin[s + 1];
  const std::int32_t row = p.row_begin[s] + branch * p.width[s];
  return {first_from(p.candidates.row, first, last, row),
          first_from(p.candidates.row, first, last, row + p.width[s]), 0};
}

UNMASK_DEVICE int block_of_candidate(const drafts_params& p, int c) {
  return p.block > 0 ? p.candidates.position[c] / p.block : 0;
}

// Place of candidate c in the order of its branch.
UNMASK_DEVICE int place_in_order(const drafts_params& p, int s, const branch_span& span, int c) {
  const bool first_only = p.first_only[s] != 0;
  if (first_only && c == span.begin) return 0;
  const int block = block_of_candidate(p, c);
  int place = first_only ? 1 : 0;
  for (int x = first_only ? span.begin + 1 : span.begin; x < span.end; ++x) {
    const int other = block_of_candidate(p, x);
    const bool better = p.in_order ? x < c
                                   : p.confidence[x] > p.confidence[c] ||
                                         (p.confidence[x] == p.confidence[c] && x < c);
    place += other < block || (other == block && better) ? 1 : 0;
  }
  return place;
}

// How many the step of a branch takes: those before the first that does not pass.
UNMASK_DEVICE int step_size(const block_group& group, const drafts_params& p, int s,
                            const branch_span& span) {
  const int n = span.end - span.begin;
  if (p.first_only[s] != 0) return n < 1 ? n : 1;
  int refused = n;
  for (int c = span.begin + group.rank(); c < span.end; c += group.size()) {
    const bool passes = p.use_threshold &&
                        block_of_candidate(p, c) == block_of_candidate(p, span.begin) &&
                        p.confidence[c] >= p.threshold;
    if (!passes && p.order[c] < refused) refused = p.order[c];
  }
  refused = group_min(group, refused);
  if (refused > 0) return refused;
  return p.per_step < n ? p.per_step : n;
}

// Whether branch j is what branch `chosen`, whose candidates are `span`, becomes, or lies in it.
UNMASK_DEVICE bool branch_follows(const block_group& group, const drafts_params& p, int s,
                                  const branch_span& span, int chosen, int j) {
  const std::int32_t* turn = p.turn + s * p.turn_stride;
  const std::int32_t* guess = p.guess + s * p.guess_stride;
  const int n = span.end - span.begin;
  const auto drafted = [&](int i) {
    const std::int32_t at = turn[p.candidates.position[span.begin + i]];
    return at > chosen && at <= j;
  };
  const int all = group.count(n, drafted);
  const int right = group.count(n, [&](int i) {
    const int c = span.begin + i;
    return drafted(i) && p.order[c] < span.taken && p.token[c] == guess[p.candidates.position[c]];
  });
  return all == right && (!p.exact || right == span.taken);
}

// Decides candidate c of branch 0 by the chosen branch.
UNMASK_DEVICE void carry_candidate(const drafts_params& p, int s, const branch_span& span, int c) {
  const std::int32_t position = p.candidates.position[c];
  std::int32_t& guess = p.guess[s * p.guess_stride + position];
  const int at = first_from(p.candidates.position, span.begin, span.end, position);
  if (at == span.end || p.candidates.position[at] != position) {
    p.token[c] = guess;
    p.accept[c] = decision_take;
    return;
  }
  p.token[c] = p.token[at];
  if (p.order[at] < span.taken) {
    p.accept[c] = decision_take;
    return;
  }
  guess = p.token[at];
  p.turn[s * p.turn_stride + position] = 1 + (p.order[at] - span.taken) / p.per_step;
}

// One block for each sequence.
UNMASK_KERNEL void verify_drafts_kernel(drafts_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int branches = p.branches[s];
  if (branches == 0) return;
  for (int c = p.candidates.begin[s] + group.rank(); c < p.candidates.begin[s + 1];
       c += group.size()) {
    const int branch = (p.candidates.row[c] - p.row_begin[s]) / p.width[s];
    p.order[c] = place_in_order(p, s, span_of_branch(p, s, branch), c);
    p.accept[c] = decision_keep;
  }
  group.sync();
  int chosen = 0;
  branch_span span = span_of_branch(p, s, 0);
  span.taken = step_size(group, p, s, span);
  for (int j = branches - 1; j > chosen; --j) {
    if (!branch_follows(group, p, s, span, chosen, j)) continue;
    chosen = j;
    span = span_of_branch(p, s, j);
    span.taken = step_size(group, p, s, span);
    j = branches;
  }
  const int left_in_block = group.count(span.end - span.begin, [&](int i) {
    return p.candidates.position[span.begin + i] < p.block_last[s];
  });
  const branch_span canvas = span_of_branch(p, s, 0);
  for (int c = canvas.begin + group.rank(); c < canvas.end; c += group.size()) {
    carry_candidate(p, s, span, c);
  }
  if (group.rank() != 0) return;
  p.chosen[s] = chosen;
  p.left[s] = span.end - span.begin;
  p.left_in_block[s] = left_in_block;
}

namespace {

void verify_drafts(const device_backend& device, const op::verify_drafts& args) {
  drafts_params p{};
  p.candidates = device.in(args.candidates);
  p.row_begin = device.in(args.row_begin);
  p.branches = device.in(args.branches);
  p.width = device.in(args.width);
  p.first_only = device.in(args.first_only);
  p.block_last = device.in(args.block_last);
  p.confidence = device.in(args.confidence);
  p.per_step = args.per_step;
  p.use_threshold = args.use_threshold;
  p.threshold = args.threshold;
  p.in_order = args.in_order;
  p.exact = args.exact;
  p.block = args.block;
  p.guess = device.out(args.guess).as<std::int32_t>();
  p.guess_stride = args.guess.row_stride;
  p.turn = device.out(args.turn).as<std::int32_t>();
  p.turn_stride = args.turn.row_stride;
  p.order = device.out(args.order);
  p.token = device.out(args.token);
  p.chosen = device.out(args.chosen);
  p.left = device.out(args.left);
  p.left_in_block = device.out(args.left_in_block);
  p.accept = device.out(args.accept);
  device.work().launch("verify_drafts", block_each(args.candidates.sequences), verify_drafts_kernel,
                       p);
}

}  // namespace

const register_operations<verify_drafts> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
