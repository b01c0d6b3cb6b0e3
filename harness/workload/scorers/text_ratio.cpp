// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/text_ratio.h"

#include <algorithm>
#include <map>
#include <vector>

namespace unmask::scorers {
namespace {

constexpr std::size_t many = 200;  // difflib: from this length on its heuristic is in force

// difflib.SequenceMatcher(None, a, b): the characters in its matching blocks.
class matcher {
 public:
  matcher(const std::u32string& a, const std::u32string& b) : a_(a), b_(b) {
    for (std::size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(j);
    if (b.size() < many) return;
    std::erase_if(places_, [&](const auto& p) { return p.second.size() > b.size() / 100 + 1; });
  }

  std::size_t matches() const {
    std::size_t all = 0;
    std::vector<range> open = {{0, a_.size(), 0, b_.size()}};
    while (!open.empty()) {
      const range r = open.back();
      open.pop_back();
      const block m = longest(r);
      if (m.size == 0) continue;
      all += m.size;
      if (r.a < m.a && r.b < m.b) open.push_back({r.a, m.a, r.b, m.b});
      if (m.a + m.size < r.a_end && m.b + m.size < r.b_end) {
        open.push_back({m.a + m.size, r.a_end, m.b + m.size, r.b_end});
      }
    }
    return all;
  }

 private:
  struct range {
    std::size_t a, a_end, b, b_end;
  };
  struct block {
    std::size_t a, b, size;
  };

  // The longest block of both ranges, the first in a, then in b; popular characters only extend it.
  block longest(const range& r) const {
    block best{r.a, r.b, 0};
    std::map<std::size_t, std::size_t> lengths, next;  // by the end of a match in b
    for (std::size_t i = r.a; i < r.a_end; ++i) {
      next.clear();
      if (const auto found = places_.find(a_[i]); found != places_.end()) {
        for (const std::size_t j : found->second) {
          if (j < r.b) continue;
          if (j >= r.b_end) break;
          const auto before = j == 0 ? lengths.end() : lengths.find(j - 1);
          const std::size_t length = (before == lengths.end() ? 0 : before->second) + 1;
          next[j] = length;
          if (length > best.size) best = {i + 1 - length, j + 1 - length, length};
        }
      }
      std::swap(lengths, next);
    }
    while (best.a > r.a && best.b > r.b && a_[best.a - 1] == b_[best.b - 1]) {
      --best.a;
      --best.b;
      ++best.size;
    }
    while (best.a + best.size < r.a_end && best.b + best.size < r.b_end &&
           a_[best.a + best.size] == b_[best.b + best.size]) {
      ++best.size;
    }
    return best;
  }

  const std::u32string& a_;
  const std::u32string& b_;
  std::map<char32_t, std::vector<std::size_t>> places_;
};

std::size_t longest_common(const std::u32string& a, const std::u32string& b) {
  std::vector<std::size_t> row(b.size() + 1, 0);
  for (const char32_t c : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = c == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

double levenshtein_ratio(const std::u32string& a, const std::u32string& b) {
  const std::size_t both = a.size() + b.size();
  if (both == 0) return 1;
  const std::size_t distance = both - 2 * longest_common(a, b);
  return 1.0 - static_cast<double>(distance) / static_cast<double>(both);
}

double difflib_ratio(const std::u32string& a, const std::u32string& b) {
  const std::size_t both = a.size() + b.size();
  if (both == 0) return 1;
  return 2.0 * static_cast<double>(matcher(a, b).matches()) / static_cast<double>(both);
}

}  // namespace unmask::scorers
