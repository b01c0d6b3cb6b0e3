// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over ranks: what each sends is moved to all, and each adds it in the same order.
#include "kernels/ranks.h"

#include <array>
#include <string>
#include <vector>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/rank_moves.h"
#include "kernels/cuda/ranks_kernels.h"

#if defined(__CUDACC__)
#include "kernels/cuda/nccl.h"
#endif

namespace unmask::cuda::UNMASK_TARGET {

#if !defined(__CUDACC__)
namespace {

void compare_captures(rank_group& group, bool recorded) {
  const int other = group.first_other(recorded ? 1 : 0);
  if (other == 0) return;
  group.give_up("one of ranks 0 and " + std::to_string(other) +
                " launches a move that the other has recorded: NCCL wants it recorded by all ranks "
                "or by none");
}

}  // namespace
#endif

void gather_ranks(queue& work, rank_group& group, const void* from, std::size_t bytes, void* all) {
#if defined(__CUDACC__)
  gather_by_nccl(group, from, bytes, all, work.stream(), work.recording());
#else
  struct move {
    rank_group* group;
    const void* from;
    std::size_t bytes;
    void* all;
    bool recorded;
  };
  work.host_work(
      [](const void* p) {
        const auto* m = static_cast<const move*>(p);
        compare_captures(*m->group, m->recorded);
        m->group->gather(m->from, m->bytes, m->all);
      },
      std::make_shared<move>(move{&group, from, bytes, all, work.recording()}));
#endif
}

// What it outgrew stays: launches under way and recorded ones use it.
void* rank_memory(queue& work, rank_slot slot, std::size_t bytes) {
  struct buffer {
    std::vector<std::shared_ptr<void>> memory;
    std::size_t bytes = 0;
  };
  static auto& all = *new std::array<buffer, static_cast<std::size_t>(rank_slot::count)>;
  buffer& b = all[static_cast<std::size_t>(slot)];
  if (b.bytes < bytes) {
    b.bytes = bytes + bytes / 4;
    b.memory.push_back(work.allocate(b.bytes, memory_kind::device));
  }
  return b.memory.back().get();
}

namespace {

// y (+)= the sum of parts [count, rows * width] of float or, as bfloat16, std::uint16_t.
template <class number>
void add_parts(queue& work, const void* parts, std::int64_t count, const tensor_view& y,
               bool accumulate) {
  const std::int64_t rows = y.rows(), width = y.columns();
  work.launch("sum_parts", {blocks_for(rows, 1), row_threads, 0, blocks_for(width, sum_columns)},
              sum_parts_kernel<number>,
              {parts, y.as<float>(), rows * width, y.row_stride, static_cast<int>(count),
               static_cast<int>(width), accumulate});
}

// The part that this rank sends of the sum in float32: that of its own parts.
const float* own_sum(queue& work, const float* parts, std::int64_t count, std::int64_t rows,
                     std::int64_t width) {
  if (count == 1) return parts;
  auto* own = rank_memory<float>(work, rank_slot::own, rows * width);
  add_parts<float>(work, parts, count, make_view(own, dtype::f32, {rows, width}), false);
  return own;
}

void sum_ranks(const device_backend& device, const op::sum_ranks& args) {
  check_travels(args);
  const std::int64_t rows = args.y.rows(), width = args.y.columns(), n = rows * width;
  if (n == 0) return;
  queue& work = device.work();
  const std::int64_t count = args.parts.rows();
  const auto* parts = device.in(args.parts).as<float>();
  const bool halves = args.travels == dtype::bf16;
  const auto add = halves ? add_parts<std::uint16_t> : add_parts<float>;
  const void* own = parts;
  if (halves) own = device.as_bf16(parts, dtype::f32, width, nullptr, count * rows, width);
  if (args.group == nullptr) {
    add(work, own, count, device.out(args.y), args.accumulate);
    return;
  }
  if (!halves) own = own_sum(work, parts, count, rows, width);
  const auto bytes = static_cast<std::size_t>(n) * size_of(args.travels);
  const int ranks = args.group->size();
  void* all = rank_memory(work, rank_slot::all, static_cast<std::size_t>(ranks) * bytes);
  gather_ranks(work, *args.group, own, bytes, all);
  add(work, all, ranks, device.out(args.y), args.accumulate);
}

const register_operations<sum_ranks> registered(this_target);

// ---- sums over heads, behind the kernels that found this rank's ----

queue& shared_queue() {
  return shared_device::of_backends().work;
}

void send_heads(const head_sum& of, float* to, bool clears) {
  auto* data = static_cast<float*>(shared_queue().on_device(of.data, clears));
  shared_queue().launch("send_heads", {blocks_for(of.count + 1, row_threads), row_threads},
                        send_heads_kernel,
                        {data, to, of.count, static_cast<float>(of.heads), clears});
}

void begin_heads(const head_sum& of) {
  if (!of.grows) return;
  send_heads(of, rank_memory<float>(shared_queue(), rank_slot::before, of.count + 1), true);
}

void add_heads(const head_sum& of) {
  queue& work = shared_queue();
  rank_group& group = *current_ranks();
  const std::int64_t each = of.count + 1;
  auto* own = rank_memory<float>(work, rank_slot::own, each);
  auto* all = rank_memory<float>(work, rank_slot::all, group.size() * each);
  send_heads(of, own, false);
  gather_ranks(work, group, own, static_cast<std::size_t>(each) * sizeof(float), all);
  work.launch("add_heads", {blocks_for(of.count, row_threads), row_threads}, add_heads_kernel,
              {all, of.grows ? rank_memory<float>(work, rank_slot::before, each) : nullptr,
               static_cast<float*>(work.on_device(of.data, true)), of.count, group.size()});
}

const register_head_sums registered_sums({owns_memory, begin_heads, add_heads});

}  // namespace
}  // namespace unmask::cuda::UNMASK_TARGET
