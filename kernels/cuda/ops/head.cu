// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/head_kernels.h"
#include "kernels/cuda/sample_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::confidence(const tensor_view& x, const packed_matrix& head,
                            const candidate_set& candidates, const confidence_params& params,
                            const confidence_out& out) const {
  if (!(params.temperature > 0)) throw std::logic_error("confidence: temperature must be > 0");
  const device_matrix& w = as_device(head);
  const std::int64_t count = candidates.count, vocabulary = w.out_features;
  if (count == 0) return;
  // As many slices at once as stay in the L2 cache; which slices there are does not depend on it.
  const std::int64_t slices = blocks_for(vocabulary, head_slice);
  const std::int64_t at_once = std::clamp<std::int64_t>(
      head_chunk_bytes / (count * head_slice * std::int64_t{sizeof(float)}), 1, slices);
  const std::int64_t columns = std::min(vocabulary, at_once * head_slice);
  auto* logits = queue_.scratch<float>(scratch_slot::head_logits, count * columns);
  head_params p{};
  p.logit = logits;
  p.logit_stride = columns;
  p.slices = static_cast<int>(slices);
  p.partial = queue_.scratch<head_state>(scratch_slot::head_state, count * (slices + 1));
  p.state = p.partial + count * slices;
  p.candidates = candidates;
  p.noise = params.noise;
  p.banned = params.banned;
  p.banned_count = params.banned_count;
  p.inverse_temperature = 1.0 / double{params.temperature};
  p.gumbel_temperature = double{params.gumbel_temperature};
  // Only float32 weights give logits that are worth more than float32 sums.
  p.wide = w.format == weight_format::f32 && (params.accumulate_double || out.residual != nullptr);
  p.out = out;
  // The rows of the candidates are gathered and rounded once, not for every chunk.
  product chunk{x.data, x.type, x.row_stride, candidates.row, count, &w};
  if (w.format == weight_format::bf16 && !own_products_only()) {
    chunk.x = as_bf16(x.data, x.type, x.row_stride, candidates.row, count, x.columns());
    chunk.x_type = dtype::bf16;
    chunk.x_stride = x.columns();
    chunk.index = nullptr;
  } else if (w.format == weight_format::int8) {
    chunk.quantized =
        as_int8(x.data, x.type, x.row_stride, candidates.row, count, x.columns(), columns);
  }
  chunk.y = logits;
  chunk.y_stride = columns;
  constexpr int warps = head_threads / warp_size;
  const auto for_each_chunk = [&](const char* name, void (*kernel)(head_params)) {
    for (std::int64_t first = 0; first < vocabulary; first += columns) {
      const std::int64_t width = std::min(columns, vocabulary - first);
      chunk.first = first;
      chunk.count = width;
      multiply(chunk);
      p.first = static_cast<int>(first);
      p.columns = static_cast<int>(width);
      queue_.launch(name,
                    {blocks_for(count, 1), head_threads, 0, blocks_for(width, warps * head_slice)},
                    kernel, p);
    }
  };
  const bool noisy = p.gumbel_temperature > 0;
  for_each_chunk("head_chunk",
                 noisy
                     ? (p.wide ? head_chunk_kernel<true, true> : head_chunk_kernel<false, true>)
                     : (p.wide ? head_chunk_kernel<true, false> : head_chunk_kernel<false, false>));
  queue_.launch("head_merge", {blocks_for(count, warps), head_threads},
                noisy ? head_merge_kernel<true> : head_merge_kernel<false>, p);
  if (out.negative_entropy != nullptr) {
    // p ln(p + 1e-10) needs the finished sum: the head is multiplied a second time.
    p.entropy = queue_.scratch<double>(scratch_slot::head_rows, count * slices);
    for_each_chunk("head_entropy", head_entropy_kernel);
  }
  queue_.launch("head_result", {blocks_for(count, 64), 64}, head_result_kernel, p);
}

void device_ops::logits(const tensor_view& x, const packed_matrix& head, const std::int32_t* row,
                        const tensor_view& out) const {
  const device_matrix& w = as_device(head);
  multiply({x.data, x.type, x.row_stride, row, out.rows(), &w, 0, w.out_features, nullptr, out.data,
            out.type, out.row_stride, false});
}

void device_ops::sample(const candidate_set& candidates, const tensor_view& logits,
                        const sample_params& params, const confidence_out& out) const {
  const sample_kernel_params p{
      logits.as<float>(),   logits.row_stride, static_cast<int>(logits.columns()),
      candidates,           params.noise,      double{params.temperature},
      double{params.top_p}, params.top_k,      out};
  constexpr std::size_t shared = 8 * sizeof(best_entry) + 8 * sizeof(double) + 260 * 8;
  queue_.launch("sample", {blocks_for(candidates.count, 1), sample_threads, shared}, sample_kernel,
                p);
}

}  // namespace unmask::cuda::UNMASK_TARGET
