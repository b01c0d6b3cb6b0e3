// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/kernels/features.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gather_kernels.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/model_core_kernels.h"
#include "kernels/cuda/rank_moves.h"

namespace unmask::cuda::UNMASK_TARGET {

struct find_rows_params {
  row_set rows, some;
  std::int32_t* index;
  std::int32_t* fault;
};

UNMASK_KERNEL void find_rows_kernel(find_rows_params p) {
  const int i = static_cast<int>(block_index() * block_size() + thread_index());
  if (i >= p.some.rows) return;
  const int r = row_at(p.rows, p.some.sequence[i], p.some.position[i]);
  if (r < 0) *p.fault = 1;
  p.index[i] = r;
}

// row[r] = or += cache[slot[r]].
UNMASK_KERNEL void kv_read_kernel(kv_rows_params p) {
  const int which = static_cast<int>(block_index_y());
  const std::int64_t r = block_index();
  auto* to = static_cast<float*>(p.row[which]);
  if (to == nullptr) return;
  const cache_side side = p.side[which];
  const std::int64_t from = slot_offset(side, p.place, p.sequence[r], p.slot[r]);
  to += r * p.row_stride[which];
  for (int d = static_cast<int>(thread_index()); d < side.width; d += row_threads) {
    const float value = load_float(side.data, side.type, from + d);
    to[d] = p.accumulate ? to[d] + value : value;
  }
}

struct mark_top_params {
  const std::int32_t* row_begin;
  const std::int32_t* position;
  const float* score;
  const std::int32_t* count;
  std::uint8_t* flags;
  std::int64_t stride;
};

// One block for each sequence.
UNMASK_KERNEL void mark_top_kernel(mark_top_params p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.row_begin[s], n = p.row_begin[s + 1] - first;
  const int wanted = p.count[s] < n ? p.count[s] : n;
  std::uint8_t* flags = p.flags + s * p.stride;
  with_keys(p.score + first, n, block, [&](const auto& group, const auto& key) {
    const cut c = top_cut(group, n, wanted, key);
    for_each_taken(group, n, key, c,
                   [&](int i, bool taken) { flags[p.position[first + i]] = taken ? 1 : 0; });
  });
}

struct row_distance_params {
  const void* a;
  std::int64_t a_stride;
  const float* b;
  std::int64_t b_stride;
  std::int64_t width;
  float* out;
  float same;
  double* sums;  // [rows, 3] of the products, in place of `out`; or null
};

// Of the sums of a b, a a and b b.
UNMASK_DEVICE float distance_of(double ab, double aa, double bb, float same) {
  const double norm = product(sqrt(aa), sqrt(bb));
  const double distance = 1.0 - ab / (norm > 1e-8 ? norm : 1e-8);
  return same > 0 && distance < same ? 0.0F : static_cast<float>(distance);
}

// One block for each row; those of `a` are of `type`.
template <dtype type>
UNMASK_KERNEL void row_distance_kernel(row_distance_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const std::int64_t r = block_index();
  const float* b = p.b + r * p.b_stride;
  double ab = 0, aa = 0, bb = 0;  // products of floats are exact in float64
  for (std::int64_t c = group.rank(); c < p.width; c += group.size()) {
    const double x = load_float(p.a, type, r * p.a_stride + c), y = b[c];
    ab = fused_multiply_add(x, y, ab);
    aa = fused_multiply_add(x, x, aa);
    bb = fused_multiply_add(y, y, bb);
  }
  ab = group_sum(group, ab);
  aa = group_sum(group, aa);
  bb = group_sum(group, bb);
  if (group.rank() != 0) return;
  if (p.sums == nullptr) {
    p.out[r] = distance_of(ab, aa, bb, p.same);
    return;
  }
  double* to = p.sums + 3 * r;
  to[0] = ab;
  to[1] = aa;
  to[2] = bb;
}

struct distances_of_ranks_params {
  const double* sums;  // [ranks, rows, 3]
  std::int64_t rows;
  int ranks;
  float* out;
  float same;
};

// Sums of all ranks, in rank order.
UNMASK_KERNEL void distances_of_ranks_kernel(distances_of_ranks_params p) {
  const std::int64_t r = std::int64_t{block_index()} * row_threads + thread_index();
  if (r >= p.rows) return;
  double of[3] = {};
  for (int rank = 0; rank < p.ranks; ++rank) {
    const double* from = p.sums + 3 * (rank * p.rows + r);
    for (int i = 0; i < 3; ++i) of[i] = rank == 0 ? from[i] : of[i] + from[i];
  }
  p.out[r] = distance_of(of[0], of[1], of[2], p.same);
}

namespace {

void find_rows(const device_backend& device, const op::find_rows& args) {
  device.work().launch("find_rows", {blocks_for(args.some.rows, group_threads), group_threads},
                       find_rows_kernel,
                       {device.in(args.rows), device.in(args.some), device.out(args.index),
                        device.fault_word(device_fault::find_rows)});
}

void kv_read(const device_backend& device, const op::kv_read& args) {
  for (const tensor_view& to : {args.k, args.v}) (void)to.as<float>();
  device.work().launch("kv_read", {blocks_for(args.rows.rows, 1), row_threads, 0, 2},
                       kv_read_kernel,
                       rows_of(device.in(args.rows), device.in(args.cache), device.out(args.k),
                               device.out(args.v), args.accumulate));
}

void mark_top(const device_backend& device, const op::mark_top& args) {
  device.work().launch(
      "mark_top", block_each(args.some.sequences), mark_top_kernel,
      {device.in(args.some.row_begin), device.in(args.some.position), device.in(args.score),
       device.in(args.count), device.out(args.flags).as<std::uint8_t>(), args.flags.row_stride});
}

void row_distance(const device_backend& device, const op::row_distance& args) {
  queue& work = device.work();
  const std::int64_t rows = args.a.rows();
  rank_group* ranks = rows > 0 ? current_ranks() : nullptr;
  double* sums = ranks == nullptr ? nullptr : rank_memory<double>(work, rank_slot::own, 3 * rows);
  float* out = device.out(args.out);
  const std::size_t bytes = static_cast<std::size_t>(3 * rows) * sizeof(double);
  if (ranks != nullptr && !args.counts) {
    work.fill_zero(sums, bytes);
  } else {
    work.launch(
        "row_distance", block_each(rows),
        instance_for(args.a, row_distance_kernel<dtype::f32>, row_distance_kernel<dtype::bf16>),
        {device.in(args.a).data, args.a.row_stride, device.in(args.b).as<float>(),
         args.b.row_stride, args.a.columns(), out, args.same, sums});
  }
  if (ranks == nullptr) return;
  auto* all = rank_memory<double>(work, rank_slot::all, ranks->size() * 3 * rows);
  gather_ranks(work, *ranks, sums, bytes, all);
  work.launch("distances_of_ranks", {blocks_for(rows, row_threads), row_threads},
              distances_of_ranks_kernel, {all, rows, ranks->size(), out, args.same});
}

}  // namespace

const register_operations<find_rows, kv_read, mark_top, row_distance> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
