// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A whole forward of a 134 M parameter proxy (12 layers, d 768, feed-forward 2048, 12 heads,
// vocabulary 32000), composed of operations only, interleaved with its own linear layers alone.
// The head computes the last row only unless `all_logits`; the int8 rows carry an accuracy figure.
#include <array>
#include <cmath>
#include <memory>

#include "kernels/attention.h"
#include "kernels/bench/bench.h"
#include "kernels/head.h"
#include "kernels/model_core.h"

namespace unmask::bench {
namespace {

constexpr std::int64_t layers = 12, width = 768, hidden = 2048, heads = 12, dim = width / heads;
constexpr std::int64_t vocabulary = 32000, most_rows = 512;

// Tokens per second of other programs on this proxy with 2 threads. Published with the project's
// CPU study (2-core AVX-512 VNNI x86-64, 2026-11-21), not run here; that machine is not this one,
// so they orient and prove nothing. Columns: 1, 32, 128, 512 tokens, middle of the range.
struct peer {
  const char* name;
  weight_format format;
  std::array<double, 4> tokens_per_second;
};
constexpr peer peers[] = {
    {"llama.cpp_f32", weight_format::f32, {36, 414, 453, 364}},
    {"llama.cpp_f16", weight_format::bf16, {49, 393, 418, 337}},
    {"llama.cpp_q8_0", weight_format::int8, {76, 371, 377, 294}},
    {"pytorch_eager_f32_all_logits", weight_format::f32, {10, 145, 260, 478}},
};

struct layer {
  packed_handle qkv, out, up, down;
};

class proxy {
 public:
  proxy(const std::vector<tensor>& source, weight_format format) {
    const auto pack = [&](std::size_t i) { return backend_.pack(source[i], format); };
    for (std::size_t l = 0; l < layers; ++l) {
      layers_.push_back({pack(4 * l), pack(4 * l + 1), pack(4 * l + 2), pack(4 * l + 3)});
    }
    head_ = pack(4 * layers);
    const std::int64_t pages = most_rows / kv_page_size;
    for (std::int64_t p = 0; p < pages; ++p) table_.push_back(static_cast<std::int32_t>(p));
    for (std::int64_t l = 0; l < layers; ++l) {
      keys_.push_back(backend_.allocate(dtype::f32, {pages, kv_page_size, heads, dim}));
      values_.push_back(backend_.allocate(dtype::f32, {pages, kv_page_size, heads, dim}));
    }
    for (std::int32_t r = 0; r < most_rows; ++r) position_.push_back(r);
    sequence_.assign(most_rows, 0);
    for (std::int64_t i = 0; i < width; ++i) ones_.as<float>()[i] = 1.0F;
  }

  static std::vector<tensor> weights() {
    std::vector<tensor> w;
    const backend& backend = cpu_backend();
    const float s = 1.0F / std::sqrt(static_cast<float>(width));
    for (std::int64_t l = 0; l < layers; ++l) {
      w.push_back(random_tensor(backend, {3 * width, width}, s));
      w.push_back(random_tensor(backend, {width, width}, s));
      w.push_back(random_tensor(backend, {2 * hidden, width}, s));
      w.push_back(random_tensor(backend, {width, hidden}, s));
    }
    w.push_back(random_tensor(backend, {vocabulary, width}, s));
    return w;
  }
  static double parameters() {  // multiplied by every row; the head comes on top
    return static_cast<double>(layers * (4 * width * width + 3 * width * hidden));
  }

  // x [rows, width] is kept; the logits of the last `logit_rows` rows go to logits().
  void forward(const tensor& x, std::int64_t rows, std::int64_t logit_rows) {
    const views v(*this, rows);
    std::copy_n(x.as<float>(), rows * width, v.stream.as<float>());
    const std::int32_t begin[2] = {0, static_cast<std::int32_t>(rows)};
    const row_set set{1, begin[1], begin, sequence_.data(), position_.data(), nullptr};
    const rope_params rope{static_cast<std::int32_t>(dim), 10000.0F};
    key_set seen;
    seen.kv_length = begin + 1;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const paged_kv cache{keys_[l], values_[l], table_.data(),
                           static_cast<std::int32_t>(table_.size())};
      backend_.run(op::rms_norm{v.stream, ones_, 1e-6F, v.norm});
      backend_.run(op::linear{v.norm, *layers_[l].qkv, {}, v.qkv, false});
      backend_.run(op::head_norm_rope{v.q, {}, 1e-6F, rope, position_.data()});
      backend_.run(op::head_norm_rope{v.k, {}, 1e-6F, rope, position_.data()});
      backend_.run(op::kv_write{set, v.k, v.v, cache});
      backend_.run(op::attention{set, v.q, cache, seen, 0.125F, v.mixed, {}});
      backend_.run(op::linear{v.mixed_flat, *layers_[l].out, {}, v.stream, true});
      backend_.run(op::rms_norm{v.stream, ones_, 1e-6F, v.norm});
      backend_.run(op::linear{v.norm, *layers_[l].up, {}, v.both, false});
      backend_.run(op::silu_mul{v.both, v.inner});
      backend_.run(op::linear{v.inner, *layers_[l].down, {}, v.stream, true});
    }
    backend_.run(op::rms_norm{v.stream, ones_, 1e-6F, v.norm});
    backend_.run(op::linear{v.norm.slice(rows - logit_rows, logit_rows),
                            *head_,
                            {},
                            logits_.view().first(logit_rows),
                            false});
  }

  // The same matrix products on whatever lies in the buffers.
  void linear_layers(std::int64_t rows, std::int64_t logit_rows) {
    const views v(*this, rows);
    for (const layer& l : layers_) {
      backend_.run(op::linear{v.norm, *l.qkv, {}, v.qkv, false});
      backend_.run(op::linear{v.mixed_flat, *l.out, {}, v.spare, true});
      backend_.run(op::linear{v.norm, *l.up, {}, v.both, false});
      backend_.run(op::linear{v.inner, *l.down, {}, v.spare, true});
    }
    backend_.run(op::linear{v.norm.slice(rows - logit_rows, logit_rows),
                            *head_,
                            {},
                            logits_.view().first(logit_rows),
                            false});
  }

  const tensor& logits() const { return logits_; }
  double weight_bytes() const {
    double n = static_cast<double>(head_->bytes);
    for (const layer& l : layers_) {
      n += static_cast<double>(l.qkv->bytes + l.out->bytes + l.up->bytes + l.down->bytes);
    }
    return n;
  }

 private:
  // The buffers' first rows, with the shapes the operations want.
  struct views {
    tensor_view stream, spare, norm, qkv, q, k, v, mixed, mixed_flat, both, inner;
    views(const proxy& p, std::int64_t rows)
        : stream(p.stream_.view().first(rows)),
          spare(p.spare_.view().first(rows)),
          norm(p.norm_.view().first(rows)),
          qkv(p.qkv_.view().first(rows)),
          q(part(qkv, 0)),
          k(part(qkv, 1)),
          v(part(qkv, 2)),
          mixed(make_view(p.mixed_.view().data, dtype::f32, {rows, heads, dim})),
          mixed_flat(p.mixed_.view().first(rows)),
          both(p.both_.view().first(rows)),
          inner(p.inner_.view().first(rows)) {}
    static tensor_view part(const tensor_view& qkv, int third) {
      tensor_view t =
          make_view(qkv.as<float>() + third * width, dtype::f32, {qkv.rows(), heads, dim});
      t.row_stride = qkv.row_stride;
      return t;
    }
  };
  static tensor buffer(std::int64_t columns) {
    return cpu_backend().allocate(dtype::f32, {most_rows, columns});
  }

  const backend& backend_ = cpu_backend();
  std::vector<layer> layers_;
  packed_handle head_;
  std::vector<tensor> keys_, values_;
  std::vector<std::int32_t> table_, position_, sequence_;
  tensor ones_ = cpu_backend().allocate(dtype::f32, {width});
  tensor stream_ = buffer(width), spare_ = buffer(width), norm_ = buffer(width);
  tensor qkv_ = buffer(3 * width), mixed_ = buffer(width), both_ = buffer(2 * hidden);
  tensor inner_ = buffer(hidden), logits_ = buffer(vocabulary);
};

proxy& proxy_of(weight_format format) {
  static const std::vector<tensor> weights = proxy::weights();
  static std::array<std::unique_ptr<proxy>, 3> made;
  auto& p = made[static_cast<std::size_t>(format)];
  if (p == nullptr) p = std::make_unique<proxy>(weights, format);
  return *p;
}

// Relative error of all logits, and how often the arg-max is the same, against f32 weights.
void report_accuracy(benchmark::State& state, proxy& p, const tensor& x, std::int64_t rows) {
  proxy& exact = proxy_of(weight_format::f32);
  exact.forward(x, rows, rows);
  p.forward(x, rows, rows);
  double error = 0, size = 0, same = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float *a = p.logits().row<float>(r), *b = exact.logits().row<float>(r);
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      error += (a[v] - b[v]) * static_cast<double>(a[v] - b[v]);
      size += b[v] * static_cast<double>(b[v]);
    }
    same += std::max_element(a, a + vocabulary) - a == std::max_element(b, b + vocabulary) - b;
  }
  state.counters["logit_error"] = std::sqrt(error / size);
  state.counters["top1_agreement"] = same / static_cast<double>(rows);
}

// Arguments: tokens, weight format (0 f32, 1 bf16, 2 int8), whether all logits are computed.
void forward(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  const auto format = static_cast<weight_format>(state.range(1));
  const std::int64_t logit_rows = state.range(2) != 0 ? rows : 1;
  proxy& p = proxy_of(format);
  const tensor x = random_tensor(cpu_backend(), {rows, width});
  if (format != weight_format::f32) report_accuracy(state, p, x, rows);
  const auto t = interleave(
      state, {[&] { p.forward(x, rows, logit_rows); }, [&] { p.linear_layers(rows, logit_rows); }});
  const auto n = static_cast<double>(rows);
  const double products =
      2 * (n * proxy::parameters() + static_cast<double>(logit_rows * width * vocabulary));
  const double scores = 4 * n * n * static_cast<double>(layers * width);
  // int8 weights multiply at the roof of int8; attention stays f32 and has the roof of f32.
  const roofs& most = measured_roofs();
  const double product_roof = format == weight_format::int8 ? most.int8_ops : most.f32_flops;
  const double least = products / product_roof + scores / most.f32_flops;
  report(state, t[0], products + scores, p.weight_bytes(), (products + scores) / least);
  state.counters["tokens/s"] = n / t[0].median;
  state.counters["best_tokens/s"] = n / t[0].best;
  state.counters["linear/whole"] = t[1].median / t[0].median;
  state.counters["best_linear/whole"] = t[1].best / t[0].best;
  const std::size_t column = rows == 1 ? 0 : rows == 32 ? 1 : rows == 128 ? 2 : 3;
  for (const peer& other : peers) {
    const bool all = other.name[0] == 'p';
    if (other.format == format && all == (logit_rows == rows && rows > 1)) {
      state.counters[std::string("published_") + other.name] = other.tokens_per_second[column];
    }
  }
}

void cases(benchmark::internal::Benchmark* b) {
  for (const int format : {0, 1, 2}) {
    for (const int rows : {1, 32, 128, 512}) b->Args({rows, format, 0});
  }
  b->Args({32, 0, 1})->Args({512, 0, 1});
}
BENCHMARK(forward)
    ->ArgNames({"tokens", "format", "all_logits"})
    ->Apply(cases)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->MinTime(1.0);

}  // namespace
}  // namespace unmask::bench
