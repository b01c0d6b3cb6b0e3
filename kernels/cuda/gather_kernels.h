// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows: copied by index, listed by flag, found by position. Lists are compacted in two kernels
// without atomics: a block for each sequence counts, then each adds up the counts before its own
// and writes in order.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/row_tokens.h"

namespace unmask::cuda::UNMASK_TARGET {

struct copy_rows_params {
  const void* from;
  std::int64_t from_stride;        // all in units of the copied word
  const std::int32_t* from_index;  // null: row i
  void* to;
  std::int64_t to_stride;
  const std::int32_t* to_index;  // null: row i
  std::int64_t width;
};

struct alignas(16) sixteen_bytes {
  std::uint32_t word[4];
};

// Grid: rows x pieces of a row. Word: the largest unit that divides addresses, strides and width.
template <class Word>
UNMASK_KERNEL void copy_rows_kernel(copy_rows_params p) {
  const std::int64_t i = block_index();
  const std::int64_t source = p.from_index != nullptr ? p.from_index[i] : i;
  const std::int64_t target = p.to_index != nullptr ? p.to_index[i] : i;
  const Word* from = static_cast<const Word*>(p.from) + source * p.from_stride;
  Word* to = static_cast<Word*>(p.to) + target * p.to_stride;
  const std::int64_t step = static_cast<std::int64_t>(grid_size_y()) * block_size();
  for (std::int64_t c = static_cast<std::int64_t>(block_index_y()) * block_size() + thread_index();
       c < p.width; c += step) {
    to[c] = from[c];
  }
}

// Row of the sequence with this position, or -1; positions ascend inside a sequence.
UNMASK_DEVICE int row_at(const row_set& rows, int s, int position) {
  int first = rows.row_begin[s], last = rows.row_begin[s + 1];
  const int end = last;
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (rows.position[middle] < position) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first < end && rows.position[first] == position ? first : -1;
}

struct gather_tokens_params {
  row_set rows;
  const std::int32_t* canvas;
  std::int64_t stride;
  std::int32_t* token;
  const std::int32_t* own;  // null: no row has a token of its own
};

UNMASK_KERNEL void gather_tokens_kernel(gather_tokens_params p) {
  const int r = static_cast<int>(block_index() * block_size() + thread_index());
  if (r < p.rows.rows) p.token[r] = token_of(p.rows, p.canvas, p.stride, p.own, r);
}

struct list_ranges_params {
  std::int32_t ranges;
  const std::int32_t* range;  // [V, ranges, 2]
  const std::int32_t* begin;  // [V]
  std::int32_t* slot;
};

// A block for each view.
UNMASK_KERNEL void list_ranges_kernel(list_ranges_params p) {
  const int v = static_cast<int>(block_index());
  std::int32_t* to = p.slot + p.begin[v];
  const std::int32_t* range = p.range + static_cast<std::int64_t>(v) * p.ranges * 2;
  for (int i = 0; i < p.ranges; ++i) {
    const int first = range[2 * i], n = range[2 * i + 1] - first;
    for (int k = static_cast<int>(thread_index()); k < n; k += static_cast<int>(block_size())) {
      to[k] = first + k;
    }
    to += n > 0 ? n : 0;
  }
}

// ---- lists --------------------------------------------------------------------------------------

struct list_flags_params {
  const std::uint8_t* flags;
  std::int64_t stride;
  std::uint8_t want;
  const std::int32_t* first;
  const std::int32_t* last;
  std::int32_t* count;     // [S] scratch between the two kernels
  std::int32_t* begin;     // [S+1]
  std::int32_t* position;  // [total]
  std::int32_t* sequence;  // [total], null: not wanted
};

UNMASK_KERNEL void count_flags_kernel(list_flags_params l) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = l.first[s];
  const std::uint8_t* flags = l.flags + s * l.stride + first;
  const int found = group.count(l.last[s] - first, [&](int i) { return flags[i] == l.want; });
  if (group.rank() == 0) l.count[s] = found;
}

UNMASK_KERNEL void write_flags_kernel(list_flags_params l) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const int s = static_cast<int>(block_index());
  int at = entries_before(group, l.count, s);
  if (group.rank() == 0) {
    l.begin[s] = at;
    if (s + 1 == static_cast<int>(grid_size())) l.begin[s + 1] = at + l.count[s];
  }
  const int first = l.first[s], n = l.last[s] - first;
  const std::uint8_t* flags = l.flags + s * l.stride;
  for (int base = 0; base < n; base += group.size()) {
    const int p = first + base + group.rank();
    int total = 0;
    const bool here = p < l.last[s] && flags[p] == l.want;
    const int place = at + group.before(here, total);
    if (here) {
      l.position[place] = p;
      if (l.sequence != nullptr) l.sequence[place] = s;
    }
    at += total;
  }
}

// ---- means and distances ------------------------------------------------------------------------

struct mean_rows_params {
  const std::int32_t* row_begin;
  const void* x;
  std::int64_t x_stride;
  std::int64_t width;
  float* out;
  std::int64_t out_stride;
};

// Grid: sequences x pieces of the width. A thread for each column adds the rows, of `type`, in order.
template <dtype type>
UNMASK_KERNEL void mean_rows_kernel(mean_rows_params p) {
  const int s = static_cast<int>(block_index());
  const int first = p.row_begin[s], last = p.row_begin[s + 1];
  const std::int64_t c = static_cast<std::int64_t>(block_index_y()) * block_size() + thread_index();
  if (c >= p.width) return;
  double sum = 0;
  for (int r = first; r < last; ++r) {
    sum += static_cast<double>(load_float(p.x, type, r * p.x_stride + c));
  }
  p.out[s * p.out_stride + c] = last > first ? static_cast<float>(sum / (last - first)) : 0.0F;
}

// A range of positions [first, last) of each sequence and the bytes it refers to.
struct flags_params {
  const std::int32_t* first;
  const std::int32_t* last;
  std::uint8_t value;
  std::uint8_t* flags;
  std::int64_t stride;
};

// Grid: sequences x pieces.
UNMASK_KERNEL void fill_flags_kernel(flags_params f) {
  const int s = static_cast<int>(block_index());
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int p = f.first[s] + static_cast<int>(block_index_y() * block_size() + thread_index());
       p < f.last[s]; p += step) {
    f.flags[s * f.stride + p] = f.value;
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
