// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Block diffusion on the host: one walk over each sequence per operation, no memory of their own.
// States: token_state.h.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/float16.h"
#include "kernels/token_state.h"

namespace unmask::cpu {

namespace {}

void backend::fill_flags(std::int32_t sequences, const std::int32_t* first,
                         const std::int32_t* last, std::uint8_t value,
                         const tensor_view& flags) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    std::uint8_t* flag = flags.row<std::uint8_t>(s);
    if (first[s] < last[s]) std::fill(flag + first[s], flag + last[s], value);
  }
}

void backend::scatter_flags(const row_set& rows, const std::uint8_t* where, std::uint8_t value,
                            const tensor_view& flags) const {
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    std::uint8_t* flag = flags.row<std::uint8_t>(s);
    for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
      if (where == nullptr || where[r] != 0) flag[rows.position[r]] = value;
    }
  }
}

// From the right, so that the neighbour's state is at hand.
void backend::freeze(std::int32_t sequences, const tensor_view& state, const std::int32_t* first,
                     const std::int32_t* last, bool right_neighbour,
                     const tensor_view& flags) const {
  for (std::int32_t s = 0; s < sequences; ++s) {
    const std::uint8_t* of = state.row<std::uint8_t>(s);
    std::uint8_t* flag = flags.row<std::uint8_t>(s);
    bool next = true;
    for (std::int32_t p = last[s] - 1; p >= first[s]; --p) {
      const bool here = of[p] != state_masked;
      if (here && (next || !right_neighbour)) flag[p] = 1;
      next = here;
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

void backend::retain(const candidate_set& candidates, const float* score,
                     const retain_params& params, std::uint8_t* accept) const {
  accept_top(candidates, score, params.target, accept);
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const std::int32_t first = candidates.begin[s], last = candidates.begin[s + 1];
    const std::int32_t n = last - first;
    if (n == 0) continue;
    bool all = params.target[s] == 0;
    if (!all && params.by_deviation && n > params.ddof) {
      double mean = 0, square = 0;
      for (std::int32_t c = first; c < last; ++c) mean += score[c];
      mean /= n;
      for (std::int32_t c = first; c < last; ++c) {
        square += (score[c] - mean) * (score[c] - mean);
      }
      const double threshold =
          std::sqrt(square / (n - params.ddof)) + (params.add_mean ? mean : 0.0);
      std::int32_t passing = 0;
      for (std::int32_t c = first; c < last; ++c) passing += score[c] >= threshold ? 1 : 0;
      if (passing >= params.target[s]) {
        for (std::int32_t c = first; c < last; ++c) accept[c] = score[c] >= threshold ? 1 : 0;
      }
    }
    // Ascending, so accept[c + 1] is still the choice itself: predecessors form no chain.
    std::int32_t furthest = -1;
    for (std::int32_t c = first; !all && c < last; ++c) {
      if (params.keep_predecessors && c + 1 < last && accept[c + 1] != 0) {
        const std::int32_t* where = params.adjacent_rows ? candidates.row : candidates.position;
        if (where[c + 1] - where[c] == 1) accept[c] = 1;
      }
      if (accept[c] != 0) furthest = candidates.position[c];
    }
    all = all || furthest < 0;
    for (std::int32_t c = first; c < last; ++c) {
      const std::int32_t p = candidates.position[c];
      if (all || (params.keep_unprocessed && p < furthest && p >= params.processed[s])) {
        accept[c] = 1;
      }
    }
  }
}

// Candidates ascend with the rows: one walk over both. Everything moves forward, so the outputs
// may be the inputs; begin[s + 1] is read before it is overwritten.
std::int32_t backend::drop_rows(const row_set& rows, const candidate_set& candidates,
                                const std::uint8_t* accept, std::int32_t* begin,
                                std::int32_t* sequence, std::int32_t* position,
                                std::int32_t* kept) const {
  std::int32_t n = 0, c = 0, r = rows.row_begin[0];
  begin[0] = 0;
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    const std::int32_t last = rows.row_begin[s + 1];
    for (; r < last; ++r) {
      while (c < candidates.count && candidates.row[c] < r) ++c;
      if (c < candidates.count && candidates.row[c] == r && accept[c] == 0) continue;
      kept[n] = r;
      sequence[n] = rows.sequence[r];
      position[n] = rows.position[r];
      ++n;
    }
    begin[s + 1] = n;
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
    const std::int32_t size = std::max(params.size[s], 0);
    std::int32_t take_decided = size, take_masked = size, take = size;
    if (params.pending_first) {
      std::int32_t pending = 0;
      for (std::int32_t p = params.first[s]; p < params.last[s]; ++p)
        pending += of[p] == state_decoded;
      take_decided = std::min(pending, size);
      take_masked = size - take_decided;
    }
    for (std::int32_t block = params.first[s] / params.block * params.block; block < params.last[s];
         block += params.block) {
      const std::int32_t end = block + params.block;
      std::int32_t in_cache = 0, last_mask = -1;
      for (std::int32_t p = block; p < end; ++p) {
        in_cache += of[p] == state_cached;
        if (of[p] == state_masked) last_mask = p;
      }
      const std::int32_t start = n;
      std::int32_t settling = 0;
      bool prefix = true;  // nothing masked so far in this block
      for (std::int32_t p = block; p < std::min(end, params.last[s]) && take > 0; ++p) {
        const std::uint8_t here = of[p];
        prefix = prefix && here != state_masked;
        if (here == state_cached || p < params.first[s]) continue;
        std::int32_t& quota = here == state_masked ? take_masked : take_decided;
        if (quota == 0) continue;
        --quota;
        --take;
        bool settle = here == state_decoded;
        if (params.rule == settle_rule::contiguous_prefix) settle = settle && prefix;
        if (params.rule == settle_rule::whole_block) settle = settle && last_mask < 0;
        if (params.rule == settle_rule::right_neighbour) {
          settle = settle && (p + 1 == end || of[p + 1] != state_masked);
        }
        sequence[n] = s;
        position[n] = p;
        settles[n] = settle ? 1 : 0;
        settling += settle ? 1 : 0;
        ++n;
      }
      std::int32_t first = block + in_cache, rest = first + settling;
      for (std::int32_t r = start; r < n; ++r) {
        slot[r] = !params.compact_slots ? position[r] : settles[r] != 0 ? first++ : rest++;
      }
    }
    begin[s + 1] = n;
  }
  return n;
}

}  // namespace unmask::cpu
