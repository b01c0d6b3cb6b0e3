// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/ops.h"

#include <cstring>
#include <stdexcept>

namespace unmask {
namespace {

float* slot_of(const paged_kv& cache, const tensor_view& data, std::int32_t s, std::int32_t slot) {
  const std::int32_t page =
      cache.page_table[std::int64_t{s} * cache.table_stride + slot / kv_page_size];
  const std::int64_t width = data.shape[2] * data.shape[3];
  return data.as<float>() + (std::int64_t{page} * kv_page_size + slot % kv_page_size) * width;
}

}  // namespace

std::unique_ptr<recorded_work> ops::record(const std::function<void()>&) const {
  throw std::logic_error(name() + " records nothing");
}
void ops::repeat(const recorded_work&) const {
  throw std::logic_error(name() + " records nothing");
}

void ops::stage_rows(const row_set& rows, const std::int32_t* token, const std::int32_t* index,
                     std::int32_t padded, const staged_rows& to) const {
  const auto stage = [&](const std::int32_t* from, std::int32_t filler, std::int32_t* list) {
    if (list == nullptr) return;
    for (std::int32_t r = 0; r < padded; ++r) {
      list[r] = r < rows.rows && from != nullptr ? from[r] : filler;
    }
  };
  if (to.row_begin != nullptr) {
    std::memcpy(to.row_begin, rows.row_begin,
                static_cast<std::size_t>(rows.sequences + 1) * sizeof(std::int32_t));
  }
  stage(rows.sequence, -1, to.sequence);
  stage(rows.position, 0, to.position);
  stage(rows.slot, 0, to.slot);
  stage(token, 0, to.token);
  stage(index, 0, to.index);
}

void ops::rotate_and_store(const row_set& rows, const tensor_view& q, const tensor_view& k,
                           const tensor_view& v, const tensor_view& q_norm,
                           const tensor_view& k_norm, float eps, const rope_params& rope,
                           const paged_kv& cache) const {
  head_norm_rope(q, q_norm, eps, rope, rows.position);
  head_norm_rope(k, k_norm, eps, rope, rows.position);
  kv_write(rows, k, v, cache);
}

void ops::kv_copy(std::int32_t sequences, const std::int32_t* begin, const std::int32_t* from_slot,
                  const paged_kv& from, const paged_kv& to) const {
  const auto bytes =
      static_cast<std::size_t>(from.keys.shape[2] * from.keys.shape[3]) * sizeof(float);
  for (std::int32_t s = 0; s < sequences; ++s) {
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      const std::int32_t slot = i - begin[s];
      std::memcpy(slot_of(to, to.keys, s, slot), slot_of(from, from.keys, s, from_slot[i]), bytes);
      std::memcpy(slot_of(to, to.values, s, slot), slot_of(from, from.values, s, from_slot[i]),
                  bytes);
    }
  }
}

}  // namespace unmask
