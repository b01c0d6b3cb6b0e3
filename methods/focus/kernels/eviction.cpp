// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/decisions.h"
#include "kernels/reference/backend.h"
#include "kernels/token_state.h"
#include "methods/focus/kernels/eviction.h"

namespace unmask {
namespace reference {
namespace {

void mark_kv_final(const op::mark_kv_final& args) {
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::uint8_t* state_of = args.state.row<std::uint8_t>(s);
    for (std::int32_t p = args.first[s]; p < args.last[s]; ++p) {
      if (state_of[p] == state_masked) continue;
      if (args.right_neighbour && p + 1 < args.last[s] && state_of[p + 1] == state_masked) continue;
      args.flags.row<std::uint8_t>(s)[p] = 1;
    }
  }
}

// 1. chosen = top target by score.  2. C = {score >= [mean +] deviation}; when |C| >= target,
// chosen = C.  3. + the candidate directly before each chosen one (no chain).  4. nothing chosen:
// everything.  5. r = last position kept; + candidates in [processed, r).
void retain(const backend& backend, const op::retain& args) {
  backend.run(op::accept_top{args.candidates, args.score, args.params.target, args.accept});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const std::int32_t first = args.candidates.begin[s], last = args.candidates.begin[s + 1];
    const std::int32_t n = last - first;
    if (n == 0) continue;
    if (args.params.target[s] == 0) {
      std::fill(args.accept + first, args.accept + last, std::uint8_t{1});
      continue;
    }
    if (args.params.by_deviation && n > args.params.ddof) {
      double mean = 0, square = 0;
      for (std::int32_t c = first; c < last; ++c) mean += args.score[c];
      mean /= n;
      for (std::int32_t c = first; c < last; ++c) square += std::pow(args.score[c] - mean, 2);
      const double threshold =
          std::sqrt(square / (n - args.params.ddof)) + (args.params.add_mean ? mean : 0.0);
      const auto passes = [&](float x) { return x >= threshold; };
      if (std::count_if(args.score + first, args.score + last, passes) >= args.params.target[s]) {
        for (std::int32_t c = first; c < last; ++c) args.accept[c] = passes(args.score[c]) ? 1 : 0;
      }
    }
    const std::vector<std::uint8_t> chosen(args.accept + first, args.accept + last);
    for (std::int32_t c = first; args.params.keep_predecessors && c + 1 < last; ++c) {
      const std::int32_t distance =
          args.params.adjacent_rows ? args.candidates.row[c + 1] - args.candidates.row[c]
                                    : args.candidates.position[c + 1] - args.candidates.position[c];
      if (distance == 1 && chosen[static_cast<std::size_t>(c + 1 - first)] != 0) args.accept[c] = 1;
    }
    std::int32_t furthest = -1;
    for (std::int32_t c = first; c < last; ++c) {
      if (args.accept[c] != 0) furthest = args.candidates.position[c];
    }
    if (furthest < 0) {
      std::fill(args.accept + first, args.accept + last, std::uint8_t{1});
      continue;
    }
    for (std::int32_t c = first; args.params.keep_unprocessed && c < last; ++c) {
      const std::int32_t p = args.candidates.position[c];
      if (p < furthest && p >= args.params.processed[s]) args.accept[c] = 1;
    }
  }
}

std::int32_t drop_rows(const op::drop_rows& args) {
  std::vector<bool> gone(static_cast<std::size_t>(args.rows.rows), false);
  for (std::int32_t c = 0; c < args.candidates.count; ++c) {
    if (args.accept[c] == 0) gone[static_cast<std::size_t>(args.candidates.row[c])] = true;
  }
  std::vector<std::int32_t> count(static_cast<std::size_t>(args.rows.sequences), 0);
  std::int32_t n = 0;
  for (std::int32_t r = 0; r < args.rows.rows; ++r) {
    if (gone[static_cast<std::size_t>(r)]) continue;
    ++count[static_cast<std::size_t>(args.rows.sequence[r])];
    args.kept[n] = r;
    args.sequence[n] = args.rows.sequence[r];
    args.position[n] = args.rows.position[r];
    ++n;
  }
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    args.begin[s + 1] = args.begin[s] + count[static_cast<std::size_t>(s)];
  }
  return n;
}

}  // namespace

const register_operations<mark_kv_final, retain, drop_rows> registered(target::reference);

}  // namespace reference

namespace cpu {
namespace {

void retain(const backend& backend, const op::retain& args) {
  backend.run(op::accept_top{args.candidates, args.score, args.params.target, args.accept});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const std::int32_t first = args.candidates.begin[s], last = args.candidates.begin[s + 1];
    const std::int32_t n = last - first;
    if (n == 0) continue;
    bool all = args.params.target[s] == 0;
    if (!all && args.params.by_deviation && n > args.params.ddof) {
      double mean = 0, square = 0;
      for (std::int32_t c = first; c < last; ++c) mean += args.score[c];
      mean /= n;
      for (std::int32_t c = first; c < last; ++c) {
        square += (args.score[c] - mean) * (args.score[c] - mean);
      }
      const double threshold =
          std::sqrt(square / (n - args.params.ddof)) + (args.params.add_mean ? mean : 0.0);
      std::int32_t passing = 0;
      for (std::int32_t c = first; c < last; ++c) passing += args.score[c] >= threshold ? 1 : 0;
      if (passing >= args.params.target[s]) {
        for (std::int32_t c = first; c < last; ++c)
          args.accept[c] = args.score[c] >= threshold ? 1 : 0;
      }
    }
    // Ascending, so accept[c + 1] is still the choice itself: predecessors form no chain.
    std::int32_t furthest = -1;
    for (std::int32_t c = first; !all && c < last; ++c) {
      if (args.params.keep_predecessors && c + 1 < last && args.accept[c + 1] != 0) {
        const std::int32_t* where =
            args.params.adjacent_rows ? args.candidates.row : args.candidates.position;
        if (where[c + 1] - where[c] == 1) args.accept[c] = 1;
      }
      if (args.accept[c] != 0) furthest = args.candidates.position[c];
    }
    all = all || furthest < 0;
    for (std::int32_t c = first; c < last; ++c) {
      const std::int32_t p = args.candidates.position[c];
      if (all || (args.params.keep_unprocessed && p < furthest && p >= args.params.processed[s])) {
        args.accept[c] = 1;
      }
    }
  }
}

// Candidates ascend with the rows: one walk over both. Everything moves forward, so the outputs
// may be the inputs; begin[s + 1] is read before it is overwritten.
std::int32_t drop_rows(const op::drop_rows& args) {
  std::int32_t n = 0, c = 0, r = args.rows.row_begin[0];
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::int32_t last = args.rows.row_begin[s + 1];
    for (; r < last; ++r) {
      while (c < args.candidates.count && args.candidates.row[c] < r) ++c;
      if (c < args.candidates.count && args.candidates.row[c] == r && args.accept[c] == 0) continue;
      args.kept[n] = r;
      args.sequence[n] = args.rows.sequence[r];
      args.position[n] = args.rows.position[r];
      ++n;
    }
    args.begin[s + 1] = n;
  }
  return n;
}

}  // namespace

const register_operations<retain, drop_rows> registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
