// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <cstring>

#include "kernels/reference/backend.h"
#include "kernels/rows.h"

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

// to[i] = from[index[i]].
void gather_rows(const op::gather_rows& args) {
  for (std::int64_t i = 0; i < args.to.rows(); ++i) copy_row(args.from, args.index[i], args.to, i);
}

// to[index[i]] = from[i].
void scatter_rows(const op::scatter_rows& args) {
  for (std::int64_t i = 0; i < args.from.rows(); ++i)
    copy_row(args.from, i, args.to, args.index[i]);
}

// {p in [first_s, last_s) : flags[s, p] == want}, ascending, sequence after sequence.
std::int32_t compact(const op::compact& args) {
  std::int32_t total = 0;
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    for (std::int32_t p = args.first[s]; p < args.last[s]; ++p) {
      if (args.flags.data != nullptr && args.flags.row<std::uint8_t>(s)[p] != args.want) continue;
      if (args.sequence != nullptr) args.sequence[total] = s;
      args.position[total++] = p;
    }
    args.begin[s + 1] = total;
  }
  return total;
}

void list_flags(const op::list_flags& args) {
  compact(args);
}

// token[r] = canvas[sequence[r], position[r]].
void gather_tokens(const op::gather_tokens& args) {
  for (std::int32_t r = 0; r < args.rows.rows; ++r) {
    if (args.rows.sequence[r] < 0) {
      args.token[r] = 0;
    } else if (args.own != nullptr && args.own[r] >= 0) {
      args.token[r] = args.own[r];
    } else {
      args.token[r] = args.canvas.row<std::int32_t>(args.rows.sequence[r])[args.rows.position[r]];
    }
  }
}

void list_ranges(const op::list_ranges& args) {
  for (std::int32_t v = 0; v < args.views; ++v) {
    std::int32_t* to = args.slot + args.begin[v];
    const std::int32_t* range = args.range + std::int64_t{v} * args.ranges * 2;
    for (std::int32_t i = 0; i < args.ranges; ++i) {
      for (std::int32_t slot = range[2 * i]; slot < range[2 * i + 1]; ++slot) *to++ = slot;
    }
  }
}

// {(p, r) : r is a row of s at p - shift, p in [first_s, last_s), state[s, p] in judges[r]}.
std::int32_t find_judged(const op::find_candidates& args) {
  std::int32_t total = 0;
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::uint8_t* state = args.state.row<std::uint8_t>(s);
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      const std::int32_t p = args.rows.position[r] + args.shift;
      if (p < args.first[s] || p >= args.last[s] || !is_one_of(state[p], args.judges[r])) continue;
      args.position[total] = p;
      args.row[total++] = r;
    }
    args.begin[s + 1] = total;
  }
  return total;
}

// {(p, r) : p in [first_s, last_s), state[s, p] is wanted, row r of s has position p - shift}.
std::int32_t find_candidates(const op::find_candidates& args) {
  if (args.judges != nullptr) return find_judged(args);
  std::int32_t total = 0;
  args.begin[0] = 0;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    for (std::int32_t p = args.first[s]; p < args.last[s]; ++p) {
      if (!is_one_of(args.state.row<std::uint8_t>(s)[p], args.wanted)) continue;
      for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
        if (args.rows.position[r] != p - args.shift) continue;
        args.position[total] = p;
        args.row[total++] = r;
      }
    }
    args.begin[s + 1] = total;
  }
  return total;
}

// out[s] = (1 / R_s) sum of the rows of s; zeros when s has none.
void mean_rows(const op::mean_rows& args) {
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::int32_t count = args.rows.row_begin[s + 1] - args.rows.row_begin[s];
    for (std::int64_t c = 0; c < args.x.columns(); ++c) {
      double sum = 0;
      for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
        sum += args.x.row<float>(r)[c];
      }
      args.out.row<float>(s)[c] = count > 0 ? static_cast<float>(sum / count) : 0.0F;
    }
  }
}

void stage_rows(const op::stage_rows& args) {
  const auto stage = [&](const std::int32_t* from, std::int32_t filler, std::int32_t* list) {
    if (list == nullptr) return;
    for (std::int32_t r = 0; r < args.padded; ++r) {
      list[r] = r < args.rows.rows && from != nullptr ? from[r] : filler;
    }
  };
  if (args.to.row_begin != nullptr) {
    std::memcpy(args.to.row_begin, args.rows.row_begin,
                static_cast<std::size_t>(args.rows.sequences + 1) * sizeof(std::int32_t));
  }
  stage(args.rows.sequence, -1, args.to.sequence);
  stage(args.rows.position, 0, args.to.position);
  stage(args.rows.slot, 0, args.to.slot);
  stage(args.index, 0, args.to.index);
  if (args.to.token == nullptr) return;
  gather_tokens({args.rows, args.canvas, args.to.token, args.own});
  std::fill(args.to.token + args.rows.rows, args.to.token + args.padded, 0);
}

void fill_flags(const op::fill_flags& args) {
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    for (std::int32_t p = args.first[s]; p < args.last[s]; ++p)
      args.flags.row<std::uint8_t>(s)[p] = args.value;
  }
}

void scatter_flags(const op::scatter_flags& args) {
  for (std::int32_t r = 0; r < args.rows.rows; ++r) {
    if (args.rows.sequence[r] < 0 || (args.where != nullptr && args.where[r] == 0)) continue;
    args.flags.row<std::uint8_t>(args.rows.sequence[r])[args.rows.position[r]] = args.value;
  }
}

}  // namespace

const register_operations<gather_rows, scatter_rows, compact, list_flags, gather_tokens,
                          list_ranges, find_candidates, mean_rows, stage_rows, fill_flags,
                          scatter_flags>
    registered(target::reference);

}  // namespace unmask::reference
