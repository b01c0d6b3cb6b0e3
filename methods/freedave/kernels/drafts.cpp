// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/freedave/kernels/drafts.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace unmask::reference {
namespace {

// The masks of one branch in the order in which they are decided, and how many its step takes.
struct branch_step {
  std::vector<std::int32_t> order;  // candidates
  std::size_t taken = 0;
};

branch_step step_of(const op::verify_drafts& args, std::int32_t s, std::int32_t begin,
                    std::int32_t end) {
  branch_step b;
  b.order.resize(static_cast<std::size_t>(end - begin));
  std::iota(b.order.begin(), b.order.end(), begin);
  if (b.order.empty()) return b;
  const auto block_of = [&](std::int32_t c) {
    return args.block > 0 ? args.candidates.position[c] / args.block : 0;
  };
  std::stable_sort(b.order.begin(), b.order.end(), [&](std::int32_t x, std::int32_t y) {
    if (block_of(x) != block_of(y)) return block_of(x) < block_of(y);
    return !args.in_order && args.confidence[x] > args.confidence[y];
  });
  if (args.first_only[s] != 0) {
    const auto first = std::ranges::find(b.order, begin);
    std::rotate(b.order.begin(), first, first + 1);
    b.taken = 1;
    return b;
  }
  const auto passes = [&](std::int32_t c) {
    return args.use_threshold && block_of(c) == block_of(begin) &&
           args.confidence[c] >= args.threshold;
  };
  // In either order those that pass come first.
  b.taken = static_cast<std::size_t>(std::ranges::find_if_not(b.order, passes) - b.order.begin());
  if (b.taken == 0) b.taken = std::min(b.order.size(), static_cast<std::size_t>(args.per_step));
  return b;
}

// Whether branch j > `chosen` is what the chosen one becomes, or lies in it.
bool follows(const op::verify_drafts& args, std::int32_t s, const branch_step& step,
             std::int32_t chosen, std::int32_t j) {
  const std::int32_t *turn = args.turn.row<std::int32_t>(s),
                     *guess = args.guess.row<std::int32_t>(s);
  std::size_t drafted = 0, right = 0;
  for (std::size_t i = 0; i < step.order.size(); ++i) {
    const std::int32_t c = step.order[i], p = args.candidates.position[c];
    if (turn[p] <= chosen || turn[p] > j) continue;
    ++drafted;
    right += i < step.taken && args.token[c] == guess[p] ? 1 : 0;
  }
  return drafted == right && (!args.exact || right == step.taken);
}

// Decides branch 0's candidates [begin, end) by the chosen branch.
void carry_over(const op::verify_drafts& args, std::int32_t s, const branch_step& step,
                std::int32_t begin, std::int32_t end) {
  std::int32_t *turn = args.turn.row<std::int32_t>(s), *guess = args.guess.row<std::int32_t>(s);
  for (std::int32_t c = begin; c < end; ++c) {
    const std::int32_t p = args.candidates.position[c];
    const auto at = std::ranges::find_if(
        step.order, [&](std::int32_t x) { return args.candidates.position[x] == p; });
    if (at == step.order.end()) {  // the chosen branch holds a guess
      args.token[c] = guess[p];
      args.accept[c] = decision_take;
      continue;
    }
    const auto place = static_cast<std::size_t>(at - step.order.begin());
    args.token[c] = args.token[*at];
    args.accept[c] = place < step.taken ? decision_take : decision_keep;
    if (place < step.taken) continue;
    guess[p] = args.token[c];
    turn[p] = 1 + static_cast<std::int32_t>(place - step.taken) / args.per_step;
  }
}

void verify_drafts(const op::verify_drafts& args) {
  std::fill_n(args.accept, args.candidates.count, decision_keep);
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const std::int32_t branches = args.branches[s];
    if (branches == 0) continue;
    std::vector<std::int32_t> begin;  // of each branch's candidates
    const std::int32_t *row = args.candidates.row + args.candidates.begin[s],
                       *last = args.candidates.row + args.candidates.begin[s + 1];
    for (std::int32_t i = 0; i <= branches; ++i) {
      begin.push_back(static_cast<std::int32_t>(
          std::lower_bound(row, last, args.row_begin[s] + i * args.width[s]) -
          args.candidates.row));
    }
    const auto step_of_branch = [&](std::int32_t i) {
      const auto at = static_cast<std::size_t>(i);
      return step_of(args, s, begin[at], begin[at + 1]);
    };
    std::int32_t chosen = 0;
    branch_step step = step_of_branch(0);
    for (std::int32_t j = branches - 1; j > chosen; --j) {
      if (!follows(args, s, step, chosen, j)) continue;
      chosen = j;
      step = step_of_branch(j);
      j = branches;
    }
    args.chosen[s] = chosen;
    args.left[s] = static_cast<std::int32_t>(step.order.size());
    args.left_in_block[s] =
        static_cast<std::int32_t>(std::ranges::count_if(step.order, [&](std::int32_t c) {
          return args.candidates.position[c] < args.block_last[s];
        }));
    carry_over(args, s, step, begin[0], begin[1]);
  }
}

const register_operations<verify_drafts> registered(target::reference);

}  // namespace
}  // namespace unmask::reference
