// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows, lists of positions, and the flags of positions.
#pragma once

#include "kernels/operation.h"
#include "kernels/token_state.h"

namespace unmask {

// Copies of the lists of a forward, for operations that are recorded once and repeated with other
// rows. Null: not wanted.
struct staged_rows {
  std::int32_t* row_begin = nullptr;  // [S+1]
  std::int32_t* sequence = nullptr;   // [padded] as the three below
  std::int32_t* position = nullptr;
  std::int32_t* slot = nullptr;
  std::int32_t* token = nullptr;
  std::int32_t* index = nullptr;
};

namespace op {

// to = the lists of `rows`, their tokens as gather_tokens finds them, and index [R]; entries R ..
// padded - 1 are padding rows: sequence -1, position, slot, token and index 0. No array may be one of `rows`.
struct stage_rows {
  row_set rows;
  tensor_view canvas;
  const std::int32_t* own = nullptr;
  const std::int32_t* index = nullptr;
  std::int32_t padded = 0;
  staged_rows to;
};

// to[i] = from[index[i]]; rows of any type and width. The two share no memory: on a GPU rows are
// copied in no order.
struct gather_rows {
  tensor_view from;
  const std::int32_t* index = nullptr;
  tensor_view to;
};

// to[index[i]] = from[i].
struct scatter_rows {
  tensor_view from;
  const std::int32_t* index = nullptr;
  tensor_view to;
};

// Positions p in [first[s], last[s]) with flags[s, p] == want (flags without data: all of them),
// ascending, end to end over the sequences: fills begin [S+1], position and sequence; returns the
// total. flags [S, length] uint8.
struct compact {
  using result = std::int32_t;
  std::int32_t sequences = 0;
  tensor_view flags;
  std::uint8_t want = 0;
  const std::int32_t* first = nullptr;
  const std::int32_t* last = nullptr;
  std::int32_t* begin = nullptr;
  std::int32_t* position = nullptr;
  std::int32_t* sequence = nullptr;
};

// The same without a total, for lists that only operations read: nothing has to wait for it.
// sequence null: not wanted.
struct list_flags : compact {
  using result = void;
};

// token[r] = canvas[sequence[r], position[r]], 0 in a padding row; canvas [S, length]
// int32. A row with own[r] >= 0 has that token instead.
struct gather_tokens {
  row_set rows;
  tensor_view canvas;
  std::int32_t* token = nullptr;
  const std::int32_t* own = nullptr;  // [R]; null: no row has a token of its own
};

// What views see, as the key list of an attention: the slots of the ranges [range[v, i, 0],
// range[v, i, 1]), one range after the other, at slot[begin[v]] and on. begin [V+1] is given.
struct list_ranges {
  std::int32_t views = 0;
  std::int32_t ranges = 0;              // of each view; some may be empty
  const std::int32_t* range = nullptr;  // [V, ranges, 2]
  const std::int32_t* begin = nullptr;
  std::int32_t* slot = nullptr;
};

// Candidates of this forward: positions p in [first[s], last[s]) with one of the wanted states whose
// predicting row, that of position p - shift, is in `rows`. Fills begin [S+1], position and row
// (index into rows); returns the total. state [S, length] uint8. With `judges`, where several rows may
// stand at one position, row r predicts where the state is one of judges[r], and the candidates lie in
// the order of their rows.
struct find_candidates {
  using result = std::int32_t;
  row_set rows;
  tensor_view state;
  std::uint8_t wanted = 0;  // bit k: positions of state k (one_state())
  const std::int32_t* first = nullptr;
  const std::int32_t* last = nullptr;
  std::int32_t shift = 0;
  std::int32_t* begin = nullptr;
  std::int32_t* position = nullptr;
  std::int32_t* row = nullptr;
  const std::uint8_t* judges = nullptr;  // [R]; null: `wanted` in every row
};

// flags[s, p] = value for p in [first[s], last[s]).
struct fill_flags {
  std::int32_t sequences = 0;
  const std::int32_t* first = nullptr;
  const std::int32_t* last = nullptr;
  std::uint8_t value = 0;
  tensor_view flags;
};

// flags[sequence[r], position[r]] = value for the rows with where[r] != 0 (where null: all) that
// are no padding rows.
struct scatter_flags {
  row_set rows;
  const std::uint8_t* where = nullptr;
  std::uint8_t value = 0;
  tensor_view flags;
};

// Mean over the rows of each sequence: out[s, c]; x [R, C].
struct mean_rows {
  row_set rows;
  tensor_view x;
  tensor_view out;
};

}  // namespace op
}  // namespace unmask
