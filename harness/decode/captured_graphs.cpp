// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/captured_graphs.h"

#include <algorithm>
#include <chrono>

namespace unmask {

void captured_graphs::run(const std::vector<std::uint64_t>& key,
                          const std::function<void()>& body) {
  const auto [at, is_new] = known_.try_emplace(key);
  entry& e = at->second;
  e.last = ++clock_;
  if (is_new) {
    body();
    ++counts_.direct;
    if (known_.size() > most_) forget_oldest();
    return;
  }
  if (!e.work) {
    run_.synchronize();  // so that no decoding hides in the seconds
    const auto start = std::chrono::steady_clock::now();
    e.work = run_.capture(body);
    run_.synchronize();
    counts_.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  run_.replay(*e.work);
  ++counts_.replayed;
}

void captured_graphs::forget() {
  if (known_.empty()) return;
  run_.synchronize();  // it may still run
  known_.clear();
}

void captured_graphs::forget_oldest() {
  const auto oldest =
      std::ranges::min_element(known_, {}, [](const auto& named) { return named.second.last; });
  run_.synchronize();  // it may still run
  known_.erase(oldest);
}

}  // namespace unmask
