// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm_kernels.h"
#include "kernels/cuda/moe_roles_kernels.h"
#include "kernels/cuda/moe_tensor_kernels.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

void moe_route(const device_backend& device, const op::moe_route& args) {
  route_params p{
      device.in(args.x).data,
      args.x.type,
      args.x.row_stride,
      static_cast<int>(args.x.columns()),
      device.in(args.router.weight).as<float>(),
      args.router.weight.row_stride,
      args.router.bias.data != nullptr ? device.in(args.router.bias).as<float>() : nullptr,
      args.router.experts,
      args.router.experts_per_token,
      args.router.shared,
      args.router.groups,
      args.router.groups_kept,
      args.router.scaling,
      args.router.sigmoid,
      args.router.normalize,
      device.in(args.router.sequence),
      device.out(args.expert).as<std::int32_t>(),
      args.expert.row_stride,
      device.out(args.weight).as<float>(),
      args.weight.row_stride,
      static_cast<int>(args.x.rows()),
      nullptr};
  const auto padded = [](int n) { return static_cast<std::size_t>((n + 3) / 4 * 16); };
  const std::size_t room = 2 * padded(args.router.experts) + padded(args.router.groups);
  // Rows that were rounded to bfloat16 for tensor cores are multiplied there, with both parts of the
  // router at once: one block per row would read the whole matrix for every row.
  if (args.x.type == dtype::bf16 && args.router.parts && device.library_multiplies()) {
    const device_matrix& parts = as_device(*args.router.parts);
    const std::int64_t rows = args.x.rows(), columns = parts.out_features;
    auto* logit = device.work().scratch<float>(scratch_slot::routed_output, rows * columns);
    p.logit = logit;
    device.multiply({p.x, p.x_type, p.x_stride, nullptr, rows, &parts, 0, columns, nullptr, logit,
                     dtype::f32, columns});
    constexpr int warps = choose_threads / warp_size;
    device.work().launch("moe_choose",
                         {blocks_for(args.x.rows(), warps), choose_threads, warps * room},
                         moe_choose_kernel, p);
    return;
  }
  device.work().launch("moe_route", {blocks_for(args.x.rows(), 1), route_threads, room},
                       moe_route_kernel, p);
}

void moe_held(const device_backend& device, const op::moe_held& args) {
  const std::int64_t rows = args.expert.rows(), per_token = args.expert.columns();
  device.work().launch("moe_held", {blocks_for(rows * per_token, row_threads), row_threads},
                       moe_held_kernel,
                       {device.in(args.expert).as<std::int32_t>(), args.expert.row_stride,
                        args.first, args.last, device.out(args.to).as<std::int32_t>(),
                        args.to.row_stride, static_cast<int>(rows), static_cast<int>(per_token)});
}

}  // namespace

const void* const* device_backend::expert_pointers(const moe_experts& experts) const {
  std::vector<packed_handle> all = experts.gate_up;
  all.insert(all.end(), experts.down.begin(), experts.down.end());
  const auto same = [&](const shared_device::expert_table& t) {
    return t.matrices.size() == all.size() &&
           std::equal(all.begin(), all.end(), t.matrices.begin(),
                      [](const packed_handle& a, const std::weak_ptr<const packed_matrix>& b) {
                        return !a.owner_before(b) && !b.owner_before(a);
                      });
  };
  for (const shared_device::expert_table& t : shared_.expert_tables) {
    if (same(t)) return static_cast<const void* const*>(t.memory.get());
  }
  std::erase_if(shared_.expert_tables,
                [](const shared_device::expert_table& t) { return t.matrices[0].expired(); });
  std::vector<const void*> pointer;
  for (const packed_handle& m : all) pointer.push_back(as_device(*m).memory.get());
  shared_device::expert_table t{
      {all.begin(), all.end()},
      queue_.allocate(pointer.size() * sizeof(void*), memory_kind::device)};
  queue_.copy_to_device(t.memory.get(), pointer.data(), pointer.size() * sizeof(void*));
  shared_.expert_tables.push_back(std::move(t));
  return static_cast<const void* const*>(shared_.expert_tables.back().memory.get());
}

namespace {

// One call of the experts: whose a row is, in which order, and where what lies between products goes.
struct routed_call {
  const device_backend& device;
  const op::moe_feed_forward& args;
  int rows, per_token, count, hidden, width;
  std::int64_t all;  // assignments
  weight_format format;
  const std::int32_t* expert;
  routed_plan plan;
  unsigned tiles;
  unsigned char *gated, *down;

  // bfloat16 weights go to tensor cores, with activations rounded as for the library's products,
  // where rows come in whole pieces of 16 bytes.
  bool on_tensor_cores() const {
    return format == weight_format::bf16 && width % 8 == 0 && hidden % 8 == 0 &&
           device.may_multiply(multiplied::experts, multiplier::mma_sync);
  }
  // Of what products make and read.
  dtype between() const { return on_tensor_cores() ? dtype::bf16 : dtype::f32; }
};

void plan_assignments(const device_backend& device, const routed_call& c, std::int32_t* next) {
  const plan_params planning{
      c.expert, c.args.expert.row_stride, c.rows, c.per_token, c.count, c.plan, next};
  const grid_shape shares{blocks_for(c.all, plan_share), route_threads, plan_shared_bytes(c.count)};
  if (c.all <= plan_share) {
    device.work().launch("moe_plan", shares, moe_plan_few_kernel, planning);
    return;
  }
  device.work().fill_zero(planning.next, static_cast<std::size_t>(c.count) * sizeof(std::int32_t));
  device.work().launch("moe_plan: count", shares, moe_count_kernel, planning);
  device.work().launch("moe_plan", {1, route_threads, 64}, moe_plan_kernel, planning);
  device.work().launch("moe_plan: place", shares, moe_place_kernel, planning);
}

// out = in W^T for the experts' `matrices`; assignment i takes row i / divide of `in`. int8 weights go to
// tensor cores with quantised rows: their sums are exact.
void multiply_experts(const device_backend& device, const routed_call& c,
                      const void* const* matrices, const void* in, dtype type, std::int64_t stride,
                      int divide, void* out, int columns, int depth) {
  const std::int64_t in_rows = c.all / divide;
  if (c.format == weight_format::int8) {
    const int8_rows rows_of = device.as_int8(in, type, stride, nullptr, in_rows, depth, 0);
    device.work().launch(
        "grouped_tensor",
        {blocks_for(columns, routed_columns), routed_threads, routed_shared_bytes, c.tiles},
        grouped_tensor_kernel<routed_stages - 2, std::int32_t>,
        {c.plan, c.count, matrices, reinterpret_cast<const std::uint16_t*>(rows_of.level), divide,
         out, c.between(), columns, static_cast<int>(int8_padded(depth) / 2), rows_of.scale});
    return;
  }
  if (type == dtype::bf16) {
    auto* floats = device.work().scratch<float>(scratch_slot::low_precision, in_rows * depth);
    device.work().launch("to_f32", {blocks_for(in_rows, 1), gemm_threads}, to_f32_kernel,
                         {static_cast<const std::uint16_t*>(in), stride, floats, depth});
    in = floats;
    stride = depth;
  }
  const grouped_params p{c.plan,
                         c.count,
                         matrices,
                         static_cast<const float*>(in),
                         stride,
                         divide,
                         static_cast<float*>(out),
                         columns,
                         depth};
  const grid_shape shape{blocks_for(columns, gemm_columns), gemm_threads, gemm_shared_bytes(4),
                         c.tiles};
  device.work().launch("grouped_gemm", shape,
                       c.format == weight_format::bf16 ? grouped_gemm_kernel<std::uint16_t>
                                                       : grouped_gemm_kernel<float>,
                       p);
}

// A way of both products by tensor cores: its kernels, and a block of them. One block a multiprocessor takes all its
// tiles in turn; else there is one for each.
struct tensor_way {
  const char* name;  // of both launches
  void (*gated)(grouped_tensor_params);
  void (*down)(grouped_tensor_params);
  unsigned threads;
  std::size_t shared_bytes;
  bool takes_turns;
};

tensor_way way_of(const device_backend& device, bool wide) {
  if (!wide) {
    return {"grouped_tensor",
            grouped_tensor_kernel<routed_stages - 2, float, true>,
            grouped_tensor_kernel<routed_stages - 2>,
            routed_threads,
            routed_shared_bytes,
            false};
  }
  if (device.may_multiply(multiplied::experts, multiplier::newer)) {
    return {"grouped_roles",
            grouped_roles_kernel<roles_stages - 2, true>,
            grouped_roles_kernel<roles_stages - 2, false>,
            roles_threads,
            roles_shared_bytes,
            true};
  }
  return {"grouped_tensor",
          grouped_wide_kernel<wide_stages - 3, true>,
          grouped_wide_kernel<wide_stages - 3, false>,
          routed_threads,
          wide_shared_bytes,
          true};
}

// Both products of bfloat16 experts; the first writes silu(x W_g^T) (x W_u^T) at once.
void feed_on_tensor_cores(const device_backend& device, const routed_call& c,
                          const void* const* pointers, bool wide) {
  const tensor_way way = way_of(device, wide);
  const auto multiply = [&](void (*kernel)(grouped_tensor_params), unsigned across,
                            const grouped_tensor_params& p) {
    const auto blocks = static_cast<unsigned>(device.work().multiprocessors());
    device.work().launch(
        way.name,
        way.takes_turns
            ? grid_shape{std::min(blocks, across * c.tiles), way.threads, way.shared_bytes}
            : grid_shape{across, way.threads, way.shared_bytes, c.tiles},
        kernel, p);
  };
  const tensor_view& given = c.args.x;
  const std::uint16_t* x =
      device.as_bf16(device.in(given).data, given.type, given.row_stride, nullptr, c.rows, c.width);
  multiply(way.gated, blocks_for(c.hidden, routed_columns / 2),
           {c.plan, c.count, pointers, x, c.per_token, c.gated, c.between(), c.hidden, c.width});
  multiply(way.down, blocks_for(c.width, routed_columns),
           {c.plan, c.count, pointers + c.count, reinterpret_cast<const std::uint16_t*>(c.gated), 1,
            c.down, c.between(), c.width, c.hidden});
}

void moe_feed_forward(const device_backend& device, const op::moe_feed_forward& args) {
  const auto rows = static_cast<int>(args.x.rows());
  if (rows == 0) return;
  routed_call c{device,
                args,
                rows,
                static_cast<int>(args.expert.columns()),
                static_cast<int>(args.experts.gate_up.size()),
                args.experts.hidden,
                static_cast<int>(args.x.columns()),
                std::int64_t{rows} * args.expert.columns(),
                as_device(*args.experts.gate_up[0]).format,
                nullptr,
                {},
                0,
                nullptr,
                nullptr};
  const std::int64_t all = c.all;
  const bool tensor = c.on_tensor_cores();
  static const bool has_wgmma = queue::has_wgmma(grouped_wide_kernel<wide_stages - 3, true>);
  const bool wide = tensor && has_wgmma &&
                    device.may_multiply(multiplied::experts, multiplier::wgmma) &&
                    takes_wide_tiles(all, args.experts.of > 0 ? args.experts.of : c.count);
  const int tile_rows = wide ? wide_rows : routed_rows;
  c.expert = device.in(args.expert).as<std::int32_t>();
  auto* words =
      device.work().scratch<std::int32_t>(scratch_slot::routed_plan, all + 3 * (c.count + 1));
  c.plan = {words, words + all, words + all + c.count + 1, tile_rows};
  plan_assignments(device, c, words + all + 2 * (c.count + 1));

  const void* const* pointers = device.expert_pointers(args.experts);
  // At least as many as there are.
  c.tiles = static_cast<unsigned>(std::min<std::int64_t>(all, all / tile_rows + c.count));
  const dtype between = c.between();
  const auto element = static_cast<std::int64_t>(size_of(between));
  c.gated = device.work().scratch<unsigned char>(scratch_slot::routed_hidden,
                                                 all * (tensor ? 1 : 3) * c.hidden * element);
  c.down =
      device.work().scratch<unsigned char>(scratch_slot::routed_output, all * c.width * element);
  if (tensor) {
    feed_on_tensor_cores(device, c, pointers, wide);
  } else {
    unsigned char* pair = c.gated + all * c.hidden * element;
    multiply_experts(device, c, pointers, device.in(args.x).data, args.x.type, args.x.row_stride,
                     c.per_token, pair, 2 * c.hidden, c.width);
    device.run(op::silu_mul{make_view(pair, between, {all, 2 * c.hidden}),
                            make_view(c.gated, between, {all, c.hidden})});
    multiply_experts(device, c, pointers + c.count, c.gated, between, c.hidden, 1, c.down, c.width,
                     c.hidden);
  }
  device.work().launch("moe_combine", {blocks_for(rows, 1), row_threads}, moe_combine_kernel,
                       {c.down, between, c.expert, args.expert.row_stride,
                        device.in(args.weight).as<float>(), args.weight.row_stride, c.per_token,
                        c.width, device.out(args.y).as<float>(), args.y.row_stride,
                        in_groups(4, args.y, c.width) &&
                            in_groups(4, make_view(c.down, between, {all, c.width}), c.width)});
}

}  // namespace

const register_operations<moe_route, moe_held, moe_feed_forward> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
