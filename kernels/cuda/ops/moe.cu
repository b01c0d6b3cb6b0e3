// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm_kernels.h"
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
  if (args.x.type == dtype::bf16 && args.router.parts && !own_products_only()) {
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

}  // namespace

const void* const* device_backend::expert_pointers(const moe_experts& experts) const {
  std::vector<packed_handle> all = experts.gate_up;
  all.insert(all.end(), experts.down.begin(), experts.down.end());
  const auto same = [&](const expert_table& t) {
    return t.matrices.size() == all.size() &&
           std::equal(all.begin(), all.end(), t.matrices.begin(),
                      [](const packed_handle& a, const std::weak_ptr<const packed_matrix>& b) {
                        return !a.owner_before(b) && !b.owner_before(a);
                      });
  };
  for (const expert_table& t : expert_tables_) {
    if (same(t)) return static_cast<const void* const*>(t.memory.get());
  }
  std::erase_if(expert_tables_, [](const expert_table& t) { return t.matrices[0].expired(); });
  std::vector<const void*> pointer;
  for (const packed_handle& m : all) pointer.push_back(as_device(*m).memory.get());
  expert_table t{{all.begin(), all.end()},
                 queue_.allocate(pointer.size() * sizeof(void*), memory_kind::device)};
  queue_.copy_to_device(t.memory.get(), pointer.data(), pointer.size() * sizeof(void*));
  expert_tables_.push_back(std::move(t));
  return static_cast<const void* const*>(expert_tables_.back().memory.get());
}

namespace {

void moe_feed_forward(const device_backend& device, const op::moe_feed_forward& args) {
  const auto rows = static_cast<int>(args.x.rows()),
             per_token = static_cast<int>(args.expert.columns());
  if (rows == 0) return;
  const auto count = static_cast<int>(args.experts.gate_up.size());
  const std::int64_t all = std::int64_t{rows} * per_token;
  const int hidden = args.experts.hidden, width = static_cast<int>(args.x.columns());
  const weight_format format = as_device(*args.experts.gate_up[0]).format;

  // bfloat16 weights go to tensor cores, with activations rounded as for the library's products,
  // where rows come in whole pieces of 16 bytes. int8 weights always do, with quantised rows: their
  // sums are exact.
  const bool int8 = format == weight_format::int8;
  const bool tensor =
      format == weight_format::bf16 && width % 8 == 0 && hidden % 8 == 0 && !own_products_only();
  static const bool has_wgmma = queue::has_wgmma(grouped_wide_kernel<wide_stages - 3, true>);
  const bool wide = tensor && has_wgmma && queue::wgmma_wanted() && takes_wide_tiles(all, count);
  const int tile_rows = wide ? wide_rows : routed_rows;

  const std::int32_t* expert = device.in(args.expert).as<std::int32_t>();
  auto* words =
      device.work().scratch<std::int32_t>(scratch_slot::routed_plan, all + 3 * (count + 1));
  const routed_plan plan{words, words + all, words + all + count + 1, tile_rows};
  const plan_params planning{expert, args.expert.row_stride,       rows, per_token, count,
                             plan,   words + all + 2 * (count + 1)};
  const grid_shape shares{blocks_for(all, plan_share), route_threads, plan_shared_bytes(count)};
  if (all <= plan_share) {
    device.work().launch("moe_plan", shares, moe_plan_few_kernel, planning);
  } else {
    device.work().fill_zero(planning.next, static_cast<std::size_t>(count) * sizeof(std::int32_t));
    device.work().launch("moe_plan: count", shares, moe_count_kernel, planning);
    device.work().launch("moe_plan", {1, route_threads, 64}, moe_plan_kernel, planning);
    device.work().launch("moe_plan: place", shares, moe_place_kernel, planning);
  }

  const void* const* pointers = device.expert_pointers(args.experts);
  const auto tiles = static_cast<unsigned>(
      std::min<std::int64_t>(all, all / tile_rows + count));  // at least as many as there are
  const dtype between = tensor ? dtype::bf16 : dtype::f32;    // of what products make and read
  const auto multiply_experts = [&](const void* const* matrices, const void* in, dtype type,
                                    std::int64_t stride, int divide, void* out, int columns,
                                    int depth) {
    const std::int64_t in_rows = all / divide;
    if (int8) {
      const int8_rows rows_of = device.as_int8(in, type, stride, nullptr, in_rows, depth, 0);
      device.work().launch(
          "grouped_tensor",
          {blocks_for(columns, routed_columns), routed_threads, routed_shared_bytes, tiles},
          grouped_tensor_kernel<routed_stages - 2, std::int32_t>,
          {plan, count, matrices, reinterpret_cast<const std::uint16_t*>(rows_of.level), divide,
           out, between, columns, static_cast<int>(int8_padded(depth) / 2), rows_of.scale});
      return;
    }
    if (type == dtype::bf16) {
      auto* floats = device.work().scratch<float>(scratch_slot::low_precision, in_rows * depth);
      device.work().launch("to_f32", {blocks_for(in_rows, 1), gemm_threads}, to_f32_kernel,
                           {static_cast<const std::uint16_t*>(in), stride, floats, depth});
      in = floats;
      stride = depth;
    }
    const grouped_params p{plan,
                           count,
                           matrices,
                           static_cast<const float*>(in),
                           stride,
                           divide,
                           static_cast<float*>(out),
                           columns,
                           depth};
    const grid_shape shape{blocks_for(columns, gemm_columns), gemm_threads, gemm_shared_bytes(4),
                           tiles};
    if (format == weight_format::bf16) {
      device.work().launch("grouped_gemm", shape, grouped_gemm_kernel<std::uint16_t>, p);
    } else {
      device.work().launch("grouped_gemm", shape, grouped_gemm_kernel<float>, p);
    }
  };
  const auto element = static_cast<std::int64_t>(size_of(between));
  auto* gated = device.work().scratch<unsigned char>(scratch_slot::routed_hidden,
                                                     all * (tensor ? 1 : 3) * hidden * element);
  auto* down =
      device.work().scratch<unsigned char>(scratch_slot::routed_output, all * width * element);
  if (tensor) {
    const auto multiply = [&](void (*kernel)(grouped_tensor_params), unsigned across,
                              const grouped_tensor_params& p) {
      const auto blocks = static_cast<unsigned>(device.work().multiprocessors());
      device.work().launch(
          "grouped_tensor",
          wide ? grid_shape{std::min(blocks, across * tiles), routed_threads, wide_shared_bytes}
               : grid_shape{across, routed_threads, routed_shared_bytes, tiles},
          kernel, p);
    };
    const std::uint16_t* x = device.as_bf16(device.in(args.x).data, args.x.type, args.x.row_stride,
                                            nullptr, rows, width);
    multiply(wide ? grouped_wide_kernel<wide_stages - 3, true>
                  : grouped_tensor_kernel<routed_stages - 2, float, true>,
             blocks_for(hidden, routed_columns / 2),
             {plan, count, pointers, x, per_token, gated, between, hidden, width});
    multiply(wide ? grouped_wide_kernel<wide_stages - 3, false>
                  : grouped_tensor_kernel<routed_stages - 2>,
             blocks_for(width, routed_columns),
             {plan, count, pointers + count, reinterpret_cast<const std::uint16_t*>(gated), 1, down,
              between, width, hidden});
  } else {
    unsigned char* pair = gated + all * hidden * element;
    multiply_experts(pointers, device.in(args.x).data, args.x.type, args.x.row_stride, per_token,
                     pair, 2 * hidden, width);
    device.run(op::silu_mul{make_view(pair, between, {all, 2 * hidden}),
                            make_view(gated, between, {all, hidden})});
    multiply_experts(pointers + count, gated, between, hidden, 1, down, width, hidden);
  }
  device.work().launch(
      "moe_combine", {blocks_for(rows, 1), row_threads}, moe_combine_kernel,
      {down, between, expert, args.expert.row_stride, device.in(args.weight).as<float>(),
       args.weight.row_stride, per_token, width, device.out(args.y).as<float>(), args.y.row_stride,
       in_groups(4, args.y, width) && in_groups(4, make_view(down, between, {all, width}), width)});
}

}  // namespace

const register_operations<moe_route, moe_feed_forward> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
