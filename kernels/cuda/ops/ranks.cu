// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over ranks: what each sends is moved to all, and each adds it in the same order.
#include "kernels/ranks.h"

#include <algorithm>
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

struct host_move {
  rank_group* group;
  const void* from;
  std::size_t bytes, stretch;  // stretch 0: everything
  void* all;
  bool recorded;
};

void move_on_host(queue& work, const host_move& one) {
  work.host_work(
      [](const void* p) {
        const auto* m = static_cast<const host_move*>(p);
        compare_captures(*m->group, m->recorded);
        if (m->stretch == 0) {
          m->group->gather(m->from, m->bytes, m->all);
        } else {
          m->group->deal(m->from, m->bytes, m->stretch, m->all);
        }
      },
      std::make_shared<host_move>(one));
}

}  // namespace
#endif

void gather_ranks(queue& work, rank_group& group, const void* from, std::size_t bytes, void* all) {
#if defined(__CUDACC__)
  gather_by_nccl(group, from, bytes, all, work.stream(), work.recording());
#else
  move_on_host(work, {&group, from, bytes, 0, all, work.recording()});
#endif
}

void deal_ranks(queue& work, rank_group& group, const void* from, std::size_t bytes,
                std::size_t stretch, void* all) {
#if defined(__CUDACC__)
  deal_by_nccl(group, from, bytes, stretch, all, work.stream(), work.recording());
#else
  move_on_host(work, {&group, from, bytes, stretch, all, work.recording()});
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

// y (+)= the sum of `count` parts [rows, width] of float or, as bfloat16, std::uint16_t, each `apart`
// elements behind the one before.
template <class number>
void add_parts(queue& work, const void* parts, std::int64_t count, std::int64_t apart,
               const tensor_view& y, bool accumulate) {
  const std::int64_t rows = y.rows(), width = y.columns();
  work.launch("sum_parts", {blocks_for(rows, 1), row_threads, 0, blocks_for(width, sum_columns)},
              sum_parts_kernel<number>,
              {parts, y.as<float>(), apart, y.row_stride, static_cast<int>(count),
               static_cast<int>(width), accumulate});
}

// The part that this rank sends of the sum in float32: that of its own parts.
const float* own_sum(queue& work, const float* parts, std::int64_t count, std::int64_t rows,
                     std::int64_t width) {
  if (count == 1) return parts;
  auto* own = rank_memory<float>(work, rank_slot::own, rows * width);
  add_parts<float>(work, parts, count, rows * width, make_view(own, dtype::f32, {rows, width}),
                   false);
  return own;
}

// sum [count of this rank] of the stretches of all ranks, in as many launches as its blocks need.
template <class number>
void add_stretch(queue& work, const void* stretches, const rank_sum& of, std::int64_t count,
                 float* sum) {
  constexpr std::int64_t most = std::int64_t{most_blocks_y} * sum_columns;
  for (std::int64_t at = 0; at < count; at += most) {
    const tensor_view to = make_view(sum + at, dtype::f32, {1, std::min(most, count - at)});
    add_parts<number>(work, static_cast<const number*>(stretches) + at, of.ranks, of.stretch(), to,
                      false);
  }
}

// In two shots: this rank adds its stretch of all parts, and the sums of all come to all.
template <class number>
void add_in_stretches(queue& work, rank_group& group, const void* own, const rank_sum& of,
                      const tensor_view& y, bool accumulate) {
  const std::int64_t stretch = of.stretch();
  const std::size_t bytes = static_cast<std::size_t>(stretch) * sizeof(number);
  void* stretches = rank_memory(work, rank_slot::all, static_cast<std::size_t>(of.ranks) * bytes);
  deal_ranks(work, group, own, static_cast<std::size_t>(of.bytes()), bytes, stretches);
  auto* sums = rank_memory<float>(work, rank_slot::sums, of.ranks * stretch);
  float* mine = sums + group.rank() * stretch;  // where the move puts it
  add_stretch<number>(work, stretches, of, of.count(group.rank()), mine);
  gather_ranks(work, group, mine, static_cast<std::size_t>(stretch) * sizeof(float), sums);
  add_parts<float>(work, sums, 1, of.elements, y, accumulate);
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
  const auto add_dealt = halves ? add_in_stretches<std::uint16_t> : add_in_stretches<float>;
  const void* own = parts;
  if (halves) own = device.as_bf16(parts, dtype::f32, width, nullptr, count * rows, width);
  if (args.group == nullptr) {
    add(work, own, count, n, device.out(args.y), args.accumulate);
    return;
  }
  if (!halves) own = own_sum(work, parts, count, rows, width);
  const rank_sum of{n, static_cast<std::int64_t>(size_of(args.travels)), args.group->size()};
  if (of.takes_two_shots(args.two_shots)) {
    add_dealt(work, *args.group, own, of, device.out(args.y), args.accumulate);
    return;
  }
  const auto bytes = static_cast<std::size_t>(of.bytes());
  void* all = rank_memory(work, rank_slot::all, static_cast<std::size_t>(of.ranks) * bytes);
  gather_ranks(work, *args.group, own, bytes, all);
  add(work, all, of.ranks, n, device.out(args.y), args.accumulate);
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
