// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/python/engine/steps.h"

#include <nanobind/stl/string.h>

#include "harness/python/engine/rule.h"

namespace unmask::python {

asked_rule::asked_rule(std::string method, const held& begin, const parameter_map& settings,
                       const unmask_traits& may, std::int32_t vocabulary)
    : method_(std::move(method)) {
  const nb::gil_scoped_acquire hold;
  asked([&] {
    nb::dict given;
    for (const auto& [name, value] : settings) given[name.c_str()] = object_of(value);
    session_ = std::make_unique<held>(begin.get()(given, may.replaces, may.reopens, vocabulary));
  });
}

nb::list asked_rule::step(question what, const batch& b, const sequence_step& step,
                          std::int32_t s) const {
  const sequence& q = b.at(s);
  if (last_.size() < static_cast<std::size_t>(b.capacity())) {
    last_.resize(static_cast<std::size_t>(b.capacity()));
  }
  visit& before = last_[static_cast<std::size_t>(s)];
  // A request that took the slot anew, also one of the same number, begins its questions again.
  const std::int64_t asks = std::int64_t{q.step} * 3 + static_cast<std::int64_t>(what);
  const bool fresh =
      before.id != q.request.id || before.prompt != q.prompt_length || asks <= before.question;
  before = {q.request.id, asks, q.prompt_length};
  nb::list seen;
  for (const std::int64_t n :
       {std::int64_t{s}, q.request.id, std::int64_t{fresh}, std::int64_t{q.step},
        std::int64_t{step.step}, std::int64_t{step.quota},
        std::int64_t{step.block_first - q.prompt_length},
        std::int64_t{step.block_last - q.prompt_length}, std::int64_t{q.length - q.prompt_length},
        std::int64_t{q.prompt_length}}) {
    seen.append(nb::int_(n));
  }
  seen.append(nb::int_(q.request.seed));
  return seen;
}

bool asked_rule::has(const char* function) const {
  const nb::gil_scoped_acquire hold;
  return nb::cast<bool>(session_->get().attr("has")(function));
}

nb::object asked_rule::ask(const char* function, const nb::list& seen) const {
  return session_->get().attr(function)(*seen);
}

void asked_rule::fail() const {
  const bool stops = PyErr_ExceptionMatches(PyExc_Exception) == 0;  // Ctrl-C, SystemExit
  const auto exception = taken_exception();
  if (stops) throw interrupted{exception};
  const std::string said = nb::cast<std::string>(nb::str(exception->get()));
  throw rule_failure(method_ + ": " + said, exception);
}

}  // namespace unmask::python
