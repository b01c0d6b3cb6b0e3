// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores and weights are float64, as in the definition; how they are added up depends on the row
// alone.
#include <algorithm>

#include "kernels/cuda/cached_keys.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/d2cache/kernels/rollout.h"

namespace unmask::cuda::UNMASK_TARGET {

struct mean_attention_params {
  row_set rows;
  const void* q;
  dtype q_type;
  std::int64_t q_stride;
  int heads, dim, group;
  cached_keys keys;
  const std::int32_t* kv_length;
  float scale;
  double* score;  // [blocks, columns]
  std::int64_t columns;
  float* weight;
  std::int64_t weight_stride;
};

// A block takes one row after the other, a thread every so many keys: what a thread wrote it alone
// reads.
UNMASK_KERNEL void mean_attention_kernel(mean_attention_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  double* score = p.score + static_cast<std::int64_t>(block_index()) * p.columns;
  for (int r = static_cast<int>(block_index()); r < p.rows.rows;
       r += static_cast<int>(grid_size())) {
    const int s = p.rows.sequence[r];
    if (s < 0) continue;
    const int count = p.kv_length[s];
    float* weight = p.weight + r * p.weight_stride;
    for (int h = 0; h < p.heads; ++h) {
      const std::int64_t query = r * p.q_stride + static_cast<std::int64_t>(h) * p.dim;
      double largest = -HUGE_VAL;
      for (int j = group.rank(); j < count; j += group.size()) {
        const std::int64_t key =
            key_at(p.keys, s, j) + static_cast<std::int64_t>(h / p.group) * p.dim;
        double dot = 0;
        for (int d = 0; d < p.dim; ++d) {
          dot = fused_multiply_add(static_cast<double>(load_float(p.q, p.q_type, query + d)),
                                   key_value(p.keys, key + d), dot);
        }
        score[j] = product(dot, static_cast<double>(p.scale));
        largest = score[j] > largest ? score[j] : largest;
      }
      largest = group_max(group, largest);
      double total = 0;
      for (int j = group.rank(); j < count; j += group.size()) {
        score[j] = exp(score[j] - largest);
        total += score[j];
      }
      total = group_sum(group, total);
      for (int j = group.rank(); j < count; j += group.size()) {
        const double before = h == 0 ? 0.0 : static_cast<double>(weight[j]);
        weight[j] = static_cast<float>(before + score[j] / total / p.heads);
      }
    }
  }
}

struct roll_out_params {
  row_set rows;
  const std::int32_t* kv_length;
  const float* weight;
  std::int64_t weight_stride;
  const float* from;
  std::int64_t from_stride;
  float* to;
  std::int64_t to_stride;
};

// Grid: sequences x pieces; a thread for each key.
UNMASK_KERNEL void roll_out_kernel(roll_out_params p) {
  const int s = static_cast<int>(block_index());
  const int first = p.rows.row_begin[s], last = p.rows.row_begin[s + 1];
  const float* from = p.from == nullptr ? nullptr : p.from + s * p.from_stride;
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int j = static_cast<int>(block_index_y() * block_size() + thread_index());
       j < p.kv_length[s]; j += step) {
    double stays = 1, sum = 0;
    for (int r = first; r < last; ++r) {
      const int position = p.rows.position[r];
      const double value = from == nullptr ? 1.0 : static_cast<double>(from[position]);
      if (position == j) stays = 0.5;
      sum = fused_multiply_add(value, static_cast<double>(p.weight[r * p.weight_stride + j]), sum);
    }
    const double own = from == nullptr ? 1.0 : static_cast<double>(from[j]);
    p.to[s * p.to_stride + j] = static_cast<float>(own * stays + 0.5 * sum);
  }
}

namespace {

// Blocks that share the rows, so that the scratch memory is a few rows of scores.
constexpr std::int32_t most_blocks = 512;
constexpr unsigned key_pieces = 64;

void mean_attention(const device_backend& device, const op::mean_attention& args) {
  const std::int32_t blocks = std::min(args.rows.rows, most_blocks);
  if (blocks == 0) return;
  mean_attention_params p{};
  p.rows = device.in(args.rows);
  p.q = device.in(args.q).data;
  p.q_type = args.q.type;
  p.q_stride = args.q.row_stride;
  p.heads = static_cast<int>(args.q.shape[1]);
  p.dim = static_cast<int>(args.q.shape[2]);
  p.group = static_cast<int>(args.q.shape[1] / args.cache.keys.shape[2]);
  p.keys = keys_of(device.in(args.cache));
  p.kv_length = device.in(args.kv_length);
  p.scale = args.scale;
  p.columns = args.weight.columns();
  p.score = device.work().scratch<double>(scratch_slot::selection_a, blocks * p.columns);
  p.weight = device.out(args.weight).as<float>();
  p.weight_stride = args.weight.row_stride;
  device.work().launch("mean_attention", block_each(blocks), mean_attention_kernel, p);
}

void roll_out(const device_backend& device, const op::roll_out& args) {
  device.work().launch("roll_out",
                       {blocks_for(args.rows.sequences, 1), group_threads, 0, key_pieces},
                       roll_out_kernel,
                       {device.in(args.rows), device.in(args.kv_length),
                        device.in(args.weight).as<float>(), args.weight.row_stride,
                        args.from.data == nullptr ? nullptr : device.in(args.from).as<float>(),
                        args.from.row_stride, device.out(args.to).as<float>(), args.to.row_stride});
}

}  // namespace

const register_operations<mean_attention, roll_out> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
