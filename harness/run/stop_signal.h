// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SIGINT, SIGTERM and SIGHUP while something is measured: the program says what it has kept and ends
// with 128 + the signal. A second signal ends it at once.
#pragma once

#include <array>
#include <csignal>
#include <functional>
#include <thread>

namespace unmask {

class stop_signal {
 public:
  // On such a signal `last_words` runs in a thread of its own, then the process ends. Signals that
  // the caller of the program had ignored (nohup) stay so. One object at a time listens.
  explicit stop_signal(std::function<void()> last_words);
  ~stop_signal();
  stop_signal(const stop_signal&) = delete;
  stop_signal& operator=(const stop_signal&) = delete;

  // From now on no object listens: the process is somebody else's, who handles signals.
  static void leave_to_caller();

 private:
  static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_ = {};
  int reads_ = -1, writes_ = -1;
  std::function<void()> last_words_;
  std::thread listener_;
};

}  // namespace unmask
