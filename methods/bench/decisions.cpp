// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/decisions.h"
#include "kernels/bench/bench.h"
#include "methods/parts/kernels/acceptance.h"

namespace unmask::bench {
namespace {

struct candidates {
  std::vector<std::int32_t> begin, position, quota;
  std::vector<float> score;
  std::vector<std::uint8_t> accept;
  candidate_set set;
  candidates(std::int64_t sequences, std::int64_t each) {
    std::mt19937 rng(3);
    std::uniform_real_distribution<float> unit;
    for (std::int64_t s = 0; s <= sequences; ++s) {
      begin.push_back(static_cast<std::int32_t>(s * each));
    }
    for (std::int64_t i = 0; i < sequences * each; ++i) {
      position.push_back(static_cast<std::int32_t>(i % each));
      score.push_back(unit(rng));
    }
    quota.assign(static_cast<std::size_t>(sequences), 4);
    accept.resize(score.size());
    set = {static_cast<std::int32_t>(sequences), begin.back(), begin.data(), position.data(),
           position.data()};
  }
};

// Arguments: sequences, candidates of each.
void accept_top(benchmark::State& state) {
  candidates c(state.range(0), state.range(1));
  const auto n = static_cast<double>(c.score.size());
  run(state, n, 5 * n, [&] {
    cpu_backend().run(op::accept_top{c.set, c.score.data(), c.quota.data(), c.accept.data()});
  });
}
void accept_threshold(benchmark::State& state) {
  candidates c(state.range(0), state.range(1));
  const auto n = static_cast<double>(c.score.size());
  run(state, n, 5 * n, [&] {
    cpu_backend().run(
        op::accept_threshold{c.set, c.score.data(), 0.9F, false, true, c.accept.data()});
  });
}
void accept_factor(benchmark::State& state) {
  candidates c(state.range(0), state.range(1));
  const auto n = static_cast<double>(c.score.size());
  run(state, n, 5 * n, [&] {
    cpu_backend().run(op::accept_factor{c.set, c.score.data(), 1.0F, c.accept.data()});
  });
}
void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"sequences", "each"})->Args({1, 32})->Args({16, 32})->Args({4, 1024});
  b->UseManualTime()->MinTime(0.05);
}
BENCHMARK(accept_top)->Apply(sizes);
BENCHMARK(accept_threshold)->Apply(sizes);
BENCHMARK(accept_factor)->Apply(sizes);

}  // namespace
}  // namespace unmask::bench
