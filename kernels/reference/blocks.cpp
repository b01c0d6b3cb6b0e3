// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Block diffusion: which rows of a block enter a forward, which leave it early, and whose K/V is
// final. States: token_state.h.
#include <algorithm>
#include <cmath>

#include "kernels/float16.h"
#include "kernels/reference/ops.h"
#include "kernels/token_state.h"

namespace unmask::reference {

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

}  // namespace

void backend::fill_flags(std::int32_t sequences, const std::int32_t* first,
                         const std::int32_t* last, std::uint8_t value,
                         const tensor_view& flags) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    for (std::int32_t p = first[s]; p < last[s]; ++p) flags.row<std::uint8_t>(s)[p] = value;
  }
}

void backend::scatter_flags(const row_set& rows, const std::uint8_t* where, std::uint8_t value,
                            const tensor_view& flags) const {
  for (std::int32_t r = 0; r < rows.rows; ++r) {
    if (rows.sequence[r] < 0 || (where != nullptr && where[r] == 0)) continue;
    flags.row<std::uint8_t>(rows.sequence[r])[rows.position[r]] = value;
  }
}

void backend::freeze(std::int32_t sequences, const tensor_view& state, const std::int32_t* first,
                     const std::int32_t* last, bool right_neighbour,
                     const tensor_view& flags) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    const std::uint8_t* state_of = state.row<std::uint8_t>(s);
    for (std::int32_t p = first[s]; p < last[s]; ++p) {
      if (state_of[p] == state_masked) continue;
      if (right_neighbour && p + 1 < last[s] && state_of[p + 1] == state_masked) continue;
      flags.row<std::uint8_t>(s)[p] = 1;
    }
  }
}

void backend::combine_scores(std::int32_t count, const float* a, float wa, const float* b, float wb,
                             float* out) const {
  for (std::int32_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(double{a[i]} * wa + (b != nullptr ? double{b[i]} * wb : 0.0));
  }
}

void backend::round_bf16(std::int32_t count, float* x) const {
  for (std::int32_t i = 0; i < count; ++i) x[i] = from_bf16(to_bf16(x[i]));
}

// 1. chosen = top target by score.  2. C = {score >= [mean +] deviation}; when |C| >= target,
// chosen = C.  3. + the candidate directly before each chosen one (no chain).  4. nothing chosen:
// everything.  5. r = last position kept; + candidates in [processed, r).
void backend::retain(const candidate_set& candidates, const float* score,
                     const retain_params& params, std::uint8_t* accept) const {
  accept_top(candidates, score, params.target, accept);
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const std::int32_t first = candidates.begin[s], last = candidates.begin[s + 1];
    const std::int32_t n = last - first;
    if (n == 0) continue;
    if (params.target[s] == 0) {
      std::fill(accept + first, accept + last, std::uint8_t{1});
      continue;
    }
    if (params.by_deviation && n > params.ddof) {
      double mean = 0, square = 0;
      for (std::int32_t c = first; c < last; ++c) mean += score[c];
      mean /= n;
      for (std::int32_t c = first; c < last; ++c) square += std::pow(score[c] - mean, 2);
      const double threshold =
          std::sqrt(square / (n - params.ddof)) + (params.add_mean ? mean : 0.0);
      const auto passes = [&](float x) { return x >= threshold; };
      if (std::count_if(score + first, score + last, passes) >= params.target[s]) {
        for (std::int32_t c = first; c < last; ++c) accept[c] = passes(score[c]) ? 1 : 0;
      }
    }
    const std::vector<std::uint8_t> chosen(accept + first, accept + last);
    for (std::int32_t c = first; params.keep_predecessors && c + 1 < last; ++c) {
      const std::int32_t distance = params.adjacent_rows
                                        ? candidates.row[c + 1] - candidates.row[c]
                                        : candidates.position[c + 1] - candidates.position[c];
      if (distance == 1 && chosen[static_cast<std::size_t>(c + 1 - first)] != 0) accept[c] = 1;
    }
    std::int32_t furthest = -1;
    for (std::int32_t c = first; c < last; ++c) {
      if (accept[c] != 0) furthest = candidates.position[c];
    }
    if (furthest < 0) {
      std::fill(accept + first, accept + last, std::uint8_t{1});
      continue;
    }
    for (std::int32_t c = first; params.keep_unprocessed && c < last; ++c) {
      const std::int32_t p = candidates.position[c];
      if (p < furthest && p >= params.processed[s]) accept[c] = 1;
    }
  }
}

std::int32_t backend::drop_rows(const row_set& rows, const candidate_set& candidates,
                                const std::uint8_t* accept, std::int32_t* begin,
                                std::int32_t* sequence, std::int32_t* position,
                                std::int32_t* kept) const {
  std::vector<bool> gone(static_cast<std::size_t>(rows.rows), false);
  for (std::int32_t c = 0; c < candidates.count; ++c) {
    if (accept[c] == 0) gone[static_cast<std::size_t>(candidates.row[c])] = true;
  }
  std::vector<std::int32_t> count(static_cast<std::size_t>(rows.sequences), 0);
  std::int32_t n = 0;
  for (std::int32_t r = 0; r < rows.rows; ++r) {
    if (gone[static_cast<std::size_t>(r)]) continue;
    ++count[static_cast<std::size_t>(rows.sequence[r])];
    kept[n] = r;
    sequence[n] = rows.sequence[r];
    position[n] = rows.position[r];
    ++n;
  }
  begin[0] = 0;
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    begin[s + 1] = begin[s] + count[static_cast<std::size_t>(s)];
  }
  return n;
}

std::int32_t backend::select_chunk(std::int32_t sequences, const tensor_view& state,
                                   const chunk_params& params, std::int32_t* begin,
                                   std::int32_t* sequence, std::int32_t* position,
                                   std::int32_t* slot, std::uint8_t* settles) const {
  std::int32_t n = 0;
  begin[0] = 0;
  for (std::int32_t s = 0; s < sequences; ++s) {
    const std::uint8_t* of = state.row<std::uint8_t>(s);
    std::vector<std::int32_t> open, chosen;
    for (std::int32_t p = params.first[s]; p < params.last[s]; ++p) {
      if (of[p] != state_cached) open.push_back(p);
    }
    const auto size = static_cast<std::size_t>(std::max(params.size[s], 0));
    if (params.pending_first) {
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
      const std::int32_t block = p / params.block * params.block;
      sequence[n] = s;
      position[n] = p;
      settles[n] =
          of[p] == state_decoded && settled(of, p, block, block + params.block, params.rule);
      ++n;
    }
    // Inside each block: the cached first, then the rows that settle now, then the others.
    for (std::int32_t r = start; r < n; ++r) {
      const std::int32_t block = position[r] / params.block * params.block;
      std::int32_t rank = static_cast<std::int32_t>(
          std::count(of + block, of + block + params.block, state_cached));
      for (std::int32_t o = start; o < n; ++o) {
        if (position[o] / params.block * params.block != block) continue;
        const bool before = settles[o] != settles[r] ? settles[o] != 0 : o < r;
        rank += before ? 1 : 0;
      }
      slot[r] = params.compact_slots ? block + rank : position[r];
    }
    begin[s + 1] = n;
  }
  return n;
}

}  // namespace unmask::reference
