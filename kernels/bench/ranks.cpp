// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over two ranks that share one core: what a rank waits for is that the other gets the core, and comes.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "harness/base/ranks/memory.h"
#include "kernels/bench/bench.h"
#include "kernels/ranks.h"

namespace unmask::bench {
namespace {

// While this lives, this process has one core, and so has another one, which is rank 1 and moves as many bytes.
class neighbour {
 public:
  explicit neighbour(std::size_t bytes) : memory_(rank_memory::create(2)) {
    sched_getaffinity(0, sizeof before_, &before_);
    int core = 0;
    while (!CPU_ISSET(core, &before_)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    child_ = ::fork();
    if (child_ == 0) answer(bytes);
    group_.emplace(memory_, 0);
  }
  ~neighbour() {
    group_->fail("the benchmark is over");
    ::waitpid(child_, nullptr, 0);
    sched_setaffinity(0, sizeof before_, &before_);
  }
  neighbour(const neighbour&) = delete;
  neighbour& operator=(const neighbour&) = delete;
  rank_group& group() { return *group_; }

 private:
  [[noreturn]] void answer(std::size_t bytes) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      rank_group group(memory_, 1);
      std::vector<char> mine(bytes), all(2 * bytes);
      for (;;) group.gather(mine.data(), bytes, all.data());
    } catch (const error&) {  // the benchmark is over
    }
    ::_exit(0);
  }

  std::shared_ptr<rank_memory> memory_;
  cpu_set_t before_{};
  pid_t child_ = 0;
  std::optional<rank_group> group_;
};

// Arguments: rows, width. Bytes are those that come from the other rank.
void sum_of_two_ranks(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1), n = rows * width;
  const backend& backend = cpu_backend();
  const tensor parts = random_tensor(backend, {1, n}), y = random_tensor(backend, {rows, width});
  const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
  std::vector<double> samples;
  {
    neighbour other(bytes);
    for (auto _ : state) {
      samples.push_back(seconds_of([&] {
        backend.run(op::sum_ranks{&other.group(), parts, y, true, dtype::f32});
      }));
      state.SetIterationTime(samples.back());
    }
  }
  report(state, summary(samples), 2.0 * static_cast<double>(n), static_cast<double>(bytes));
}
BENCHMARK(sum_of_two_ranks)
    ->ArgNames({"rows", "width"})
    ->Args({1, 4096})
    ->Args({32, 4096})
    ->UseManualTime()
    ->MinTime(0.1);

}  // namespace
}  // namespace unmask::bench
