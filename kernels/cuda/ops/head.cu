// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/head_fold_kernels.h"
#include "kernels/cuda/head_kernels.h"
#include "kernels/cuda/sample_kernels.h"
#include "kernels/head.h"
#include "kernels/refused.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

confidence_out results(const device_backend& device, const confidence_out& out) {
  return {device.out(out.token),          device.out(out.probability),
          device.out(out.margin),         device.out(out.negative_entropy),
          device.out(out.top2_logit_gap), device.out(out.residual)};
}

// All but the places of a chunk.
head_params params_of(const device_backend& device, const op::confidence& args, float* logits,
                      std::int64_t slices) {
  const std::int64_t count = args.candidates.count;
  head_params p{};
  p.logit = logits;
  p.slices = static_cast<int>(slices);
  p.partial = device.work().scratch<head_state>(scratch_slot::head_state, count * (slices + 1));
  p.state = p.partial + count * slices;
  p.candidates = device.in(args.candidates);
  if (args.params.gumbel_temperature > 0) p.noise = device.in(args.params.noise);
  const token_list banned = with_refused(args.head, {args.params.banned, args.params.banned_count});
  p.banned = device.in(banned.token);
  p.banned_count = banned.count;
  p.inverse_temperature = 1.0 / double{args.params.temperature};
  p.gumbel_temperature = double{args.params.gumbel_temperature};
  // Only float32 weights give logits that are worth more than float32 sums.
  p.wide = as_device(args.head).format == weight_format::f32 &&
           (args.params.accumulate_double || args.out.residual != nullptr);
  p.out = results(device, args.out);
  return p;
}

// The rows of the candidates are gathered and rounded once, not for every chunk.
device_backend::product candidate_rows(const device_backend& device, const op::confidence& args,
                                       const std::int32_t* row, bool library,
                                       std::int64_t columns) {
  const device_matrix& w = as_device(args.head);
  const std::int64_t count = args.candidates.count, width = args.x.columns();
  device_backend::product chunk{
      device.in(args.x).data, args.x.type, args.x.row_stride, row, count, &w};
  if (library) {
    chunk.x = device.as_bf16(chunk.x, args.x.type, args.x.row_stride, row, count, width);
    chunk.x_type = dtype::bf16;
    chunk.x_stride = width;
    chunk.index = nullptr;
  } else if (w.format == weight_format::int8) {
    chunk.quantized =
        device.as_int8(chunk.x, args.x.type, args.x.row_stride, row, count, width, columns);
  }
  return chunk;
}

// What folds a chunk of logits.
auto fold_of(const device_backend& device, const head_params& p) -> void (*)(head_params) {
  if (p.gumbel_temperature > 0) {
    return p.wide ? head_chunk_kernel<true, true> : head_chunk_kernel<false, true>;
  }
  if (p.wide) return head_chunk_kernel<true, false>;
  if (!device.may_multiply(multiplied::head, multiplier::newer)) {
    return head_chunk_kernel<false, false>;
  }
  const bool seconds = p.out.margin != nullptr || p.out.top2_logit_gap != nullptr;
  return seconds ? head_fold_kernel<true> : head_fold_kernel<false>;
}

void confidence(const device_backend& device, const op::confidence& args) {
  if (!(args.params.temperature > 0)) throw std::logic_error("confidence: temperature must be > 0");
  const device_matrix& w = as_device(args.head);
  const std::int64_t count = args.candidates.count, vocabulary = w.out_features;
  if (count == 0) return;
  const bool library = w.format == weight_format::bf16 && device.library_multiplies();
  const std::int64_t slices = blocks_for(vocabulary, head_slice);
  const auto chunk_from = [&](std::int64_t row) {
    return head_chunk_of(count - row, vocabulary, library, device.work().multiprocessors());
  };
  // The first group is as large as any, but the last may take more tokens at once.
  const head_chunk group = chunk_from(0), last = chunk_from((count - 1) / group.rows * group.rows);
  auto* logits = device.work().scratch<float>(
      scratch_slot::head_logits, std::max(group.rows * group.columns, last.rows * last.columns));
  head_params p = params_of(device, args, logits, slices);
  device_backend::product chunk =
      candidate_rows(device, args, p.candidates.row, library, group.columns);
  chunk.y = logits;
  constexpr int warps = head_threads / warp_size;
  const auto for_each_chunk = [&](const char* name, void (*kernel)(head_params)) {
    const void* const all = chunk.x;
    for (std::int64_t row = 0; row < count; row += group.rows) {
      const head_chunk part = chunk_from(row);
      // Only rows that were rounded, end to end, are taken in groups.
      chunk.x = row == 0 ? all : static_cast<const std::uint16_t*>(all) + row * chunk.x_stride;
      chunk.rows = part.rows;
      chunk.y_stride = p.logit_stride = part.columns;
      p.first_candidate = static_cast<int>(row);
      for (std::int64_t first = 0; first < vocabulary; first += part.columns) {
        const std::int64_t width = std::min(part.columns, vocabulary - first);
        chunk.first = first;
        chunk.count = width;
        device.multiply(chunk);
        p.first = static_cast<int>(first);
        p.columns = static_cast<int>(width);
        device.work().launch(
            name,
            {blocks_for(part.rows, 1), head_threads, 0, blocks_for(width, warps * head_slice)},
            kernel, p);
      }
    }
    chunk.x = all;
  };
  const bool noisy = p.gumbel_temperature > 0;
  for_each_chunk("head_chunk", fold_of(device, p));
  device.work().launch("head_merge", {blocks_for(count, warps), head_threads},
                       noisy ? head_merge_kernel<true> : head_merge_kernel<false>, p);
  if (args.out.negative_entropy != nullptr) {
    // p ln(p + 1e-10) needs the finished sum: the head is multiplied a second time.
    p.entropy = device.work().scratch<double>(scratch_slot::head_rows, count * slices);
    for_each_chunk("head_entropy", head_entropy_kernel);
    device.work().launch("head_result", {blocks_for(count, 64), 64}, head_result_kernel, p);
  }
}

void logits(const device_backend& device, const op::logits& args) {
  check_whole_logits(args.head);
  const device_matrix& w = as_device(args.head);
  device.multiply({device.in(args.x).data, args.x.type, args.x.row_stride, device.in(args.row),
                   args.out.rows(), &w, 0, w.out_features, nullptr, device.out(args.out).data,
                   args.out.type, args.out.row_stride, false});
}

void sample(const device_backend& device, const op::sample& args) {
  // The kernel filters the logits in place.
  const sample_kernel_params p{device.out(args.logits).as<float>(),
                               args.logits.row_stride,
                               static_cast<int>(args.logits.columns()),
                               device.in(args.candidates),
                               device.in(args.params.noise),
                               double{args.params.temperature},
                               double{args.params.top_p},
                               args.params.top_k,
                               args.params.original,
                               results(device, args.out)};
  constexpr std::size_t shared = 8 * sizeof(best_entry) + 8 * sizeof(double) + 260 * 8;
  device.work().launch("sample", {blocks_for(args.candidates.count, 1), sample_threads, shared},
                       sample_kernel, p);
}

}  // namespace

const register_operations<confidence, logits, sample> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
