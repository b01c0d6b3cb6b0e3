// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/python/engine/held.h"

#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <set>

#include "harness/devices/environment.h"

namespace unmask::python {
namespace {

// How long a decode goes on after Ctrl-C. Asking costs the GIL, for which other threads may have to wait.
constexpr std::chrono::milliseconds ear{50};

// Objects with an owner. Guarded by the GIL.
std::set<PyObject**>& owned() {
  static auto* all = new std::set<PyObject**>();
  return *all;
}

std::timed_mutex& one_at_a_time() {
  static std::timed_mutex lock;
  return lock;
}
thread_local bool computes = false;
std::atomic<pid_t> first_use{0};

void refuse_in_child() {
  pid_t nobody = 0;
  const pid_t here = ::getpid();
  if (first_use.compare_exchange_strong(nobody, here) || nobody == here) return;
  throw usage_error(
      "this process was forked from one that has used unmask.engine, whose threads are not in it: "
      "start processes with multiprocessing's method \"spawn\", or use the engine in the child "
      "alone");
}

}  // namespace

held::held(nb::object object) : object_(object.release().ptr()) {
  owned().insert(&object_);
}

held::~held() {
  if (Py_IsInitialized() == 0) return;
  const nb::gil_scoped_acquire hold;
  owned().erase(&object_);
  Py_CLEAR(object_);
}

nb::object held::get() const {
  if (object_ == nullptr) throw usage_error("Python is ending: its rules are gone");
  return nb::borrow(object_);
}

void held::let_go_of_all() {
  while (!owned().empty()) {
    PyObject** object = *owned().begin();
    owned().erase(object);
    Py_CLEAR(*object);
  }
}

std::shared_ptr<const held> taken_exception() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr && value != nullptr) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return std::make_shared<held>(nb::steal(value));
}

computing::computing(int threads) : turn_(one_at_a_time(), std::defer_lock) {
  if (computes) throw usage_error("a rule may not decode: it is asked in the middle of a step");
  refuse_in_child();
  while (!turn_.try_lock_for(ear)) hear();
  computes = true;
  threads_before_ = omp_get_max_threads();
  if (threads > 0) {
    omp_set_num_threads(threads);
  } else {
    match_threads_to_quota();
  }
  looked_ = std::chrono::steady_clock::now();
  listens_.emplace(static_cast<phase_listener*>(this));
}

computing::~computing() {
  listens_.reset();
  omp_set_num_threads(threads_before_);
  computes = false;
}

void computing::enter(profile_phase phase, std::int64_t) {
  if (phase != profile_phase::step) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < ear) return;
  looked_ = now;
  hear();
}

void computing::hear() {
  const nb::gil_scoped_acquire hold;
  if (PyErr_CheckSignals() != 0) throw interrupted{taken_exception()};
}

}  // namespace unmask::python
