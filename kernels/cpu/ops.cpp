// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/float16.h"
#include "kernels/host_memory.h"

namespace unmask {

const ops& cpu_ops() {
  static const cpu::backend backend;
  return backend;
}

namespace cpu {

const row_kernels& active_row_kernels() {
  switch (active_isa()) {
    case isa::avx512:
      return row_kernels_avx512();
    case isa::avx2:
      return row_kernels_avx2();
    case isa::portable:
      return row_kernels_portable();
  }
  throw std::logic_error("unknown instruction set");
}

std::string backend::name() const {
  return std::string("cpu-") + name_of(active_isa());
}

tensor backend::allocate(dtype type, std::initializer_list<std::int64_t> shape, memory_use) const {
  return allocate_host(type, shape);
}

packed_handle backend::pack(const tensor_view& weight, weight_format format) const {
  return cpu::pack(weight, format);
}

void backend::linear(const tensor_view& x, const packed_matrix& weight, const tensor_view& bias,
                     const tensor_view& y, bool accumulate) const {
  cpu::linear(x, weight, bias, y, accumulate);
}

void backend::attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                        const key_set& keys, float scale, const tensor_view& out,
                        const tensor_view& key_mass) const {
  cpu::attention(rows, q, cache, keys, scale, out, key_mass);
}

void backend::embed(const std::int32_t* token, const tensor_view& table,
                    const tensor_view& out) const {
  const std::int64_t width = out.columns();
  for (std::int64_t r = 0; r < out.rows(); ++r) {
    if (token[r] < 0 || token[r] >= table.rows()) {
      throw std::logic_error("embed: token outside the table");
    }
    float* to = out.row<float>(r);
    const std::int64_t at = token[r] * table.row_stride;
    switch (table.type) {
      case dtype::f32:
        std::memcpy(to, static_cast<const float*>(table.data) + at,
                    static_cast<std::size_t>(width) * sizeof(float));
        break;
      case dtype::bf16: {
        const auto* from = static_cast<const std::uint16_t*>(table.data) + at;
        for (std::int64_t d = 0; d < width; ++d) to[d] = from_bf16(from[d]);
        break;
      }
      case dtype::f16: {
        const auto* from = static_cast<const std::uint16_t*>(table.data) + at;
        for (std::int64_t d = 0; d < width; ++d) to[d] = from_f16(from[d]);
        break;
      }
      default:
        throw std::logic_error("embed: the table must hold floats");
    }
  }
}

void backend::rms_norm(const tensor_view& x, const tensor_view& weight, float eps,
                       const tensor_view& out) const {
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t rows = x.rows(), width = x.columns();
  const float* w = weight.as<float>();
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    kernels.rms_norm(x.row<float>(r), w, eps, width, out.row<float>(r));
  }
}

// The rounding of frequency and angle is the reference's.
std::shared_ptr<const rope_table> rope_table_for(const rope_params& rope, std::int64_t position) {
  static std::mutex lock;
  static std::map<std::pair<std::int32_t, float>, std::shared_ptr<const rope_table>> tables;
  const std::lock_guard guard(lock);
  auto& kept = tables[{rope.rotary_dim, rope.theta}];
  if (kept != nullptr && position < kept->positions) return kept;
  auto table = std::make_shared<rope_table>();
  table->positions = 1024;
  while (table->positions <= position) table->positions *= 2;
  table->half = rope.rotary_dim / 2;
  const auto size = static_cast<std::size_t>(table->positions * table->half);
  table->cosine.reset(new float[size]);
  table->sine.reset(new float[size]);
  for (std::int64_t i = 0; i < table->half; ++i) {
    const auto frequency = static_cast<float>(
        std::pow(double{rope.theta}, -2.0 * static_cast<double>(i) / rope.rotary_dim));
    for (std::int64_t p = 0; p < table->positions; ++p) {
      const double angle = double{static_cast<float>(p) * frequency};
      table->cosine[static_cast<std::size_t>(p * table->half + i)] =
          static_cast<float>(std::cos(angle));
      table->sine[static_cast<std::size_t>(p * table->half + i)] =
          static_cast<float>(std::sin(angle));
    }
  }
  kept = table;
  return table;
}

void backend::head_norm_rope(const tensor_view& x, const tensor_view& norm_weight, float eps,
                             const rope_params& rope, const std::int32_t* position) const {
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t rows = x.rows(), heads = x.shape[1], dim = x.shape[2];
  if (rows == 0) return;
  const float* norm = norm_weight.data != nullptr ? norm_weight.as<float>() : nullptr;
  const auto table = rope_table_for(rope, *std::max_element(position, position + rows));
#pragma omp parallel for schedule(static) if (rows * heads * dim > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = position[r] * table->half;
    kernels.head_norm_rope(x.row<float>(r), heads, dim, norm, eps, table->half,
                           table->cosine.get() + at, table->sine.get() + at);
  }
}

namespace {

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

}  // namespace

void backend::kv_write(const row_set& rows, const tensor_view& k, const tensor_view& v,
                       const paged_kv& cache) const {
  const auto write = [&](const tensor_view& from, const tensor_view& side) {
    if (from.data == nullptr) return;
    const std::size_t bytes = static_cast<std::size_t>(from.columns()) * sizeof(float);
    each_slot(rows, cache, side,
              [&](std::int32_t r, float* to) { std::memcpy(to, from.row<float>(r), bytes); });
  };
  write(k, cache.keys);
  write(v, cache.values);
}

void backend::kv_read(const row_set& rows, const paged_kv& cache, const tensor_view& k,
                      const tensor_view& v, bool accumulate) const {
  const auto read = [&](const tensor_view& side, const tensor_view& to) {
    if (to.data == nullptr) return;
    const std::int64_t width = to.columns();
    each_slot(rows, cache, side, [&](std::int32_t r, const float* from) {
      float* row = to.row<float>(r);
      if (accumulate) {
        for (std::int64_t d = 0; d < width; ++d) row[d] += from[d];
      } else {
        std::memcpy(row, from, static_cast<std::size_t>(width) * sizeof(float));
      }
    });
  };
  read(cache.keys, k);
  read(cache.values, v);
}

void backend::silu_mul(const tensor_view& gate_up, const tensor_view& out) const {
  const row_kernels& kernels = active_row_kernels();
  const std::int64_t rows = out.rows(), width = out.columns();
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements / 4)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* gate = gate_up.row<float>(r);
    kernels.silu_mul(gate, gate + width, width, out.row<float>(r));
  }
}

}  // namespace cpu
}  // namespace unmask
