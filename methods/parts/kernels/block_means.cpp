// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reference/backend.h"
#include "methods/parts/kernels/block_means.h"

namespace unmask {
namespace reference {
namespace {

// out[b] = mean of the keys of slots [b block, (b + 1) block) that exist.
void block_mean_keys(const op::block_mean_keys& args) {
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    for (std::int32_t b = 0; b < args.block_begin[s + 1] - args.block_begin[s]; ++b) {
      const std::int32_t at = args.first_block != nullptr ? args.first_block[s] + b : b;
      const std::int32_t first = at * args.block,
                         last = std::min(args.kv_length[s], first + args.block);
      for (std::int64_t d = 0; d < args.out.columns(); ++d) {
        double sum = 0;
        for (std::int32_t slot = first; slot < last; ++slot) {
          sum += slot_row(args.cache, args.cache.keys, s, slot)[d];
        }
        args.out.row<float>(args.block_begin[s] + b)[d] =
            last > first ? static_cast<float>(sum / (last - first)) : 0.0F;
      }
    }
  }
}

// The slots of the focused keys: response, top blocks, sinks.
void mark_context(const op::mark_context& args) {
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::int32_t length = args.length[s], from = args.seen_from[s];
    std::uint8_t* flags = args.flags.row<std::uint8_t>(s);
    for (std::int32_t p = 0; p < length; ++p) flags[p] = p >= from ? 1 : 0;
    for (std::int32_t t = args.top_begin[s]; t < args.top_begin[s + 1]; ++t) {
      const std::int32_t first = args.top[t] * args.block;
      for (std::int32_t p = first; p < std::min(from, first + args.block); ++p) flags[p] = 1;
    }
    if (args.sink == nullptr) continue;
    for (std::int32_t i = args.sink_begin[2 * s]; i < args.sink_begin[2 * s + 1]; ++i) {
      flags[args.sink[i]] = 1;
    }
  }
}

}  // namespace

const register_operations<block_mean_keys, mark_context> registered(target::reference);

}  // namespace reference

namespace cpu {
namespace {

void block_mean_keys(const backend& cpu, const op::block_mean_keys& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t width = args.out.columns();
  for (std::int32_t s = 0; s < args.sequences; ++s) {
    const std::int32_t blocks = args.block_begin[s + 1] - args.block_begin[s];
#pragma omp parallel for schedule(static) if (blocks * args.block * width > parallel_elements)
    for (std::int32_t b = 0; b < blocks; ++b) {
      thread_local scratch memory;
      double* sum = memory.get<double>(width);
      std::fill(sum, sum + width, 0.0);
      const std::int32_t at = args.first_block != nullptr ? args.first_block[s] + b : b;
      const std::int32_t first = at * args.block,
                         last = std::min(args.kv_length[s], first + args.block);
      for (std::int32_t slot = first; slot < last; ++slot) {
        kernels.add_to(sum, cached(args.cache, s, slot), width);
      }
      const std::int32_t count = std::max(1, last - first);
      float* to = args.out.row<float>(args.block_begin[s] + b);
      for (std::int64_t d = 0; d < width; ++d) to[d] = static_cast<float>(sum[d] / count);
    }
  }
}

}  // namespace

const register_operations<block_mean_keys> registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
