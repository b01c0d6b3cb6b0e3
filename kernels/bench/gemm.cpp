// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Matrix products with packed weights against oneDNN with packed weights, interleaved, weights
// cold: enough copies of the matrix are cycled through to overflow the last cache.
#include "kernels/cpu/gemm.h"

#include <dnnl.hpp>

#include "kernels/bench/bench.h"

namespace unmask::bench {
namespace {

// oneDNN at any number of rows (the backend itself uses it for many rows only).
class library_product {
 public:
  library_product(const tensor& w, const tensor_view& x, const tensor_view& y, int copies) {
    using dims = dnnl::memory::dims;
    const dims ws{w.view().columns(), w.view().rows()};
    const auto f32 = dnnl::memory::data_type::f32;
    const auto ab = dnnl::memory::format_tag::ab;
    const dnnl::memory::desc source({x.rows(), x.columns()}, f32, ab);
    const dnnl::memory::desc result({y.rows(), y.columns()}, f32, ab);
    const dnnl::matmul::desc d(source, {ws, f32, dnnl::memory::format_tag::any}, result);
    const dnnl::matmul::primitive_desc description(d, engine_);
    product_ = dnnl::matmul(description);
    source_ = dnnl::memory(source, engine_, x.data);
    result_ = dnnl::memory(result, engine_, y.data);
    dnnl::memory plain({ws, f32, dnnl::memory::format_tag::ba}, engine_, w.view().data);
    for (int i = 0; i < copies; ++i) {
      weights_.emplace_back(description.weights_desc(), engine_);
      dnnl::reorder(plain, weights_.back()).execute(stream_, plain, weights_.back());
    }
    stream_.wait();
  }
  void run(std::size_t copy) {
    product_.execute(
        stream_,
        {{DNNL_ARG_SRC, source_}, {DNNL_ARG_WEIGHTS, weights_[copy]}, {DNNL_ARG_DST, result_}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul product_;
  dnnl::memory source_, result_;
  std::vector<dnnl::memory> weights_;
};

// Arguments: rows M, depth K, features N.
void gemm(benchmark::State& state) {
  const std::int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const int copies =
      static_cast<int>(std::max<std::int64_t>(2, (std::int64_t{96} << 20) / (k * n * 4)));
  const backend& backend = cpu_backend();
  const tensor w = random_tensor(backend, {n, k}, 0.05F), x = random_tensor(backend, {m, k});
  const tensor y = backend.allocate(dtype::f32, {m, n});
  std::vector<std::vector<packed_handle>> packed;
  for (auto format : {weight_format::f32, weight_format::bf16, weight_format::int8}) {
    packed.emplace_back();
    for (int i = 0; i < copies; ++i) packed.back().push_back(backend.pack(w, format));
  }
  library_product library(w, x, y, copies);
  std::size_t turn = 0;  // the same copy index for all contenders of a turn
  const auto own = [&](std::size_t format) {
    cpu::linear(x, *packed[format][turn % static_cast<std::size_t>(copies)], {}, y, false);
  };
  std::vector<double> triad;
  const auto t = interleave(
      state, {[&] { own(0); }, [&] { library.run(turn % static_cast<std::size_t>(copies)); },
              [&] { own(1); }, [&] { own(2); },
              [&] {
                ++turn;
                triad.push_back(triad_once());
              }});
  const double flops = 2.0 * static_cast<double>(m * k * n);
  const double bytes = 4.0 * static_cast<double>(k * n + m * k + m * n);
  report(state, t[0], flops, bytes);
  state.counters["onednn_us"] = t[1].median * 1e6;
  state.counters["own/onednn"] = t[1].median / t[0].median;
  state.counters["best_own/onednn"] = t[1].best / t[0].best;
  state.counters["bf16_GFLOP/s"] = flops / t[2].median / 1e9;
  state.counters["int8_GOP/s"] = flops / t[3].median / 1e9;
  // Weight bytes per second over the triad measured in between.
  const auto weights = static_cast<double>(k * n);
  const double memory = *std::max_element(triad.begin(), triad.end());
  state.counters["triad_GB/s"] = memory / 1e9;
  state.counters["f32/triad"] = 4 * weights / t[0].median / median(triad);
  state.counters["bf16/triad"] = 2 * weights / t[2].median / median(triad);
  state.counters["int8/triad"] = weights / t[3].median / median(triad);
  state.counters["best_f32/triad"] = 4 * weights / t[0].best / memory;
  state.counters["best_bf16/triad"] = 2 * weights / t[2].best / memory;
  state.counters["best_int8/triad"] = weights / t[3].best / memory;
}

void shapes(benchmark::internal::Benchmark* b) {
  for (const auto& [k, n] : {std::pair{1024, 4096}, {768, 2048}}) {
    for (const int m : {1, 4, 8, 16, 32, 64, 128, 512}) b->Args({m, k, n});
  }
}
BENCHMARK(gemm)->ArgNames({"M", "K", "N"})->Apply(shapes)->UseManualTime()->MinTime(0.3);

}  // namespace
}  // namespace unmask::bench
