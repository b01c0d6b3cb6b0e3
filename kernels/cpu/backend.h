// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CPU backend. Semantics are those of kernels/backend.h and kernels/reference; this is the same
// arithmetic in float32 vectors, with threads where the work is worth waking them.
#pragma once

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/cpu/crowd.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/model_core.h"

namespace unmask::cpu {

struct attention_kernels;
struct row_kernels;

// Runs one instruction set and one way to multiply. Weights stay tied to the set they were packed for.
class backend : public unmask::backend {
 public:
  // environment_error for a set that the processor lacks or a library that the program lacks.
  backend(isa set, gemm_path path);
  std::string name() const override;
  tensor allocate(dtype type, std::initializer_list<std::int64_t> shape,
                  memory_use use = memory_use::resident) const override;
  packed_handle pack(const tensor_view& weight, weight_format format) const override;

  isa set() const { return set_; }
  gemm_path path() const { return path_; }
  const row_kernels& rows() const { return rows_; }
  const attention_kernels& attention() const { return attention_; }

 private:
  isa set_;
  gemm_path path_;
  const row_kernels& rows_;
  const attention_kernels& attention_;
};

// Elements of row work below which waking the other threads costs more than it saves.
inline constexpr team_limit parallel_elements{std::int64_t{1} << 17};

// Cosines and sines of rotary angles, times the magnitude, kept for every position below `positions`.
struct rope_table {
  std::int64_t positions = 0;
  std::int64_t half = 0;
  std::unique_ptr<float[]> cosine, sine;  // [positions, half]
};
// The table of these parameters, grown to hold `position`. Safe from several threads.
std::shared_ptr<const rope_table> rope_table_for(const rope_params& rope, std::int64_t position);

// Runs body(row, place) over the rows, place being that of the row's slot on one side of the cache.
template <class Body>
void each_slot(const row_set& rows, const paged_kv& cache, const tensor_view& side, Body&& body) {
  const std::int64_t width = side.shape[2] * side.shape[3];
#pragma omp parallel for schedule(static) if (rows.rows * width > 8 * parallel_elements)
  for (std::int32_t r = 0; r < rows.rows; ++r) {
    if (rows.sequence[r] < 0) continue;
    const std::int32_t slot = rows.slot != nullptr ? rows.slot[r] : rows.position[r];
    const std::int32_t page =
        cache.page_table[rows.sequence[r] * cache.table_stride + slot / kv_page_size];
    body(r, side.row<float>(page) + (slot % kv_page_size) * width);
  }
}

// Runs body(sequence, candidate) over the candidates, on threads; `width`: float64 operations of one.
template <class Body>
void each_candidate(const candidate_set& candidates, std::int64_t width, Body&& body) {
  const std::int32_t* begin = candidates.begin;
  const std::int32_t first = begin[0], last = begin[candidates.sequences];
#pragma omp parallel for schedule(dynamic) if ((last - first) * width > parallel_elements / 16)
  for (std::int32_t c = first; c < last; ++c) {
    const auto s = std::upper_bound(begin, begin + candidates.sequences + 1, c) - begin - 1;
    body(static_cast<std::int32_t>(s), c);
  }
}

// The key of a slot.
inline const float* cached(const paged_kv& cache, std::int32_t s, std::int32_t slot) {
  const std::int32_t page = cache.page_table[s * cache.table_stride + slot / kv_page_size];
  return cache.keys.row<float>(page) +
         (slot % kv_page_size) * cache.keys.shape[2] * cache.keys.shape[3];
}

// Sorts best first: descending score, ascending index, NaN after everything. A 64-bit key whose
// ascending order that is; the low half is the index.
std::uint64_t rank_key(float score, std::uint32_t index);

// One object for each pair, made when it is first asked for; cpu_backend() is the environment's.
const backend& backend_with(isa set, gemm_path path = gemm_path::own);

}  // namespace unmask::cpu
