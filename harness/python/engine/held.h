// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where C++ and Python meet: Python objects in C++'s hands, Ctrl-C, and who may compute when.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "harness/base/error.h"
#include "harness/profile/phases.h"

namespace unmask::python {

namespace nb = nanobind;

// A Python object that C++ keeps for longer than a call. The registry of methods outlives Python: what
// is left then is let go of before Python ends, and nobody gets it any more.
class held {
 public:
  explicit held(nb::object object);  // with the GIL
  ~held();
  held(const held&) = delete;
  held& operator=(const held&) = delete;
  // With the GIL. Usage error once Python ends.
  nb::object get() const;

  static void let_go_of_all();  // with the GIL, when Python ends

 private:
  PyObject* object_;
};

// A Python exception on its way through C++. It is no std::exception, so that nothing takes Ctrl-C for a
// point that failed.
struct interrupted {
  std::shared_ptr<const held> exception;
};

// A rule that failed: the sentence for a row, and the exception for whoever called from Python.
struct rule_failure : error {
  rule_failure(const std::string& sentence, std::shared_ptr<const held> raised)
      : error(exit_code::run_failed, sentence), exception(std::move(raised)) {}
  std::shared_ptr<const held> exception;
};

// The exception that Python has set, taken from there. With the GIL.
std::shared_ptr<const held> taken_exception();

// Calls that compute are made one at a time in a process: without the GIL, with the threads that the
// caller asks for (0: as many as the program takes), and with an ear for Ctrl-C. Usage error inside a
// rule, and after a fork of a process that has computed: its threads are not in the child.
class computing : phase_listener {
 public:
  explicit computing(int threads);
  ~computing() override;

 private:
  void enter(profile_phase phase, std::int64_t payload) override;
  void leave(profile_phase phase) override { (void)phase; }
  static void hear();

  nb::gil_scoped_release without_gil_;
  std::unique_lock<std::timed_mutex> turn_;
  int threads_before_;
  std::chrono::steady_clock::time_point looked_;
  std::optional<listening> listens_;
};

}  // namespace unmask::python
