// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LM head fused with arg-max and confidence, interleaved with the same product alone.
#include "kernels/bench/bench.h"
#include "kernels/head.h"
#include "kernels/model_core.h"

namespace unmask::bench {
namespace {

// Arguments: candidates, width D, vocabulary V.
void confidence(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1), vocabulary = state.range(2);
  const backend& backend = cpu_backend();
  const tensor x = random_tensor(backend, {rows, width});
  const auto head =
      backend.pack(random_tensor(backend, {vocabulary, width}, 0.05F), weight_format::f32);
  const tensor whole = backend.allocate(dtype::f32, {rows, vocabulary});
  std::vector<std::int32_t> row(static_cast<std::size_t>(rows)), token(row.size());
  for (std::size_t r = 0; r < row.size(); ++r) row[r] = static_cast<std::int32_t>(r);
  std::vector<float> probability(row.size());
  const std::int32_t begin[2] = {0, static_cast<std::int32_t>(rows)};
  const candidate_set set{1, begin[1], begin, row.data(), row.data()};
  confidence_out out;
  out.token = token.data();
  out.probability = probability.data();
  const auto t = interleave(state, {[&] {
                                      backend.run(op::confidence{x, *head, set, {}, out});
                                    },
                                    [&] {
                                      backend.run(op::linear{x, *head, {}, whole, false});
                                    }});
  const auto weights = static_cast<double>(width * vocabulary);
  report(state, t[0], 2.0 * static_cast<double>(rows) * weights, 4 * weights);
  state.counters["linear_us"] = t[1].median * 1e6;
  state.counters["linear/fused"] = t[1].median / t[0].median;
}
BENCHMARK(confidence)
    ->ArgNames({"rows", "width", "vocabulary"})
    ->Args({1, 768, 32000})
    ->Args({32, 768, 32000})
    ->Args({32, 192, 512})
    ->UseManualTime()
    ->MinTime(0.3);

}  // namespace
}  // namespace unmask::bench
