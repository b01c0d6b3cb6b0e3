// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "kernels/attention.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/float16.h"
#include "kernels/host_memory.h"
#include "kernels/model_core.h"

namespace unmask {

const backend& cpu_backend() {
  static const backend& of_environment =
      cpu::backend_with(cpu::isa_of_environment(), cpu::gemm_path_of_environment());
  return of_environment;
}

namespace cpu {

const backend& backend_with(isa set, gemm_path path) {
  static std::mutex lock;
  static std::map<std::pair<isa, gemm_path>, const backend> all;
  const std::lock_guard guard(lock);
  return all.try_emplace({set, path}, set, path).first->second;
}

backend::backend(isa set, gemm_path path)
    : unmask::backend(target::cpu),
      set_(require(set)),
      path_(require(path)),
      rows_(with_vector(
          set, []<class V>() -> auto& { return row_kernels_of<V>(); })),
      attention_(with_vector(
          set, []<class V>() -> auto& { return attention_kernels_of<V>(); })) {}

std::string backend::name() const {
  return std::string("cpu-") + name_of(set_);
}

tensor backend::allocate(dtype type, std::initializer_list<std::int64_t> shape, memory_use) const {
  return allocate_host(type, shape);
}

packed_handle backend::pack(const tensor_view& weight, weight_format format) const {
  return cpu::pack(weight, format, set_);
}

namespace {

void packed_linear(const backend& cpu, const op::linear& args) {
  linear(args.x, args.weight, args.bias, args.y, args.accumulate, cpu.path());
}

void paged_attention(const backend& cpu, const op::attention& args) {
  attention(args.rows, args.q, args.cache, args.keys, args.scale, args.out, args.key_mass,
            cpu.attention());
}

void embed(const op::embed& args) {
  const std::int64_t width = args.out.columns();
  for (std::int64_t r = 0; r < args.out.rows(); ++r) {
    if (args.token[r] >= args.table.rows()) {
      throw std::logic_error("embed: token outside the table");
    }
    float* to = args.out.row<float>(r);
    if (args.token[r] < 0) {  // op::place_pictures
      std::fill_n(to, width, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    const std::int64_t at = args.token[r] * args.table.row_stride;
    switch (args.table.type) {
      case dtype::f32:
        std::memcpy(to, static_cast<const float*>(args.table.data) + at,
                    static_cast<std::size_t>(width) * sizeof(float));
        break;
      case dtype::bf16: {
        const auto* from = static_cast<const std::uint16_t*>(args.table.data) + at;
        for (std::int64_t d = 0; d < width; ++d) to[d] = from_bf16(from[d]);
        break;
      }
      case dtype::f16: {
        const auto* from = static_cast<const std::uint16_t*>(args.table.data) + at;
        for (std::int64_t d = 0; d < width; ++d) to[d] = from_f16(from[d]);
        break;
      }
      default:
        throw std::logic_error("embed: the table must hold floats");
    }
  }
}

void rms_norm(const backend& cpu, const op::rms_norm& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t rows = args.x.rows(), width = args.x.columns();
  const float* w = args.weight.as<float>();
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    kernels.rms_norm(args.x.row<float>(r), w, args.eps, width, args.out.row<float>(r));
  }
}

}  // namespace

// The rounding of frequency and angle is the reference's.
std::shared_ptr<const rope_table> rope_table_for(const rope_params& rope, std::int64_t position) {
  static std::mutex lock;
  static std::map<rope_params, std::shared_ptr<const rope_table>> tables;
  const std::lock_guard guard(lock);
  auto& kept = tables[rope];
  if (kept != nullptr && position < kept->positions) return kept;
  auto table = std::make_shared<rope_table>();
  table->positions = 1024;
  while (table->positions <= position) table->positions *= 2;
  table->half = rope.rotary_dim / 2;
  const auto size = static_cast<std::size_t>(table->positions * table->half);
  table->cosine.reset(new float[size]);
  table->sine.reset(new float[size]);
  const std::vector<float> frequencies = rope_frequencies(rope);
  for (std::int64_t i = 0; i < table->half; ++i) {
    const float frequency = frequencies[static_cast<std::size_t>(i)];
    for (std::int64_t p = 0; p < table->positions; ++p) {
      const double angle = double{static_cast<float>(p) * frequency};
      table->cosine[static_cast<std::size_t>(p * table->half + i)] =
          rope.magnitude * static_cast<float>(std::cos(angle));
      table->sine[static_cast<std::size_t>(p * table->half + i)] =
          rope.magnitude * static_cast<float>(std::sin(angle));
    }
  }
  kept = table;
  return table;
}

namespace {

void head_norm_rope(const backend& cpu, const op::head_norm_rope& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t rows = args.x.rows(), heads = args.x.shape[1], dim = args.x.shape[2];
  if (rows == 0) return;
  const float* norm = args.norm_weight.data != nullptr ? args.norm_weight.as<float>() : nullptr;
  const auto table =
      rope_table_for(args.rope, *std::max_element(args.position, args.position + rows));
#pragma omp parallel for schedule(static) if (rows * heads * dim > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = args.position[r] * table->half;
    kernels.head_norm_rope(args.x.row<float>(r), heads, dim, norm, args.eps, table->half,
                           table->cosine.get() + at, table->sine.get() + at);
  }
}

void kv_write(const op::kv_write& args) {
  const auto write = [&](const tensor_view& from, const tensor_view& side) {
    if (from.data == nullptr) return;
    const std::size_t bytes = static_cast<std::size_t>(from.columns()) * sizeof(float);
    each_slot(args.rows, args.cache, side,
              [&](std::int32_t r, float* to) { std::memcpy(to, from.row<float>(r), bytes); });
  };
  write(args.k, args.cache.keys);
  write(args.v, args.cache.values);
}

void silu_mul(const backend& cpu, const op::silu_mul& args) {
  const row_kernels& kernels = cpu.rows();
  const std::int64_t rows = args.out.rows(), width = args.out.columns();
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements / 4)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* gate = args.gate_up.row<float>(r);
    kernels.silu_mul(gate, gate + width, width, args.out.row<float>(r));
  }
}

}  // namespace

const register_operations<packed_linear, paged_attention, embed, rms_norm, head_norm_rope, kv_write,
                          silu_mul>
    registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
