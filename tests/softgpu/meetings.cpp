// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where the lanes that part at a branch meet again: at its immediate post-dominator, found as in
// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001), on the reversed graph.
#include <utility>
#include <vector>

#include "tests/softgpu/machine.h"

namespace unmask::softgpu {
namespace {

using indices = std::vector<int>;

std::size_t at(int n) {
  return static_cast<std::size_t>(n);
}

// Basic blocks of a kernel, and one more behind them: the exit.
class flow {
 public:
  explicit flow(const std::vector<instruction>& code) : code_(code) {
    find_blocks();
    find_edges();
    number_backwards();
    find_dominators();
  }
  // Statement that all ways from the last statement of block b come to; -1: none before the end.
  int meeting(int b) const {
    const int m = up_[at(b)];
    return m < 0 || m == exit_ ? -1 : first_[at(m)];
  }
  int blocks() const { return exit_; }
  int last_of(int b) const { return (b + 1 < exit_ ? first_[at(b) + 1] : size()) - 1; }

 private:
  int size() const { return static_cast<int>(code_.size()); }
  int block_at(int statement) const {
    return statement < size() ? block_of_[at(statement)] : exit_;
  }

  void find_blocks() {
    std::vector<char> leads(code_.size() + 1, 0);
    leads[0] = 1;
    for (int p = 0; p < size(); ++p) {
      const instruction& i = code_[at(p)];
      const bool branches = i.what == instruction::sort::branch;
      if (branches && i.target < size()) leads[at(i.target)] = 1;
      if (branches || i.what == instruction::sort::leave) leads[at(p) + 1] = 1;
    }
    for (int p = 0; p < size(); ++p) {
      if (leads[at(p)] != 0) first_.push_back(p);
      block_of_.push_back(static_cast<int>(first_.size()) - 1);
    }
    exit_ = static_cast<int>(first_.size());
  }

  void find_edges() {
    next_.resize(at(exit_) + 1);
    before_.resize(at(exit_) + 1);
    for (int b = 0; b < exit_; ++b) {
      const int end = last_of(b);
      const instruction& i = code_[at(end)];
      const auto edge = [&](int to) {
        next_[at(b)].push_back(to);
        before_[at(to)].push_back(b);
      };
      const bool branches = i.what == instruction::sort::branch;
      const bool leaves = i.what == instruction::sort::leave;
      if (branches) edge(block_at(i.target));
      if (leaves) edge(exit_);
      if (i.guarded || (!branches && !leaves)) edge(block_at(end + 1));
    }
  }

  // Post-order of the reversed graph.
  void number_backwards() {
    number_.assign(at(exit_) + 1, -1);
    std::vector<char> seen(at(exit_) + 1, 0);
    std::vector<std::pair<int, std::size_t>> stack{{exit_, 0}};
    seen[at(exit_)] = 1;
    while (!stack.empty()) {
      auto& [b, tried] = stack.back();
      if (tried < before_[at(b)].size()) {
        const int to = before_[at(b)][tried++];
        if (seen[at(to)] != 0) continue;
        seen[at(to)] = 1;
        stack.emplace_back(to, 0);
      } else {
        number_[at(b)] = static_cast<int>(order_.size());
        order_.push_back(b);
        stack.pop_back();
      }
    }
  }

  int common(int a, int b) const {
    while (a != b) {
      while (number_[at(a)] < number_[at(b)]) a = up_[at(a)];
      while (number_[at(b)] < number_[at(a)]) b = up_[at(b)];
    }
    return a;
  }

  void find_dominators() {
    up_.assign(at(exit_) + 1, -1);
    up_[at(exit_)] = exit_;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto b = order_.rbegin(); b != order_.rend(); ++b) {
        if (*b == exit_) continue;
        int found = -1;
        for (const int n : next_[at(*b)]) {
          if (up_[at(n)] >= 0) found = found < 0 ? n : common(found, n);
        }
        if (found >= 0 && up_[at(*b)] != found) {
          up_[at(*b)] = found;
          changed = true;
        }
      }
    }
  }

  const std::vector<instruction>& code_;
  int exit_ = 0;
  indices first_, block_of_, number_, order_, up_;
  std::vector<indices> next_, before_;
};

}  // namespace

void find_meetings(kernel& k) {
  const flow graph(k.code);
  for (int b = 0; b < graph.blocks(); ++b) {
    instruction& i = k.code[at(graph.last_of(b))];
    if (i.what == instruction::sort::branch) i.meet = graph.meeting(b);
  }
}

}  // namespace unmask::softgpu
