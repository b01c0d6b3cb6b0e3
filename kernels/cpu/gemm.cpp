// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/gemm.h"

#include <omp.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/cpu/crowd.h"
#include "kernels/cpu/gemm_packed.h"
#include "kernels/cpu/scratch.h"
#include "kernels/float16.h"

namespace unmask::cpu {

namespace {

// Rows of one unit of work when there are too few panels to share out.
constexpr std::int64_t rows_per_unit = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

// Zero-filled; large blocks ask for huge pages, which a streaming reader of weights needs badly.
template <class T>
std::shared_ptr<T[]> aligned_array(std::size_t count) {
  const bool large = count * sizeof(T) >= huge_page;
  const std::size_t alignment = large ? huge_page : 64;
  const std::size_t bytes = (count * sizeof(T) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, std::max(bytes, alignment));
  if (memory == nullptr) {
    throw environment_error("pack: no memory for " + std::to_string(bytes) +
                            " bytes of weights; use a smaller model or a smaller weight format");
  }
#if defined(MADV_HUGEPAGE)
  if (large) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  std::memset(memory, 0, bytes);
  return {static_cast<T*>(memory), [](T* p) { std::free(p); }};
}

void read_row(const tensor_view& weight, std::int64_t n, float* out) {
  const std::int64_t depth = weight.columns();
  if (weight.type == dtype::f32) {
    std::memcpy(out, weight.row<float>(n), static_cast<std::size_t>(depth) * sizeof(float));
    return;
  }
  for (std::int64_t k = 0; k < depth; ++k) out[k] = float_at(weight, n, k);
}

// Writes feature j of a panel.
void pack_feature(packed_cpu& w, std::int64_t n, const float* row) {
  const std::int64_t width = w.kernels->panel_width, j = n % width;
  std::byte* panel = w.weights.get() + n / width * w.panel_bytes;
  const std::int64_t depth = w.in_features;
  if (w.format == weight_format::f32) {
    auto* out = reinterpret_cast<float*>(panel);
    for (std::int64_t k = 0; k < depth; ++k) out[k * width + j] = row[k];
  } else if (w.format == weight_format::bf16) {
    auto* out = reinterpret_cast<std::uint16_t*>(panel);
    for (std::int64_t k = 0; k < depth; ++k) {
      out[(k / 2 * width + j) * 2 + k % 2] = to_bf16(row[k]);
    }
  } else {
    auto* out = reinterpret_cast<std::int8_t*>(panel);
    float top = 0, fault = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      top = std::max(top, std::fabs(row[k]));
      fault += row[k] * 0.0F;
    }
    const float inverse = top > 0 && fault == 0 ? 127.0F / top : 0.0F;
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      const auto q = static_cast<std::int32_t>(std::nearbyint(row[k] * inverse));
      out[(k / 4 * width + j) * 4 + k % 4] = static_cast<std::int8_t>(q);
      sum += q;
    }
    w.scale[static_cast<std::size_t>(n)] = top / 127.0F + fault;
    w.start[static_cast<std::size_t>(n)] = w.kernels->bias_activation ? -128 * sum : 0;
  }
}

const gemm_kernels& kernels_of(isa set) {
  return with_vector(
      set, []<class V>() -> auto& { return gemm_kernels_of<V>(); });
}

// ---- one product ------------------------------------------------------------------------------

// Activations in the form the kernels read.
struct operand {
  const float* words = nullptr;
  std::int64_t stride = 0;       // 4-byte words
  const float* scale = nullptr;  // int8: [rows]
};

void multiply_panel(const packed_cpu& w, const operand& x, std::int64_t panel, std::int64_t row,
                    std::int64_t rows, const float* bias, float* y, std::int64_t y_stride,
                    bool accumulate) {
  const std::int64_t width = w.kernels->panel_width, n = panel * width;
  gemm_unit u;
  u.format = w.format;
  u.panel = w.weights.get() + panel * w.panel_bytes;
  u.depth = w.in_features;
  u.a = x.words + row * x.stride;
  u.a_stride = x.stride;
  if (w.format == weight_format::int8) {
    u.a_scale = x.scale + row;
    u.w_scale = w.scale.get() + n;
    u.w_start = w.start.get() + n;
  }
  u.rows = rows;
  u.y = y;
  u.y_stride = y_stride;
  u.columns = std::min(width, w.out_features - n);
  u.bias = bias == nullptr ? nullptr : bias + n;
  u.accumulate = accumulate;
  w.kernels->multiply(u);
}

void quantize_row(const packed_cpu& w, const tensor_view& x, std::int64_t r, float* bytes,
                  float* scale) {
  w.kernels->quantize(x.row<float>(r), w.in_features, 4 * w.words,
                      reinterpret_cast<std::uint8_t*>(bytes + r * w.words), scale + r);
}

void check(bool right, const char* what) {
  if (!right) throw std::logic_error(std::string("linear: ") + what);
}

}  // namespace

void own_linear(const tensor_view& x, const packed_cpu& w, const float* bias, const tensor_view& y,
                bool accumulate) {
  const std::int64_t rows = x.rows(), panels = w.panels;
  const bool quantized = w.format == weight_format::int8;
  operand a{x.as<float>(), x.row_stride, nullptr};
  float* bytes = nullptr;
  float* scale = nullptr;
  if (quantized) {
    thread_local scratch memory;
    bytes = memory.get<float>(rows * (w.words + 1));
    scale = bytes + rows * w.words;
    a = {bytes, w.words, scale};
  }
  const double speed = quantized ? 0.25 : 1.0;  // dot4 does four multiplies where fma does one
  const double flops = 2.0 * static_cast<double>(rows * w.in_features * w.out_features) * speed;
  const int threads = omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
  float* out = y.as<float>();
  if (threads == 1 || !worth_threads(flops, static_cast<double>(w.bytes))) {
    if (quantized) {
      for (std::int64_t r = 0; r < rows; ++r) quantize_row(w, x, r, bytes, scale);
    }
    for (std::int64_t p = 0; p < panels; ++p) {
      multiply_panel(w, a, p, 0, rows, bias, out + p * w.kernels->panel_width, y.row_stride,
                     accumulate);
    }
    return;
  }
  // A unit is a panel with all its rows, so that a panel leaves memory once; with few panels the
  // rows are cut too. Neighbouring units stay on one thread, which keeps the stream contiguous.
  const std::int64_t per_unit = panels >= 8 * threads ? rows : rows_per_unit;
  const std::int64_t cuts = (rows + per_unit - 1) / per_unit;
  const std::int64_t units = panels * cuts;
  const int grab = static_cast<int>(std::clamp<std::int64_t>(units / (8 * threads), 1, 8));
  watched_region watch;
#pragma omp parallel num_threads(threads)
  {
    const watched_part part(watch);
    if (quantized) {
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) quantize_row(w, x, r, bytes, scale);
    }
#pragma omp for schedule(dynamic, grab) nowait
    for (std::int64_t unit = 0; unit < units; ++unit) {
      const std::int64_t p = unit / cuts, row = unit % cuts * per_unit;
      multiply_panel(w, a, p, row, std::min(per_unit, rows - row), bias,
                     out + row * y.row_stride + p * w.kernels->panel_width, y.row_stride,
                     accumulate);
    }
  }
}

const packed_cpu& as_packed_cpu(const packed_matrix& w) {
  const auto* own = dynamic_cast<const packed_cpu*>(&w);
  if (own == nullptr) throw std::logic_error("linear: weights were packed by another backend");
  return *own;
}

packed_handle pack(const tensor_view& weight, weight_format format, isa set) {
  check(weight.rank >= 2, "a weight has two dimensions [out, in]");
  check(weight.type == dtype::f32 || weight.type == dtype::bf16 || weight.type == dtype::f16,
        "a weight is f32, bf16 or f16");
  auto w = std::make_shared<packed_cpu>();
  w->out_features = weight.rows();
  w->in_features = weight.columns();
  w->format = format;
  w->set = set;
  w->kernels = &kernels_of(w->set);
  const std::int64_t width = w->kernels->panel_width;
  const std::int64_t per_word = format == weight_format::f32    ? 1
                                : format == weight_format::bf16 ? 2
                                                                : 4;
  w->panels = (w->out_features + width - 1) / width;
  w->words = (w->in_features + per_word - 1) / per_word;
  w->panel_bytes = w->words * width * 4;
  w->bytes = static_cast<std::size_t>(w->panels * w->panel_bytes);
  w->weights = aligned_array<std::byte>(w->bytes);
  if (format == weight_format::int8) {
    w->scale = aligned_array<float>(static_cast<std::size_t>(w->panels * width));
    w->start = aligned_array<std::int32_t>(static_cast<std::size_t>(w->panels * width));
    w->bytes += static_cast<std::size_t>(w->panels * width) * 8;
  }
#pragma omp parallel if (team_allowed())
  {
    std::vector<float> row(static_cast<std::size_t>(w->in_features));
#pragma omp for schedule(static)
    for (std::int64_t p = 0; p < w->panels; ++p) {
      for (std::int64_t n = p * width; n < std::min((p + 1) * width, w->out_features); ++n) {
        read_row(weight, n, row.data());
        pack_feature(*w, n, row.data());
      }
    }
  }
  return w;
}

void linear(const tensor_view& x, const packed_matrix& weight, const tensor_view& bias,
            const tensor_view& y, bool accumulate, gemm_path path) {
  const packed_cpu& w = as_packed_cpu(weight);
  check(x.columns() == w.in_features, "x has another width than the weight");
  check(y.columns() == w.out_features, "y has another width than the weight");
  check(x.rows() == y.rows(), "x and y have different numbers of rows");
  const float* b = bias.data == nullptr ? nullptr : bias.as<float>();
  check(b == nullptr || bias.elements() == w.out_features, "the bias has another length");
  if (x.rows() == 0 || w.out_features == 0) return;
  if (path != gemm_path::own && library_linear(x, w, bias, y, accumulate, path)) return;
  own_linear(x, w, b, y, accumulate);
}

void linear_columns(const tensor_view& x, const packed_matrix& weight, std::int64_t n0,
                    std::int64_t n1, const tensor_view& y) {
  thread_local prepared_rows rows;
  rows.prepare(x, weight);
  linear_columns(rows, weight, n0, n1, y);
}

prepared_rows::~prepared_rows() {
  std::free(memory_);
}

void prepared_rows::prepare(const tensor_view& x, const packed_matrix& weight) {
  const packed_cpu& w = as_packed_cpu(weight);
  check(x.columns() == w.in_features, "x has another width than the weight");
  source_ = x;
  if (w.format != weight_format::int8) return;
  const std::int64_t rows = x.rows();
  const auto bytes = static_cast<std::size_t>(rows * (w.words + 1)) * sizeof(float);
  if (bytes > capacity_) {
    std::free(memory_);
    capacity_ = (bytes + 63) / 64 * 64;
    memory_ = std::aligned_alloc(64, capacity_);
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  auto* words = static_cast<float*>(memory_);
  for (std::int64_t r = 0; r < rows; ++r) {
    quantize_row(w, x, r, words, words + rows * w.words);
  }
}

void linear_columns(const prepared_rows& x, const packed_matrix& weight, std::int64_t n0,
                    std::int64_t n1, const tensor_view& y) {
  const packed_cpu& w = as_packed_cpu(weight);
  const std::int64_t width = w.kernels->panel_width, rows = x.source_.rows();
  check(n0 % width == 0 && (n1 % width == 0 || n1 == w.out_features) && n1 <= w.out_features,
        "columns must be whole panels");
  check(y.rows() >= rows && y.columns() >= n1 - n0, "the tile is too small");
  operand a{x.source_.as<float>(), x.source_.row_stride, nullptr};
  if (w.format == weight_format::int8) {
    const auto* words = static_cast<const float*>(x.memory_);
    a = {words, w.words, words + rows * w.words};
  }
  for (std::int64_t n = n0; n < n1; n += width) {
    multiply_panel(w, a, n / width, 0, rows, nullptr, y.as<float>() + (n - n0), y.row_stride,
                   false);
  }
}

std::int64_t panel_width(const packed_matrix& w) {
  return as_packed_cpu(w).kernels->panel_width;
}

isa packed_for(const packed_matrix& w) {
  return as_packed_cpu(w).set;
}

gemm_path require(gemm_path path) {
  if (path != gemm_path::own && library_linear == nullptr) {
    throw environment_error("this program was linked without oneDNN: only own kernels multiply");
  }
  return path;
}

gemm_path gemm_path_of_environment() {
  const char* text = std::getenv("UNMASK_GEMM");
  const std::string name = text == nullptr ? "" : text;
  if (name.empty() || name == "own") return gemm_path::own;
  if (name == "onednn") return gemm_path::onednn;
  if (name == "auto") return gemm_path::automatic;
  throw usage_error("UNMASK_GEMM: \"" + name + "\" is not one of own, onednn, auto");
}

}  // namespace unmask::cpu
