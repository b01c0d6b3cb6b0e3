// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/reference/backend.h"
#include "methods/sparse_dllm/kernels/eviction.h"

namespace unmask {
namespace reference {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// out_j = max or mean of in over [j - kernel / 2, j + kernel / 2] inside the segment.
void pool(const op::pool& args) {
  if (args.kernel < 1 || args.kernel % 2 == 0)
    throw std::logic_error("pool: the window must be odd");
  for (std::int32_t s = 0; s < args.segments; ++s) {
    for (std::int32_t j = args.begin[s]; j < args.begin[s + 1]; ++j) {
      const std::int32_t low = std::max(args.begin[s], j - args.kernel / 2);
      const std::int32_t high = std::min(args.begin[s + 1] - 1, j + args.kernel / 2);
      double sum = 0;
      float largest = minus_infinity;
      for (std::int32_t i = low; i <= high; ++i) {
        sum += args.in[i];
        if (args.in[i] > largest) largest = args.in[i];
      }
      args.out[j] = args.maximum ? largest : static_cast<float>(sum / (high - low + 1));
    }
  }
}

void list_kept(const op::list_kept& args) {
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::int32_t top = args.top_begin[s + 1] - args.top_begin[s];
    std::int32_t* kept = args.kept + args.kept_begin[s];
    for (std::int32_t i = 0; i < args.kept_begin[s + 1] - args.kept_begin[s]; ++i) {
      kept[i] = i < top ? args.slots[args.begin[s] + args.top[args.top_begin[s] + i]]
                        : args.suffix[s] + i - top;
    }
  }
}

void kv_copy(const op::kv_copy& args) {
  const auto bytes =
      static_cast<std::size_t>(args.from.keys.shape[2] * args.from.keys.shape[3]) * sizeof(float);
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    for (std::int32_t i = args.begin[s]; i < args.begin[s + 1]; ++i) {
      const std::int32_t slot = i - args.begin[s];
      std::memcpy(slot_row(args.to, args.to.keys, s, slot),
                  slot_row(args.from, args.from.keys, s, args.from_slot[i]), bytes);
      std::memcpy(slot_row(args.to, args.to.values, s, slot),
                  slot_row(args.from, args.from.values, s, args.from_slot[i]), bytes);
    }
  }
}

}  // namespace

const register_operations<pool, list_kept, kv_copy> registered(target::reference);

}  // namespace reference
}  // namespace unmask
