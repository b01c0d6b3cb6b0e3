// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Packing, embedding, normalisation, linear layers, rotary positions, cache writes, SwiGLU.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/float16.h"
#include "kernels/host_memory.h"
#include "kernels/int8.h"
#include "kernels/model_core.h"
#include "kernels/reference/backend.h"

namespace unmask {

const backend& reference_backend() {
  static const reference::backend backend;
  return backend;
}

namespace reference {

tensor backend::allocate(dtype type, std::initializer_list<std::int64_t> shape, memory_use) const {
  return allocate_host(type, shape);
}

const matrix& as_reference(const packed_matrix& m) {
  const auto* own = dynamic_cast<const matrix*>(&m);
  if (own == nullptr) throw std::logic_error("reference: weight packed by another backend");
  return *own;
}

packed_handle backend::pack(const tensor_view& weight, weight_format format) const {
  auto m = std::make_shared<matrix>();
  m->format = format;
  m->out_features = weight.rows();
  m->in_features = weight.columns();
  const std::int64_t n_count = m->out_features, k_count = m->in_features;
  const auto elements = static_cast<std::size_t>(n_count * k_count);
  if (format == weight_format::int8) {
    m->level.resize(elements);
    m->scale.resize(static_cast<std::size_t>(n_count));
    m->bytes = elements + m->scale.size() * sizeof(float);
  } else {
    m->value.resize(elements);
    m->bytes = elements * (format == weight_format::bf16 ? 2 : 4);
  }
  std::vector<float> row(static_cast<std::size_t>(k_count));
  for (std::int64_t n = 0; n < n_count; ++n) {
    for (std::int64_t k = 0; k < k_count; ++k) {
      row[k] = float_at(weight, n, k);
      if (format == weight_format::f32) m->value[n * k_count + k] = row[k];
      if (format == weight_format::bf16) m->value[n * k_count + k] = from_bf16(to_bf16(row[k]));
    }
    if (format != weight_format::int8) continue;
    m->scale[n] = quantize_row(row.data(), k_count, m->level.data() + n * k_count);
  }
  return m;
}

namespace {

// y_n = sum_k x_k W_nk of `count` features from w on, each in the order of k. Sums of several features
// go side by side: one alone would wait for each of its additions.
template <int count>
void sum_features(const float* x, const float* w, std::int64_t k_count, double* y) {
  std::array<double, count> sum{};
  for (std::int64_t k = 0; k < k_count; ++k) {
    const double value = x[k];
    for (int n = 0; n < count; ++n) sum[n] += value * w[n * k_count + k];
  }
  std::copy_n(sum.data(), count, y);
}

}  // namespace

// f32, bf16: y_n = sum_k x_k W_nk. int8: as int8.h says.
void multiply_row(const float* x, const matrix& w, double* y) {
  const std::int64_t k_count = w.in_features;
  if (w.format != weight_format::int8) {
    std::int64_t n = 0;
    for (; n + 8 <= w.out_features; n += 8) sum_features<8>(x, w.row(n), k_count, y + n);
    for (; n < w.out_features; ++n) sum_features<1>(x, w.row(n), k_count, y + n);
    return;
  }
  std::vector<std::int8_t> level(static_cast<std::size_t>(k_count));
  const float scale = quantize_row(x, k_count, level.data());
  for (std::int64_t n = 0; n < w.out_features; ++n) {
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < k_count; ++k) sum += level[k] * w.level[n * k_count + k];
    y[n] = static_cast<double>(sum) * scale * w.scale[n];
  }
}

namespace {

// out[r] = table[token[r]]; NaN where the token is below 0: another operation fills the row.
void embed(const op::embed& args) {
  for (std::int64_t r = 0; r < args.out.rows(); ++r) {
    if (args.token[r] < 0) {
      std::fill_n(args.out.row<float>(r), args.out.columns(), std::nanf(""));
      continue;
    }
    if (args.token[r] >= args.table.rows()) {
      throw std::logic_error("embed: token outside the table");
    }
    for (std::int64_t d = 0; d < args.out.columns(); ++d) {
      args.out.row<float>(r)[d] = float_at(args.table, args.token[r], d);
    }
  }
}

// out = x / sqrt(mean(x^2) + eps) * weight.
void rms_norm(const op::rms_norm& args) {
  const std::int64_t width = args.x.columns();
  for (std::int64_t r = 0; r < args.x.rows(); ++r) {
    const float* in = args.x.row<float>(r);
    double squares = 0;
    for (std::int64_t d = 0; d < width; ++d) squares += double{in[d]} * in[d];
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + args.eps);
    for (std::int64_t d = 0; d < width; ++d) {
      args.out.row<float>(r)[d] = static_cast<float>(in[d] * factor * args.weight.as<float>()[d]);
    }
  }
}

// y = x W^T (+ bias), or y += x W^T (+ bias).
void linear(const op::linear& args) {
  const matrix& w = as_reference(args.weight);
  std::vector<double> product(static_cast<std::size_t>(w.out_features));
  for (std::int64_t r = 0; r < args.x.rows(); ++r) {
    multiply_row(args.x.row<float>(r), w, product.data());
    for (std::int64_t n = 0; n < w.out_features; ++n) {
      double value = product[n];
      if (args.bias.data != nullptr) value += args.bias.as<float>()[n];
      if (args.accumulate) value += args.y.row<float>(r)[n];
      args.y.row<float>(r)[n] = static_cast<float>(value);
    }
  }
}

// RMSNorm over each head, then for i < rotary_dim / 2, j = i + rotary_dim / 2:
//   (x_i, x_j) <- m (x_i cos a - x_j sin a, x_j cos a + x_i sin a),  a = p * frequency i,
// m the magnitude.
// The frequency and the angle are rounded to float32, as every official implementation does; at
// position 30000 that moves the angle by up to 1e-3, and the models were trained with it.
void head_norm_rope(const op::head_norm_rope& args) {
  const std::int64_t heads = args.x.shape[1], dim = args.x.shape[2],
                     half = args.rope.rotary_dim / 2;
  const std::vector<float> frequency = rope_frequencies(args.rope);
  const double magnitude = args.rope.magnitude;
  for (std::int64_t r = 0; r < args.x.rows(); ++r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* head = args.x.row<float>(r) + h * dim;
      std::vector<double> value(head, head + dim);
      if (args.norm_weight.data != nullptr) {
        double squares = 0;
        for (const double v : value) squares += v * v;
        const double factor = 1.0 / std::sqrt(squares / static_cast<double>(dim) + args.eps);
        for (std::int64_t d = 0; d < dim; ++d) value[d] *= factor * args.norm_weight.as<float>()[d];
      }
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            double{static_cast<float>(args.position[r]) * frequency[static_cast<std::size_t>(i)]};
        const double a = magnitude * value[i], b = magnitude * value[i + half];
        value[i] = a * std::cos(angle) - b * std::sin(angle);
        value[i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
      for (std::int64_t d = 0; d < dim; ++d) head[d] = static_cast<float>(value[d]);
    }
  }
}

// cache[page_table[s][slot / page], slot % page] = (k[r], v[r]).
void kv_write(const op::kv_write& args) {
  const auto write = [&](const tensor_view& from, const tensor_view& side) {
    if (from.data == nullptr) return;
    for (std::int32_t r = 0; r < args.rows.rows; ++r) {
      if (args.rows.sequence[r] < 0) continue;
      float* to = slot_row(args.rows, r, args.cache, side);
      for (std::int64_t d = 0; d < from.columns(); ++d) to[d] = from.row<float>(r)[d];
    }
  };
  write(args.k, args.cache.keys);
  write(args.v, args.cache.values);
}

// out = silu(gate) * up, silu(g) = g / (1 + e^-g).
void silu_mul(const op::silu_mul& args) {
  const std::int64_t width = args.out.columns();
  for (std::int64_t r = 0; r < args.out.rows(); ++r) {
    const float* gate = args.gate_up.row<float>(r);
    for (std::int64_t f = 0; f < width; ++f) {
      const double g = gate[f];
      args.out.row<float>(r)[f] = static_cast<float>(g / (1.0 + std::exp(-g)) * gate[width + f]);
    }
  }
}

void rotate_and_store(const backend& backend, const op::rotate_and_store& args) {
  backend.run(op::head_norm_rope{args.q, args.q_norm, args.eps, args.rope, args.rows.position});
  backend.run(op::head_norm_rope{args.k, args.k_norm, args.eps, args.rope, args.rows.position});
  backend.run(op::kv_write{args.rows, args.k, args.v, args.cache});
}

void gated_linear(const backend& backend, const op::gated_linear& args) {
  backend.run(op::linear{args.x, args.weight, {}, args.pair, false});
  backend.run(op::silu_mul{args.pair, args.out});
}

}  // namespace

const register_operations<embed, rms_norm, linear, head_norm_rope, kv_write, silu_mul,
                          rotate_and_store, gated_linear>
    registered(target::reference);

}  // namespace reference
}  // namespace unmask
