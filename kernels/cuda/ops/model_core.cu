// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Backend, memory and the operations of model_core_kernels.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/int8_kernels.h"
#include "kernels/cuda/model_core_kernels.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"

namespace unmask {

namespace cuda::UNMASK_TARGET {

shared_device& shared_device::of_backends() {
  static shared_device one;
  return one;
}

static const backend& backend_with(const choices& chosen) {
  static std::mutex lock;
  static std::map<choices, const device_backend> all;
  const std::lock_guard guard(lock);
  return all.try_emplace(chosen, chosen).first->second;
}

}  // namespace cuda::UNMASK_TARGET

#if defined(__CUDACC__)
const backend& cuda_backend(const cuda::choices& choices) {
  const cuda::report machine = cuda::query();
  if (machine.devices.empty()) throw environment_error(machine.note);
  return cuda::native::backend_with(choices);
}
const backend& cuda_backend() {
  const cuda::report machine = cuda::query();
  if (machine.devices.empty()) throw environment_error(machine.note);
  static const backend& of_environment = cuda::native::backend_with(cuda::choices_of_environment());
  return of_environment;
}
#else
const backend& cuda_emulated_backend(const cuda::choices& choices) {
  return cuda::emulated::backend_with(choices);
}
const backend& cuda_emulated_backend() {
  static const backend& of_environment =
      cuda::emulated::backend_with(cuda::choices_of_environment(/*graphs=*/false));
  return of_environment;
}
#endif

namespace cuda::UNMASK_TARGET {

const device_matrix& as_device(const packed_matrix& m) {
  const auto* own = dynamic_cast<const device_matrix*>(&m);
  if (own == nullptr) {
    throw std::logic_error(std::string(backend_name) + ": weight packed by another backend");
  }
  return *own;
}

tensor device_backend::allocate(dtype type, std::initializer_list<std::int64_t> shape,
                                memory_use use) const {
  std::size_t bytes = size_of(type);
  for (const std::int64_t n : shape) {
    if (n < 0) throw std::logic_error("allocate: negative dimension");
    bytes *= static_cast<std::size_t>(n);
  }
  if (use == memory_use::host_visible) {
    const std::shared_ptr<void> memory(staging::of_backend().allocate(bytes),
                                       [](void* p) { staging::of_backend().release(p); });
    std::memset(memory.get(), 0, bytes);
    return {memory, type, shape};
  }
#if defined(__CUDACC__)
  if (host_reads_resident_memory()) {
    return {queue_.allocate(bytes, memory_kind::managed), type, shape};
  }
#endif
  return {queue_.allocate(bytes, memory_kind::device), type, shape};
}

void device_backend::read(void* to, const void* from, std::size_t bytes) const {
  queue_.copy_to_host(to, from, bytes);
  synchronize();
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

packed_handle device_backend::pack(const tensor_view& weight, weight_format format) const {
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

tensor_view device_backend::resident(const tensor_view& weight, std::shared_ptr<void>* keep) const {
  if (!weight.contiguous()) throw std::logic_error("resident: the weight is not contiguous");
  const std::size_t bytes = static_cast<std::size_t>(weight.elements()) * size_of(weight.type);
  *keep = queue_.allocate(bytes, memory_kind::device);
  queue_.copy_to_device(keep->get(), weight.data, bytes);
  queue_.synchronize();
  tensor_view copy = weight;
  copy.data = keep->get();
  return copy;
}

namespace {

void embed(const device_backend& device, const op::embed& args) {
  const embed_params p{device.in(args.token), device.in(args.table).data,
                       args.table.type,       args.table.row_stride,
                       args.table.rows(),     device.out(args.out).as<float>(),
                       args.out.row_stride,   static_cast<int>(args.out.columns())};
  device.work().launch("embed", {blocks_for(args.out.rows(), 1), row_threads}, embed_kernel, p);
}

void rms_norm(const device_backend& device, const op::rms_norm& args) {
  const rms_norm_params p{device.in(args.x).as<float>(),
                          device.in(args.weight).as<float>(),
                          device.out(args.out).data,
                          args.out.type,
                          args.x.row_stride,
                          args.out.row_stride,
                          static_cast<int>(args.x.columns()),
                          in_groups(4, args.out, args.x.columns()) &&
                              in_groups(4, args.x, args.x.columns()) &&
                              in_groups(4, args.weight, args.x.columns()),
                          args.eps};
  device.work().launch(
      "rms_norm",
      {blocks_for(args.x.rows(), 1), row_threads, row_threads / warp_size * sizeof(float)},
      rms_norm_kernel, p);
}

}  // namespace

// Frequencies go to the device once per model.
const float* device_backend::frequencies_of(const rope_params& rope) const {
  for (const shared_device::rope_table& known : shared_.rope_tables) {
    if (known.rope == rope) return static_cast<const float*>(known.memory.get());
  }
  const std::vector<float> frequency = rope_frequencies(rope);
  const std::size_t bytes = frequency.size() * sizeof(float);
  shared_.rope_tables.push_back({rope, queue_.allocate(bytes, memory_kind::device)});
  queue_.copy_to_device(shared_.rope_tables.back().memory.get(), frequency.data(), bytes);
  return static_cast<const float*>(shared_.rope_tables.back().memory.get());
}

namespace {

// Shared memory of the cosines and sines of one row.
std::size_t angle_bytes(int half) {
  return 2 * (static_cast<std::size_t>(half + 3) / 4 * 16);
}
const float* or_null(const tensor_view& v) {
  return v.data != nullptr ? v.as<float>() : nullptr;
}

void head_norm_rope(const device_backend& device, const op::head_norm_rope& args) {
  const int half = args.rope.rotary_dim / 2;
  const head_norm_rope_params p{
      device.out(args.x).data,
      or_null(device.in(args.norm_weight)),
      device.frequencies_of(args.rope),
      device.in(args.position),
      args.x.row_stride,
      static_cast<int>(args.x.shape[1]),
      static_cast<int>(args.x.shape[2]),
      half,
      lanes_apart(args.x, args.norm_weight, static_cast<int>(args.x.shape[2]), half),
      args.eps,
      args.rope.magnitude};
  device.work().launch(
      "head_norm_rope", {blocks_for(args.x.rows(), 1), row_threads, angle_bytes(half)},
      instance_for(args.x, head_norm_rope_kernel<dtype::f32>, head_norm_rope_kernel<dtype::bf16>),
      p);
}

void silu_mul(const device_backend& device, const op::silu_mul& args) {
  const silu_mul_params p{device.in(args.gate_up).data,
                          device.out(args.out).data,
                          args.gate_up.type,
                          args.out.type,
                          args.gate_up.row_stride,
                          args.out.row_stride,
                          static_cast<int>(args.out.columns()),
                          args.gate_up.type == dtype::bf16 && args.out.type == dtype::bf16 &&
                              in_groups(8, args.gate_up, args.out.columns()) &&
                              in_groups(8, args.out, args.out.columns())};
  // A few elements per thread; the pieces of a row are independent.
  const grid_shape shape{blocks_for(args.out.rows(), 1), row_threads, 0,
                         std::max(1U, blocks_for(args.out.columns(), row_threads * 8))};
  device.work().launch("silu_mul", shape, silu_mul_kernel, p);
}

void kv_write(const device_backend& device, const op::kv_write& args) {
  if (args.k.data != nullptr && args.v.data != nullptr && args.k.type != args.v.type) {
    throw std::logic_error("kv_write: k and v differ in type");
  }
  device.work().launch("kv_write", {blocks_for(args.rows.rows, 1), row_threads, 0, 2},
                       instance_for(args.k.data != nullptr ? args.k : args.v,
                                    kv_write_kernel<dtype::f32>, kv_write_kernel<dtype::bf16>),
                       rows_of(device.in(args.rows), device.out(args.cache), device.in(args.k),
                               device.in(args.v), false));
}

void rotate_and_store(const device_backend& device, const op::rotate_and_store& args) {
  const row_set rows = device.in(args.rows);
  const auto dim = static_cast<int>(args.q.shape[2]);
  const int half = args.rope.rotary_dim / 2;
  if (args.k.type != args.q.type || args.v.type != args.q.type) {
    throw std::logic_error("rotate_and_store: q, k and v differ in type");
  }
  const bool together = lanes_apart(args.k, args.k_norm, dim, half) > 0 &&
                        in_groups(4, args.v, dim) && in_groups(4, args.cache.keys, dim) &&
                        in_groups(4, args.cache.values, dim);
  const paged_kv cache = device.out(args.cache);
  const rotate_and_store_params p{
      {device.out(args.q).data, device.out(args.k).data, device.in(args.v).data},
      {args.q.row_stride, args.k.row_stride, args.v.row_stride},
      static_cast<int>(args.q.shape[1]),
      static_cast<int>(args.k.shape[1]),
      dim,
      half,
      together ? lanes_apart(args.q, args.q_norm, dim, half) : 0,
      {or_null(device.in(args.q_norm)), or_null(device.in(args.k_norm))},
      device.frequencies_of(args.rope),
      args.eps,
      args.rope.magnitude,
      rows.sequence,
      rows.position,
      rows.slot != nullptr ? rows.slot : rows.position,
      {cache.page_table, cache.table_stride},
      {side_of(cache.keys), side_of(cache.values)}};
  // Few rows: their heads are spread over more blocks, two for every multiprocessor.
  const auto warps = static_cast<unsigned>(p.heads + 2 * p.kv_heads);
  const unsigned wanted = blocks_for(2 * std::int64_t{device.work().multiprocessors()},
                                     std::max<std::int64_t>(1, args.rows.rows));
  const unsigned pieces = std::clamp(wanted, 1U, blocks_for(warps, row_threads / warp_size));
  device.work().launch("rotate_and_store",
                       {blocks_for(args.rows.rows, 1), row_threads, angle_bytes(p.half), pieces},
                       instance_for(args.q, rotate_and_store_kernel<dtype::f32>,
                                    rotate_and_store_kernel<dtype::bf16>),
                       p);
}

}  // namespace

const register_operations<embed, rms_norm, head_norm_rope, silu_mul, kv_write, rotate_and_store>
    registered(this_target);

}  // namespace cuda::UNMASK_TARGET
}  // namespace unmask
