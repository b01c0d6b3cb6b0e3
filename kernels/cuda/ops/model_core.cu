// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Backend, memory and the operations of model_core_kernels.h.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/int8_kernels.h"
#include "kernels/cuda/model_core_kernels.h"
#include "kernels/float16.h"

namespace unmask {

#if defined(__CUDACC__)
const ops& cuda_ops() {
  const cuda::report machine = cuda::query();
  if (machine.devices.empty()) throw environment_error(machine.note);
  static const cuda::native::device_ops backend;
  return backend;
}
#else
const ops& cuda_emulated_ops() {
  static const cuda::emulated::device_ops backend;
  return backend;
}
#endif

namespace cuda::UNMASK_TARGET {

void no_kernel(const char* operation) {
  throw environment_error(std::string("backend ") + backend_name + " has no kernel for " +
                          operation + " yet; use the cpu backend");
}

const device_matrix& as_device(const packed_matrix& m) {
  const auto* own = dynamic_cast<const device_matrix*>(&m);
  if (own == nullptr) {
    throw std::logic_error(std::string(backend_name) + ": weight packed by another backend");
  }
  return *own;
}

tensor device_ops::allocate(dtype type, std::initializer_list<std::int64_t> shape,
                            memory_use use) const {
  std::size_t bytes = size_of(type);
  for (const std::int64_t n : shape) {
    if (n < 0) throw std::logic_error("allocate: negative dimension");
    bytes *= static_cast<std::size_t>(n);
  }
  const memory_kind kind = use == memory_use::exchanged ? exchanged_memory() : memory_kind::managed;
  return {queue_.allocate(bytes, kind), type, shape};
}

namespace {

// Row n as the format stores it; int8: its scale is returned.
float store_row(const tensor_view& weight, std::int64_t n, weight_format format,
                unsigned char* to) {
  const std::int64_t width = weight.columns();
  if (format == weight_format::bf16) {
    auto* half = reinterpret_cast<std::uint16_t*>(to);
    for (std::int64_t k = 0; k < width; ++k) half[k] = to_bf16(float_at(weight, n, k));
    return 1;
  }
  std::vector<float> values;
  if (format == weight_format::int8) values.resize(static_cast<std::size_t>(width));
  float* wide = format == weight_format::int8 ? values.data() : reinterpret_cast<float*>(to);
  for (std::int64_t k = 0; k < width; ++k) wide[k] = float_at(weight, n, k);
  if (format != weight_format::int8) return 1;
  return quantize_row(wide, width, reinterpret_cast<std::int8_t*>(to));
}

}  // namespace

packed_handle device_ops::pack(const tensor_view& weight, weight_format format) const {
  const bool int8 = format == weight_format::int8;
  if (int8 && weight.columns() > int8_most_depth) {
    throw environment_error("int8 sums of " + std::to_string(weight.columns()) +
                            " products do not fit 32 bits; use f32 or bf16");
  }
  auto m = std::make_shared<device_matrix>();
  m->format = format;
  m->out_features = weight.rows();
  m->in_features = weight.columns();
  const std::int64_t pitch = int8                            ? int8_padded(m->in_features)
                             : format == weight_format::bf16 ? m->in_features * 2
                                                             : m->in_features * 4;
  const auto row_bytes = static_cast<std::size_t>(pitch);
  const std::size_t scale_bytes =
      int8 ? static_cast<std::size_t>(m->out_features) * sizeof(float) : 0;
  m->bytes = row_bytes * static_cast<std::size_t>(m->out_features) + scale_bytes;
  m->memory = queue_.allocate(
      int8 ? row_bytes * static_cast<std::size_t>(int8_padded(m->out_features)) + scale_bytes
           : m->bytes,
      memory_kind::device);
  // In pieces, so that a large matrix needs no second copy in host memory.
  const std::int64_t piece = std::max<std::int64_t>(1, (std::int64_t{16} << 20) / (pitch + 1));
  const dtype stored = format == weight_format::bf16 ? dtype::bf16 : dtype::f32;
  const bool same = !int8 && weight.type == stored && weight.contiguous();  // bytes as they are
  std::vector<unsigned char> rows;
  std::vector<float> scale;
  for (std::int64_t first = 0; first < m->out_features; first += piece) {
    const std::int64_t count = std::min(piece, m->out_features - first);
    const std::size_t at = row_bytes * static_cast<std::size_t>(first),
                      bytes = row_bytes * static_cast<std::size_t>(count);
    if (!same) {
      rows.resize(bytes);
      for (std::int64_t n = 0; n < count; ++n) {
        scale.push_back(store_row(weight, first + n, format, rows.data() + pitch * n));
      }
    }
    queue_.copy_to_device(static_cast<unsigned char*>(m->memory.get()) + at,
                          same ? static_cast<const unsigned char*>(weight.data) + at : rows.data(),
                          bytes);
  }
  if (int8) {
    queue_.copy_to_device(
        const_cast<float*>(int8_weight_scales(m->memory.get(), m->out_features, pitch)),
        scale.data(), scale_bytes);
  }
  queue_.synchronize();
  return m;
}

tensor_view device_ops::resident(const tensor_view& weight, std::shared_ptr<void>* keep) const {
  if (!weight.contiguous()) throw std::logic_error("resident: the weight is not contiguous");
  const std::size_t bytes = static_cast<std::size_t>(weight.elements()) * size_of(weight.type);
  *keep = queue_.allocate(bytes, memory_kind::device);
  queue_.copy_to_device(keep->get(), weight.data, bytes);
  queue_.synchronize();
  tensor_view copy = weight;
  copy.data = keep->get();
  return copy;
}

void device_ops::embed(const std::int32_t* token, const tensor_view& table,
                       const tensor_view& out) const {
  const embed_params p{
      token,        table.data,      table.type,     table.row_stride,
      table.rows(), out.as<float>(), out.row_stride, static_cast<int>(out.columns())};
  queue_.launch("embed", {blocks_for(out.rows(), 1), row_threads}, embed_kernel, p);
}

void device_ops::rms_norm(const tensor_view& x, const tensor_view& weight, float eps,
                          const tensor_view& out) const {
  const rms_norm_params p{
      x.as<float>(),
      weight.as<float>(),
      out.data,
      out.type,
      x.row_stride,
      out.row_stride,
      static_cast<int>(x.columns()),
      in_pairs(out, x.columns()) && in_pairs(x, x.columns()) && in_pairs(weight, x.columns()),
      eps};
  queue_.launch("rms_norm",
                {blocks_for(x.rows(), 1), row_threads, row_threads / warp_size * sizeof(float)},
                rms_norm_kernel, p);
}

// Frequencies are computed as the reference does, in float64 and rounded, once per model.
const float* device_ops::rope_frequencies(const rope_params& rope) const {
  for (const rope_table& known : rope_tables_) {
    if (known.rotary_dim == rope.rotary_dim && known.theta == rope.theta) {
      return static_cast<const float*>(known.memory.get());
    }
  }
  std::vector<float> frequency(static_cast<std::size_t>(rope.rotary_dim / 2));
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = static_cast<float>(
        std::pow(double{rope.theta}, -2.0 * static_cast<double>(i) / rope.rotary_dim));
  }
  const std::size_t bytes = frequency.size() * sizeof(float);
  rope_tables_.push_back(
      {rope.rotary_dim, rope.theta, queue_.allocate(bytes, memory_kind::device)});
  queue_.copy_to_device(rope_tables_.back().memory.get(), frequency.data(), bytes);
  return static_cast<const float*>(rope_tables_.back().memory.get());
}

namespace {

// Shared memory of the cosines and sines of one row.
std::size_t angle_bytes(int half) {
  return 2 * (static_cast<std::size_t>(half + 3) / 4 * 16);
}
const float* or_null(const tensor_view& v) {
  return v.data != nullptr ? v.as<float>() : nullptr;
}

}  // namespace

void device_ops::head_norm_rope(const tensor_view& x, const tensor_view& norm_weight, float eps,
                                const rope_params& rope, const std::int32_t* position) const {
  const int half = rope.rotary_dim / 2;
  const head_norm_rope_params p{x.as<float>(),
                                or_null(norm_weight),
                                rope_frequencies(rope),
                                position,
                                x.row_stride,
                                static_cast<int>(x.shape[1]),
                                static_cast<int>(x.shape[2]),
                                half,
                                eps};
  queue_.launch("head_norm_rope", {blocks_for(x.rows(), 1), row_threads, angle_bytes(half)},
                head_norm_rope_kernel, p);
}

void device_ops::silu_mul(const tensor_view& gate_up, const tensor_view& out) const {
  const silu_mul_params p{gate_up.data,
                          out.data,
                          gate_up.type,
                          out.type,
                          gate_up.row_stride,
                          out.row_stride,
                          static_cast<int>(out.columns()),
                          in_pairs(gate_up, out.columns()) && in_pairs(out, out.columns())};
  // A few elements per thread; the pieces of a row are independent.
  const grid_shape shape{blocks_for(out.rows(), 1), row_threads, 0,
                         std::max(1U, blocks_for(out.columns(), row_threads * 8))};
  queue_.launch("silu_mul", shape, silu_mul_kernel, p);
}

namespace {

kv_rows_params rows_of(const row_set& rows, const paged_kv& cache, const tensor_view& k,
                       const tensor_view& v, bool accumulate) {
  return {
      rows.sequence,
      rows.slot != nullptr ? rows.slot : rows.position,
      {cache.page_table, cache.table_stride},
      {side_of(cache.keys), side_of(cache.values)},
      {k.data != nullptr ? k.as<float>() : nullptr, v.data != nullptr ? v.as<float>() : nullptr},
      {k.row_stride, v.row_stride},
      accumulate};
}

}  // namespace

void device_ops::kv_write(const row_set& rows, const tensor_view& k, const tensor_view& v,
                          const paged_kv& cache) const {
  queue_.launch("kv_write", {blocks_for(rows.rows, 1), row_threads, 0, 2}, kv_write_kernel,
                rows_of(rows, cache, k, v, false));
}

void device_ops::rotate_and_store(const row_set& rows, const tensor_view& q, const tensor_view& k,
                                  const tensor_view& v, const tensor_view& q_norm,
                                  const tensor_view& k_norm, float eps, const rope_params& rope,
                                  const paged_kv& cache) const {
  const rotate_and_store_params p{{q.as<float>(), k.as<float>(), v.as<float>()},
                                  {q.row_stride, k.row_stride, v.row_stride},
                                  static_cast<int>(q.shape[1]),
                                  static_cast<int>(k.shape[1]),
                                  static_cast<int>(q.shape[2]),
                                  rope.rotary_dim / 2,
                                  {or_null(q_norm), or_null(k_norm)},
                                  rope_frequencies(rope),
                                  eps,
                                  rows.sequence,
                                  rows.position,
                                  rows.slot != nullptr ? rows.slot : rows.position,
                                  {cache.page_table, cache.table_stride},
                                  {side_of(cache.keys), side_of(cache.values)}};
  // Few rows: their heads are spread over more blocks, two for every multiprocessor.
  const auto warps = static_cast<unsigned>(p.heads + 2 * p.kv_heads);
  const unsigned wanted =
      blocks_for(2 * std::int64_t{queue_.multiprocessors()}, std::max<std::int64_t>(1, rows.rows));
  const unsigned pieces = std::clamp(wanted, 1U, blocks_for(warps, row_threads / warp_size));
  queue_.launch("rotate_and_store",
                {blocks_for(rows.rows, 1), row_threads, angle_bytes(p.half), pieces},
                rotate_and_store_kernel, p);
}

void device_ops::kv_read(const row_set& rows, const paged_kv& cache, const tensor_view& k,
                         const tensor_view& v, bool accumulate) const {
  queue_.launch("kv_read", {blocks_for(rows.rows, 1), row_threads, 0, 2}, kv_read_kernel,
                rows_of(rows, cache, k, v, accumulate));
}

void device_ops::kv_copy(std::int32_t sequences, const std::int32_t* begin,
                         const std::int32_t* from_slot, const paged_kv& from,
                         const paged_kv& to) const {
  const kv_copy_params p{begin,
                         from_slot,
                         {from.page_table, from.table_stride},
                         {to.page_table, to.table_stride},
                         {side_of(from.keys), side_of(from.values)},
                         {side_of(to.keys), side_of(to.values)}};
  constexpr unsigned pieces = 64;
  queue_.launch("kv_copy", {blocks_for(sequences, 1), row_threads, 0, pieces}, kv_copy_kernel, p);
}

}  // namespace cuda::UNMASK_TARGET
}  // namespace unmask
