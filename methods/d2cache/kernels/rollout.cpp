// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/d2cache/kernels/rollout.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/scratch.h"
#include "kernels/float16.h"

namespace unmask {
namespace reference {
namespace {

double rollout_element(const tensor_view& x, const void* row, std::int64_t i) {
  if (x.type == dtype::f32) return double{static_cast<const float*>(row)[i]};
  const std::uint16_t half = static_cast<const std::uint16_t*>(row)[i];
  return double{x.type == dtype::bf16 ? from_bf16(half) : from_f16(half)};
}

const void* rollout_key(const paged_kv& cache, std::int32_t s, std::int32_t slot) {
  const std::int64_t page = cache.page_table[s * cache.table_stride + slot / kv_page_size];
  const std::int64_t at = page * cache.keys.row_stride + std::int64_t{slot % kv_page_size} *
                                                             cache.keys.shape[2] *
                                                             cache.keys.shape[3];
  return static_cast<const std::byte*>(cache.keys.data) +
         at * static_cast<std::int64_t>(size_of(cache.keys.type));
}

void mean_attention(const op::mean_attention& args) {
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2];
  const std::int64_t group = heads / args.cache.keys.shape[2];
  const std::int64_t width = heads * dim;
  std::vector<double> query(static_cast<std::size_t>(width)), score, mean;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::int32_t count = args.kv_length[s];
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      const void* of_row = static_cast<const std::byte*>(args.q.data) +
                           r * args.q.row_stride * static_cast<std::int64_t>(size_of(args.q.type));
      for (std::int64_t i = 0; i < width; ++i) {
        query[static_cast<std::size_t>(i)] = rollout_element(args.q, of_row, i);
      }
      mean.assign(static_cast<std::size_t>(count), 0.0);
      for (std::int64_t h = 0; h < heads; ++h) {
        score.clear();
        for (std::int32_t j = 0; j < count; ++j) {
          const void* key = rollout_key(args.cache, s, j);
          double dot = 0;
          for (std::int64_t d = 0; d < dim; ++d) {
            dot += query[static_cast<std::size_t>(h * dim + d)] *
                   rollout_element(args.cache.keys, key, h / group * dim + d);
          }
          score.push_back(dot * args.scale);
        }
        const double largest = count > 0 ? std::ranges::max(score) : 0.0;
        double total = 0;
        for (double& x : score) total += x = std::exp(x - largest);
        for (std::size_t j = 0; j < score.size(); ++j) mean[j] += score[j] / total;
      }
      float* weight = args.weight.row<float>(r);
      for (std::size_t j = 0; j < mean.size(); ++j) {
        weight[j] = static_cast<float>(mean[j] / static_cast<double>(heads));
      }
    }
  }
}

void roll_out(const op::roll_out& args) {
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const auto from = [&](std::int32_t j) {
      return args.from.data == nullptr ? 1.0 : double{args.from.row<float>(s)[j]};
    };
    for (std::int32_t j = 0; j < args.kv_length[s]; ++j) {
      double stays = 1, sum = 0;
      for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
        const std::int32_t position = args.rows.position[r];
        if (position == j) stays = 0.5;
        sum += from(position) * double{args.weight.row<float>(r)[j]};
      }
      args.to.row<float>(s)[j] = static_cast<float>(from(j) * stays + 0.5 * sum);
    }
  }
}

}  // namespace

const register_operations<mean_attention, roll_out> registered(target::reference);

}  // namespace reference

namespace cpu {
namespace {

// Rows [first, first + count) of sequence s, a lane each.
void mean_attention_of(const attention_kernels& kernels, const op::mean_attention& args,
                       std::int32_t s, std::int64_t first, std::int64_t count) {
  thread_local scratch tile_memory, weight_memory;
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2];
  const std::int64_t kv_heads = args.cache.keys.shape[2], keys = args.kv_length[s];
  attention_tile t;
  t.dim = dim;
  t.lanes = static_cast<int>(count);
  t.scale = args.scale;
  t.stride = kv_heads * dim;
  t.page_table = args.cache.page_table + std::int64_t{s} * args.cache.table_stride;
  t.count = args.kv_length[s];
  t.scratch = tile_memory.get<float>(attention_scratch(dim));
  float* score = weight_memory.get<float>(2 * keys * max_lanes);
  float* sum = score + keys * max_lanes;
  std::fill(sum, sum + keys * max_lanes, 0.0F);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < count; ++i) {
      t.query[i] = args.q.row<float>(first + i) + h * dim;
    }
    t.keys = args.cache.keys.as<float>() + h / (heads / kv_heads) * dim;
    kernels.weights(t, score, sum);
  }
  const float share = 1.0F / static_cast<float>(heads);
  for (std::int64_t i = 0; i < count; ++i) {
    float* weight = args.weight.row<float>(first + i);
    for (std::int64_t j = 0; j < keys; ++j) weight[j] = sum[j * max_lanes + i] * share;
  }
}

void mean_attention(const backend& cpu, const op::mean_attention& args) {
  const std::int64_t width = args.q.shape[1] * args.q.shape[2];
  const std::int64_t together = cpu.attention().lanes / 2;  // one vector
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::int64_t first = args.rows.row_begin[s], last = args.rows.row_begin[s + 1];
    const std::int64_t pairs = (last - first) * args.kv_length[s];
    if (pairs == 0) continue;
#pragma omp parallel for schedule(dynamic) if (pairs * width > parallel_elements)
    for (std::int64_t r = first; r < last; r += together) {
      mean_attention_of(cpu.attention(), args, s, r, std::min(together, last - r));
    }
  }
}

// Row by row, so that the weights are read as they lie; the sums are the reference's.
void roll_out(const op::roll_out& args) {
  thread_local scratch memory;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::int64_t count = args.kv_length[s];
    double* sum = memory.get<double>(2 * count);
    double* stays = sum + count;
    std::fill(sum, stays, 0.0);
    std::fill(stays, stays + count, 1.0);
    const auto from = [&](std::int64_t j) {
      return args.from.data == nullptr ? 1.0 : double{args.from.row<float>(s)[j]};
    };
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      const std::int32_t position = args.rows.position[r];
      const double value = from(position);
      const float* weight = args.weight.row<float>(r);
      if (position < count) stays[position] = 0.5;
      for (std::int64_t j = 0; j < count; ++j) sum[j] += value * double{weight[j]};
    }
    float* to = args.to.row<float>(s);
    for (std::int64_t j = 0; j < count; ++j) {
      to[j] = static_cast<float>(from(j) * stays[j] + 0.5 * sum[j]);
    }
  }
}

}  // namespace

const register_operations<mean_attention, roll_out> registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
