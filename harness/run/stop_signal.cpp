// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/stop_signal.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "harness/base/files.h"

namespace unmask {
namespace {

std::atomic<int> pipe_end{-1};
std::atomic<bool> is_callers{false};

// What a handler may do is little: it hands the number to the thread that may do everything.
void hand_over(int number) {
  const int reason = errno;
  const auto byte = static_cast<unsigned char>(number);
  const int end = pipe_end.load();
  if (end >= 0 && ::write(end, &byte, 1) < 0) ::_exit(128 + number);
  errno = reason;
}

}  // namespace

stop_signal::stop_signal(std::function<void()> last_words) : last_words_(std::move(last_words)) {
  if (is_callers) return;
  int ends[2];
  int nobody = -1;
  if (::pipe2(ends, O_CLOEXEC) != 0) return;  // no descriptor left: signals end the program as ever
  if (!pipe_end.compare_exchange_strong(nobody, ends[1])) {
    ::close(ends[0]);
    ::close(ends[1]);
    return;
  }
  reads_ = ends[0];
  writes_ = ends[1];
  listener_ = std::thread([this] {
    unsigned char number = 0;
    ssize_t n = 0;
    do {
      n = ::read(reads_, &number, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1) return;
    last_words_();
    remove_scratch_folders();
    ::_exit(128 + number);
  });
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction ours = {};
    ours.sa_handler = hand_over;
    ours.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    sigemptyset(&ours.sa_mask);
    ::sigaction(signals[i], &ours, nullptr);
  }
}

void stop_signal::leave_to_caller() {
  is_callers = true;
}

stop_signal::~stop_signal() {
  if (writes_ < 0) return;
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before_[i], nullptr);
  pipe_end.store(-1);
  ::close(writes_);  // the listener reads the end of the pipe
  listener_.join();
  ::close(reads_);
}

}  // namespace unmask
