// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/head_fold_kernels.h"
#include "kernels/cuda/head_kernels.h"
#include "kernels/cuda/head_product.h"
#include "kernels/cuda/rank_moves.h"
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

// A head, or a piece of a cut one: its rows, and its first token among those of the whole.
struct head_rows {
  const packed_matrix& weight;
  std::int64_t token = 0;
  std::int64_t pieces = 0;  // of the cut head that it is a piece of; 0: of none
};

// All but the places of a chunk.
head_params params_of(const device_backend& device, const op::confidence& args,
                      const head_rows& rows) {
  const std::int64_t count = args.candidates.count;
  const std::int64_t slices = blocks_for(rows.weight.out_features, head_slice);
  head_params p{};
  p.slices = static_cast<int>(slices);
  p.pieces = static_cast<int>(rows.pieces);
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
  p.wide = as_device(rows.weight).format == weight_format::f32 &&
           (args.params.accumulate_double || args.out.residual != nullptr);
  p.out = results(device, args.out);
  return p;
}

bool multiplied_by_library(const device_backend& device, const device_matrix& w) {
  return w.format == weight_format::bf16 && device.library_multiplies();
}
// Candidates from `row` on, and tokens, at once.
head_chunk chunk_from(const device_backend& device, const op::confidence& args,
                      const device_matrix& w, std::int64_t row) {
  return head_chunk_of(args.candidates.count - row, w.out_features,
                       multiplied_by_library(device, w), device.work().multiprocessors());
}

// The rows of the candidates are gathered and rounded once, not for every chunk, nor again for the entropy.
// `w`: a matrix of the head's format.
device_backend::product candidate_rows(const device_backend& device, const op::confidence& args,
                                       const device_matrix& w) {
  const std::int64_t count = args.candidates.count, width = args.x.columns();
  const std::int32_t* row = device.in(args.candidates).row;
  device_backend::product chunk{
      device.in(args.x).data, args.x.type, args.x.row_stride, row, count, &w};
  if (multiplied_by_library(device, w)) {
    chunk.x = device.as_bf16(chunk.x, args.x.type, args.x.row_stride, row, count, width);
    chunk.x_type = dtype::bf16;
    chunk.x_stride = width;
    chunk.index = nullptr;
  } else if (w.format == weight_format::int8) {
    chunk.quantized = device.as_int8(chunk.x, args.x.type, args.x.row_stride, row, count, width,
                                     chunk_from(device, args, w, 0).columns);
  }
  return chunk;
}

// What folds a chunk of logits, and the name of its launch.
struct chunk_fold {
  const char* name;
  void (*kernel)(head_params);
};
chunk_fold fold_of(const device_backend& device, const head_params& p) {
  constexpr const char* before = "head_chunk";
  if (p.gumbel_temperature > 0) {
    return {before, p.wide ? head_chunk_kernel<true, true> : head_chunk_kernel<false, true>};
  }
  if (p.wide) return {before, head_chunk_kernel<true, false>};
  if (!device.may_multiply(multiplied::head, multiplier::newer)) {
    return {before, head_chunk_kernel<false, false>};
  }
  const bool seconds = p.out.margin != nullptr || p.out.top2_logit_gap != nullptr;
  return {"head_fold", seconds ? head_fold_kernel<true> : head_fold_kernel<false>};
}

constexpr int head_warps = head_threads / warp_size;

// Logits of all candidates in chunks of tokens, each given to `fold`. `chunk`: candidate_rows().
void for_each_chunk(const device_backend& device, const op::confidence& args, const head_rows& rows,
                    device_backend::product chunk, const head_params& of_all,
                    const chunk_fold& fold) {
  const device_matrix& w = as_device(rows.weight);
  const std::int64_t count = args.candidates.count, vocabulary = w.out_features;
  // The first group is as large as any, but the last may take more tokens at once.
  const head_chunk group = chunk_from(device, args, w, 0),
                   last = chunk_from(device, args, w, (count - 1) / group.rows * group.rows);
  auto* logits = device.work().scratch<float>(
      scratch_slot::head_logits, std::max(group.rows * group.columns, last.rows * last.columns));
  head_params p = of_all;
  chunk.weight = &w;
  chunk.y = logits;
  p.logit = logits;
  const void* const all = chunk.x;
  for (std::int64_t row = 0; row < count; row += group.rows) {
    const head_chunk part = chunk_from(device, args, w, row);
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
      p.first = static_cast<int>(rows.token + first);
      const std::int64_t slice = first / head_slice;
      p.partial = of_all.partial + slice;
      if (of_all.entropy != nullptr) p.entropy = of_all.entropy + slice;
      p.columns = static_cast<int>(width);
      device.work().launch(
          fold.name,
          {blocks_for(part.rows, 1), head_threads, 0, blocks_for(width, head_warps * head_slice)},
          fold.kernel, p);
    }
  }
}

// The state of each candidate over the tokens of these rows, p.state; of a whole head the results too.
void find_states(const device_backend& device, const op::confidence& args, const head_rows& rows,
                 const device_backend::product& chunk, const head_params& p) {
  if (const device_matrix& w = as_device(rows.weight); takes_head_product(device, args, w)) {
    run_head_product(device, static_cast<const std::uint16_t*>(chunk.x), w, rows.token, p);
    return;
  }
  for_each_chunk(device, args, rows, chunk, p, fold_of(device, p));
  device.work().launch(
      "head_merge", {blocks_for(args.candidates.count, head_warps), head_threads},
      p.gumbel_temperature > 0 ? head_merge_kernel<true> : head_merge_kernel<false>, p);
}

// Sums of p ln(p + 1e-10) over slices, which need the finished sum: the head is multiplied a second time.
void find_entropy(const device_backend& device, const op::confidence& args, const head_rows& rows,
                  const device_backend::product& chunk, head_params& p) {
  p.entropy =
      device.work().scratch<double>(scratch_slot::head_rows, args.candidates.count * p.slices);
  for_each_chunk(device, args, rows, chunk, p, {"head_entropy", head_entropy_kernel});
}

grid_shape one_thread_each(std::int64_t count) {
  return {blocks_for(count, 64), 64};
}

void whole_confidence(const device_backend& device, const op::confidence& args) {
  const head_rows rows{args.head};
  head_params p = params_of(device, args, rows);
  const device_backend::product chunk = candidate_rows(device, args, as_device(args.head));
  find_states(device, args, rows, chunk, p);
  if (args.out.negative_entropy == nullptr) return;
  find_entropy(device, args, rows, chunk, p);
  device.work().launch("head_result", one_thread_each(args.candidates.count), head_result_kernel,
                       p);
}

// all [ranks, each] of what this rank has, own [each].
template <class T>
T* gather_own(const device_backend& device, const cut_head& head, T* own, std::int64_t each) {
  rank_group* ranks = head.ranks();
  if (ranks == nullptr) return own;
  auto* all = rank_memory<T>(device.work(), rank_slot::all, ranks->size() * each);
  gather_ranks(device.work(), *ranks, own, static_cast<std::size_t>(each) * sizeof(T), all);
  return all;
}

// `to`: of row c of x for piece i at i * of_piece + c * of_row.
void stamp_rows(const device_backend& device, const tensor_view& x, const std::int32_t* row,
                std::int64_t count, std::uint32_t* to, std::int64_t of_piece, std::int64_t of_row,
                std::int64_t held) {
  device.work().launch(
      "head_stamp", {blocks_for(count, head_warps), head_threads}, head_stamp_kernel,
      {device.in(x).data, x.row_stride, static_cast<int>(x.columns()), x.type == dtype::bf16,
       device.in(row), to, of_piece, of_row, static_cast<int>(count), static_cast<int>(held)});
}

void cut_confidence(const device_backend& device, const op::confidence& args,
                    const cut_head& head) {
  queue& work = device.work();
  const std::int64_t count = args.candidates.count, own = std::ssize(head.own);
  const auto rows_of = [&](std::int64_t i) {
    const auto piece = static_cast<std::size_t>(i);
    return head_rows{*head.own[piece], head.first_of_own(piece),
                     static_cast<std::int64_t>(head.pieces())};
  };
  const device_backend::product chunk = candidate_rows(device, args, as_device(*head.own[0]));
  auto* states = rank_memory<head_state>(work, rank_slot::own, own * count);
  for (std::int64_t i = 0; i < own; ++i) {
    head_params p = params_of(device, args, rows_of(i));
    p.state = states + i * count;
    find_states(device, args, rows_of(i), chunk, p);
  }
  constexpr std::int64_t words = sizeof(head_state) / sizeof(std::uint32_t);
  stamp_rows(device, args.x, args.candidates.row, count, &states->row_sum, count * words, words,
             own);
  head_params all = params_of(device, args, rows_of(0));
  all.partial = gather_own(device, head, states, own * count);
  work.launch("head_join", one_thread_each(count), head_join_kernel,
              {all, device.fault_word(device_fault::rows_of_ranks), static_cast<int>(own)});
  if (args.out.negative_entropy == nullptr) return;
  auto* sums = rank_memory<double>(work, rank_slot::own, own * count);
  for (std::int64_t i = 0; i < own; ++i) {
    head_params p = params_of(device, args, rows_of(i));
    p.state = all.state;
    find_entropy(device, args, rows_of(i), chunk, p);
    work.launch("head_piece_entropy", one_thread_each(count), head_piece_entropy_kernel,
                head_piece_entropy_params{p, sums + i * count});
  }
  all.entropy = gather_own(device, head, sums, own * count);
  work.launch("head_result", one_thread_each(count), head_join_entropy_kernel, all);
}

void confidence(const device_backend& device, const op::confidence& args) {
  if (!(args.params.temperature > 0)) throw std::logic_error("confidence: temperature must be > 0");
  if (args.candidates.count == 0) return;
  if (const cut_head* cut = as_cut(args.head)) {
    cut_confidence(device, args, *cut);
  } else {
    whole_confidence(device, args);
  }
}

void multiply_head(const device_backend& device, const op::logits& args, const packed_matrix& head,
                   void* y, dtype type, std::int64_t stride) {
  const device_matrix& w = as_device(head);
  device.multiply({device.in(args.x).data, args.x.type, args.x.row_stride, device.in(args.row),
                   args.out.rows(), &w, 0, w.out_features, nullptr, y, type, stride, false});
}

void logits(const device_backend& device, const op::logits& args) {
  check_whole_logits(args.head);
  const std::int64_t rows = args.out.rows();
  const cut_head* cut = as_cut(args.head);
  if (cut == nullptr) {
    multiply_head(device, args, args.head, device.out(args.out).data, args.out.type,
                  args.out.row_stride);
    return;
  }
  if (rows == 0) return;
  const std::int64_t own = std::ssize(cut->own), each = rows * cut->widest(),
                     sent = cut->sent_of_logits(rows);
  auto* mine = rank_memory<float>(device.work(), rank_slot::own, sent);
  for (std::int64_t i = 0; i < own; ++i) {
    multiply_head(device, args, *cut->own[static_cast<std::size_t>(i)], mine + i * each, dtype::f32,
                  cut->widest());
  }
  stamp_rows(device, args.x, args.row, rows, reinterpret_cast<std::uint32_t*>(mine + own * each), 0,
             1, 1);
  const float* all = gather_own(device, *cut, mine, sent);
  const auto pieces = static_cast<std::int64_t>(cut->pieces());
  device.work().launch("place_logits",
                       {blocks_for(rows, 1), head_threads, 0, blocks_for(pieces, 1)},
                       place_logits_kernel,
                       {all, device.in(cut->first.as<std::int32_t>()),
                        device.out(args.out).as<float>(), rows, cut->widest(), args.out.row_stride,
                        device.fault_word(device_fault::rows_of_ranks), static_cast<int>(own)});
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
