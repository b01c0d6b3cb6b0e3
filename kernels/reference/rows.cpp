// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/reference/ops.h"

namespace unmask::reference {

namespace {

void copy_row(const tensor_view& from, std::int64_t i, const tensor_view& to, std::int64_t j) {
  const std::size_t element = size_of(from.type);
  if (from.type != to.type || from.columns() != to.columns()) {
    throw std::logic_error("rows: type or width differs");
  }
  std::memcpy(
      static_cast<std::byte*>(to.data) + static_cast<std::size_t>(j * to.row_stride) * element,
      static_cast<const std::byte*>(from.data) +
          static_cast<std::size_t>(i * from.row_stride) * element,
      static_cast<std::size_t>(from.columns()) * element);
}

}  // namespace

// to[i] = from[index[i]].
void backend::gather_rows(const tensor_view& from, const std::int32_t* index,
                          const tensor_view& to) const {
  for (std::int64_t i = 0; i < to.rows(); ++i) copy_row(from, index[i], to, i);
}

// to[index[i]] = from[i].
void backend::scatter_rows(const tensor_view& from, const std::int32_t* index,
                           const tensor_view& to) const {
  for (std::int64_t i = 0; i < from.rows(); ++i) copy_row(from, i, to, index[i]);
}

// {p in [first_s, last_s) : flags[s, p] == want}, ascending, sequence after sequence.
std::int32_t backend::compact(std::int32_t sequences, const tensor_view& flags, std::uint8_t want,
                              const std::int32_t* first, const std::int32_t* last,
                              std::int32_t* begin, std::int32_t* position,
                              std::int32_t* sequence) const {
  std::int32_t total = 0;
  begin[0] = 0;
  for (std::int32_t s = 0; s < sequences; ++s) {
    for (std::int32_t p = first[s]; p < last[s]; ++p) {
      if (flags.data != nullptr && flags.row<std::uint8_t>(s)[p] != want) continue;
      position[total] = p;
      sequence[total++] = s;
    }
    begin[s + 1] = total;
  }
  return total;
}

// index[i] = r with (sequence, position) of rows r and some i equal.
void backend::find_rows(const row_set& rows, const row_set& some, std::int32_t* index) const {
  for (std::int32_t i = 0; i < some.rows; ++i) {
    const std::int32_t s = some.sequence[i];
    index[i] = -1;
    for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
      if (rows.position[r] == some.position[i]) index[i] = r;
    }
    if (index[i] < 0) throw std::logic_error("find_rows: a row is not there");
  }
}

// token[r] = canvas[sequence[r], position[r]].
void backend::gather_tokens(const row_set& rows, const tensor_view& canvas,
                            std::int32_t* token) const {
  for (std::int32_t r = 0; r < rows.rows; ++r) {
    token[r] =
        rows.sequence[r] < 0 ? 0 : canvas.row<std::int32_t>(rows.sequence[r])[rows.position[r]];
  }
}

// {(p, r) : p in [first_s, last_s), state[s, p] == want, row r of s has position p - shift}.
std::int32_t backend::find_candidates(const row_set& rows, const tensor_view& state,
                                      std::uint8_t want, const std::int32_t* first,
                                      const std::int32_t* last, std::int32_t shift,
                                      std::int32_t* begin, std::int32_t* position,
                                      std::int32_t* row) const {
  std::int32_t total = 0;
  begin[0] = 0;
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    for (std::int32_t p = first[s]; p < last[s]; ++p) {
      if (state.row<std::uint8_t>(s)[p] != want) continue;
      for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
        if (rows.position[r] != p - shift) continue;
        position[total] = p;
        row[total++] = r;
      }
    }
    begin[s + 1] = total;
  }
  return total;
}

// out[s] = (1 / R_s) sum of the rows of s; zeros when s has none.
void backend::mean_rows(const row_set& rows, const tensor_view& x, const tensor_view& out) const {
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    const std::int32_t count = rows.row_begin[s + 1] - rows.row_begin[s];
    for (std::int64_t c = 0; c < x.columns(); ++c) {
      double sum = 0;
      for (std::int32_t r = rows.row_begin[s]; r < rows.row_begin[s + 1]; ++r) {
        sum += x.row<float>(r)[c];
      }
      out.row<float>(s)[c] = count > 0 ? static_cast<float>(sum / count) : 0.0F;
    }
  }
}

// 1 - sum(a b) / max(|a| |b|, 1e-8).
void backend::row_distance(const tensor_view& a, const tensor_view& b, float* out) const {
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    const float* p = a.row<float>(r);
    const float* q = b.row<float>(r);
    double pq = 0, pp = 0, qq = 0;
    for (std::int64_t c = 0; c < a.columns(); ++c) {
      pq += double{p[c]} * q[c];
      pp += double{p[c]} * p[c];
      qq += double{q[c]} * q[c];
    }
    out[r] = static_cast<float>(1.0 - pq / std::max(std::sqrt(pp) * std::sqrt(qq), 1e-8));
  }
}

}  // namespace unmask::reference
