// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace unmask {

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex lock;
  std::size_t failed = count;
  std::exception_ptr problem;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard<std::mutex> guard(lock);
        if (i < failed) {
          failed = i;
          problem = std::current_exception();
        }
      }
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t < std::min(cores, count); ++t) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  if (problem) std::rethrow_exception(problem);
}

}  // namespace unmask
