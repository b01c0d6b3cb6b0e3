// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/gemm_kernels.h"
#include "kernels/cuda/moe_tensor_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::moe_route(const tensor_view& x, const moe_router& router,
                           const tensor_view& expert, const tensor_view& weight) const {
  route_params p{x.data,
                 x.type,
                 x.row_stride,
                 static_cast<int>(x.columns()),
                 router.weight.as<float>(),
                 router.weight.row_stride,
                 router.bias.data != nullptr ? router.bias.as<float>() : nullptr,
                 router.experts,
                 router.experts_per_token,
                 router.groups,
                 router.groups_kept,
                 router.scaling,
                 router.sigmoid,
                 router.normalize,
                 router.sequence,
                 expert.as<std::int32_t>(),
                 expert.row_stride,
                 weight.as<float>(),
                 weight.row_stride,
                 static_cast<int>(x.rows()),
                 nullptr};
  const auto padded = [](int n) { return static_cast<std::size_t>((n + 3) / 4 * 16); };
  const std::size_t room = 2 * padded(router.experts) + padded(router.groups);
  // Rows that were rounded to bfloat16 for tensor cores are multiplied there, with the router in two
  // bfloat16 parts: one block per row would read the whole matrix for every row.
  if (x.type == dtype::bf16 && x.columns() % 8 == 0 && !own_products_only()) {
    p.logit = router_logits(x, router);
    constexpr int warps = choose_threads / warp_size;
    queue_.launch("moe_choose", {blocks_for(x.rows(), warps), choose_threads, warps * room},
                  moe_choose_kernel, p);
    return;
  }
  queue_.launch("moe_route", {blocks_for(x.rows(), 1), route_threads, room}, moe_route_kernel, p);
}

const float* device_ops::router_logits(const tensor_view& x, const moe_router& router) const {
  const std::int64_t rows = x.rows(), width = x.columns(), experts = router.experts;
  auto* logit = queue_.scratch<float>(scratch_slot::routed_output, rows * experts);
  auto* high = queue_.scratch<std::uint16_t>(scratch_slot::routed_hidden, 2 * experts * width);
  std::uint16_t* low = high + experts * width;
  queue_.launch(
      "split_weights", {blocks_for(experts, 1), route_threads}, split_weights_kernel,
      {router.weight.as<float>(), router.weight.row_stride, high, low, static_cast<int>(width)});
  const std::uint16_t* input = as_bf16(x.data, x.type, x.row_stride, nullptr, rows, width);
  for (const std::uint16_t* part : {high, low}) {
    library_product call{rows, experts, width, input, part, nullptr, logit, false, experts};
    call.accumulate = part == low;
    if (rows > 0 && !library_multiply(call)) {
      throw environment_error("cuBLASLt has no algorithm for the router; set UNMASK_CUDA_GEMM=own");
    }
  }
  return logit;
}

const void* const* device_ops::expert_pointers(const moe_experts& experts) const {
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

void device_ops::moe_feed_forward(const tensor_view& x, const tensor_view& expert,
                                  const tensor_view& weight, const moe_experts& experts,
                                  const tensor_view& y) const {
  const auto rows = static_cast<int>(x.rows()), per_token = static_cast<int>(expert.columns());
  if (rows == 0) return;
  const auto count = static_cast<int>(experts.gate_up.size());
  const std::int64_t all = std::int64_t{rows} * per_token;
  const int hidden = experts.hidden, width = static_cast<int>(x.columns());
  const weight_format format = as_device(*experts.gate_up[0]).format;

  auto* words = queue_.scratch<std::int32_t>(scratch_slot::routed_plan, all + 2 * (count + 1));
  const routed_plan plan{words, words + all, words + all + count + 1};
  queue_.launch("moe_plan", {1, route_threads, plan_shared_bytes(count)}, moe_plan_kernel,
                {expert.as<std::int32_t>(), expert.row_stride, rows, per_token, count, plan});

  const void* const* pointers = expert_pointers(experts);
  const auto tiles = static_cast<unsigned>(
      std::min<std::int64_t>(all, all / routed_rows + count));  // at least as many as there are
  // bfloat16 weights go to tensor cores, with activations rounded as for the library's products,
  // where rows come in whole pieces of 16 bytes. int8 weights always do, with quantised rows: their
  // sums are exact.
  const bool int8 = format == weight_format::int8;
  const bool tensor =
      format == weight_format::bf16 && width % 8 == 0 && hidden % 8 == 0 && !own_products_only();
  const auto multiply_experts = [&](const void* const* matrices, const void* in, dtype type,
                                    std::int64_t stride, int divide, float* out, int columns,
                                    int depth) {
    const std::int64_t in_rows = all / divide;
    const grid_shape tensor_shape{blocks_for(columns, routed_columns), routed_threads,
                                  routed_shared_bytes, tiles};
    if (tensor) {
      const std::uint16_t* half = as_bf16(in, type, stride, nullptr, in_rows, depth);
      queue_.launch("grouped_tensor", tensor_shape, grouped_tensor_kernel<routed_stages - 2>,
                    {plan, count, matrices, half, divide, out, columns, depth});
      return;
    }
    if (int8) {
      const int8_rows rows_of = as_int8(in, type, stride, nullptr, in_rows, depth, 0);
      queue_.launch(
          "grouped_tensor", tensor_shape, grouped_tensor_kernel<routed_stages - 2, std::int32_t>,
          {plan, count, matrices, reinterpret_cast<const std::uint16_t*>(rows_of.level), divide,
           out, columns, static_cast<int>(int8_padded(depth) / 2), rows_of.scale});
      return;
    }
    if (type == dtype::bf16) {
      auto* wide = queue_.scratch<float>(scratch_slot::low_precision, in_rows * depth);
      queue_.launch("to_f32", {blocks_for(in_rows, 1), gemm_threads}, to_f32_kernel,
                    {static_cast<const std::uint16_t*>(in), stride, wide, depth});
      in = wide;
      stride = depth;
    }
    const grouped_params p{plan, count,   matrices, static_cast<const float*>(in), stride, divide,
                           out,  columns, depth};
    const grid_shape shape{blocks_for(columns, gemm_columns), gemm_threads, gemm_shared_bytes(4),
                           tiles};
    if (format == weight_format::bf16) {
      queue_.launch("grouped_gemm", shape, grouped_gemm_kernel<std::uint16_t>, p);
    } else {
      queue_.launch("grouped_gemm", shape, grouped_gemm_kernel<float>, p);
    }
  };
  // What the products read lies in bfloat16 where they take it: behind the pairs.
  auto* pair = queue_.scratch<float>(scratch_slot::routed_hidden, all * 3 * hidden);
  float* gated = pair + all * 2 * hidden;
  const dtype gated_type = tensor ? dtype::bf16 : dtype::f32;
  auto* down = queue_.scratch<float>(scratch_slot::routed_output, all * width);
  multiply_experts(pointers, x.data, x.type, x.row_stride, per_token, pair, 2 * hidden, width);
  silu_mul(make_view(pair, dtype::f32, {all, 2 * hidden}),
           make_view(gated, gated_type, {all, hidden}));
  multiply_experts(pointers + count, gated, gated_type, hidden, 1, down, width, hidden);
  queue_.launch("moe_combine", {blocks_for(rows, 1), row_threads}, moe_combine_kernel,
                {down, expert.as<std::int32_t>(), expert.row_stride, weight.as<float>(),
                 weight.row_stride, per_token, width, y.as<float>(), y.row_stride});
}

}  // namespace unmask::cuda::UNMASK_TARGET
