// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Batches of attention, with keys and values in float32 and in bfloat16, and how far a result may be off.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention.h"
#include "kernels/float16.h"
#include "tests/kernels/support.h"

namespace unmask::test {

struct shape {
  std::int64_t heads, kv_heads, dim;
};
// One ragged batch: keys by length or by list, and a mask.
struct attention_case {
  std::mt19937 rng;
  rows_fixture rows;
  cache_fixture cache;
  std::vector<std::int32_t> length, list_begin{0}, list;
  key_set keys;
  grid q;
  attention_case(const shape& s, const std::vector<std::int32_t>& lengths, std::int32_t pages,
                 mask_kind mask, bool listed, unsigned seed)
      : rng(seed),
        rows(rng, lengths, pages * kv_page_size),
        cache(rng, static_cast<std::int32_t>(lengths.size()), pages, s.kv_heads, s.dim),
        q({rows.set.rows, s.heads, s.dim}, 4) {
    q.randomize(rng, 2.0F);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int32_t capacity = pages * kv_page_size;
      length.push_back(capacity - static_cast<std::int32_t>(rng() % 100));
      std::vector<std::int32_t> slots(static_cast<std::size_t>(capacity));
      for (std::int32_t p = 0; p < capacity; ++p) slots[static_cast<std::size_t>(p)] = p;
      std::shuffle(slots.begin(), slots.end(), rng);
      slots.resize(rng() % static_cast<std::size_t>(capacity));
      list.insert(list.end(), slots.begin(), slots.end());
      list_begin.push_back(static_cast<std::int32_t>(list.size()));
    }
    keys.kv_length = length.data();
    keys.mask = mask;
    keys.block = 7;
    if (listed) {
      keys.key_begin = list_begin.data();
      keys.key_slot = list.data();
    }
  }
  std::int32_t total_keys() const {
    if (keys.key_begin != nullptr) return list_begin.back();
    std::int32_t n = 0;
    for (const std::int32_t l : length) n += l;
    return n;
  }
};

// Keys and values as bfloat16. The rounded ones, as float32, are what the reference sees.
struct half_cache {
  std::vector<std::uint16_t> key, value;
  paged_kv kv;
  explicit half_cache(attention_case& c) {
    kv = c.cache.kv;
    for (const auto& [from, to, side] : {std::tuple{&c.cache.keys, &key, &kv.keys},
                                         std::tuple{&c.cache.values, &value, &kv.values}}) {
      // 16-byte aligned, as allocate() gives: room in front is left out.
      to->resize(static_cast<std::size_t>(from->view().elements()) + 8);
      auto start = reinterpret_cast<std::uintptr_t>(to->data());
      auto* first = to->data() + (16 - start % 16) % 16 / 2;
      std::size_t n = 0;
      for (std::int64_t r = 0; r < from->rows(); ++r) {
        for (std::int64_t d = 0; d < from->columns(); ++d) {
          first[n++] = to_bf16(from->at(r, d));
          from->at(r, d) = from_bf16(to_bf16(from->at(r, d)));
        }
      }
      side->data = first;
      side->type = dtype::bf16;
      side->row_stride = from->columns();
    }
  }
};

// Root mean square of the difference over that of the result. Rounding the weights to bfloat16
// costs 2^-9 each, of both signs: some 2e-3.
inline double relative_error(const grid& got, const grid& want) {
  double difference = 0, size = 0;
  for (std::int64_t r = 0; r < want.rows(); ++r) {
    for (std::int64_t d = 0; d < want.columns(); ++d) {
      const double x = got.at(r, d) - want.at(r, d);
      difference += x * x;
      size += double{want.at(r, d)} * want.at(r, d);
    }
  }
  return std::sqrt(difference / size);
}

inline std::string text_of(const attention_case& c) {
  const char* masks[] = {"no mask", "a causal mask", "a mask of blocks"};
  std::string text = std::to_string(c.q.view().shape[1]) + " heads of " +
                     std::to_string(c.q.view().shape[2]) + ", " +
                     std::to_string(c.cache.kv.keys.shape[2]) + " of keys, " +
                     masks[static_cast<std::size_t>(c.keys.mask)] +
                     (c.keys.key_begin != nullptr ? ", listed keys" : "") + ", rows and keys";
  const std::size_t sequences = c.length.size();
  for (std::size_t s = 0; s < std::min<std::size_t>(sequences, 8); ++s) {
    const std::int32_t keys =
        c.keys.key_begin != nullptr ? c.list_begin[s + 1] - c.list_begin[s] : c.length[s];
    text +=
        " " + std::to_string(c.rows.begin[s + 1] - c.rows.begin[s]) + "/" + std::to_string(keys);
  }
  return text + (sequences > 8 ? " ... of " + std::to_string(sequences) + " sequences" : "");
}

// relative_error(got, want) < most. A failure names who computed, the case, and the element that is furthest
// off with both its values.
inline ::testing::AssertionResult agree(const std::string& who, const grid& got, const grid& want,
                                        double most, const attention_case& c) {
  const double error = relative_error(got, want);
  if (error < most) return ::testing::AssertionSuccess();
  std::int64_t row = 0, column = 0;
  double worst = -1;
  for (std::int64_t r = 0; r < want.rows(); ++r) {
    for (std::int64_t d = 0; d < want.columns(); ++d) {
      const double off = std::fabs(got.at(r, d) - want.at(r, d));
      if (off <= worst) continue;
      worst = std::isnan(off) ? double{infinity} : off;
      row = r;
      column = d;
    }
  }
  return ::testing::AssertionFailure()
         << who << " is off by " << error << " of the size, " << most << " is allowed. At "
         << place_in(want, row, column) << ": " << got.at(row, column) << ", not "
         << want.at(row, column) << ". The case: " << text_of(c);
}

inline void round_queries(attention_case& c) {
  for (std::int64_t r = 0; r < c.q.rows(); ++r) {
    for (std::int64_t d = 0; d < c.q.columns(); ++d) {
      c.q.at(r, d) = from_bf16(to_bf16(0.5F * c.q.at(r, d)));
    }
  }
}

// The device whose products that wgmma or mma.sync can make are made by wgmma, or are not.
inline const backend& by_wgmma(bool wgmma, const backend& device) {
  cuda::choices choices = cuda::choices_of_environment();
  choices.wgmma = wgmma;
  return with(choices, device);
}

}  // namespace unmask::test
