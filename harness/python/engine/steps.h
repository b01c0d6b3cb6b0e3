// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A Python rule while it decodes one batch: what it is asked of a step, and what becomes of its errors.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/value.h"
#include "harness/decode/policies.h"
#include "harness/python/engine/held.h"

namespace unmask::python {

class asked_rule {
 public:
  // Calls `begin` of rules.py for a new batch. `may` says which decisions the base's loop carries out.
  asked_rule(std::string method, const held& begin, const parameter_map& settings,
             const unmask_traits& may, std::int32_t vocabulary);

  // What a step asks of a rule, in this order.
  enum class question : std::uint8_t { pace, rows, decide };

  // All with the GIL.
  // The plain part of a step: request, batch slot, whether the request is new there, and its plan.
  nb::list step(question what, const batch& b, const sequence_step& step, std::int32_t s) const;
  bool has(const char* function) const;  // takes the GIL
  nb::object ask(const char* function, const nb::list& seen) const;

  // Does `work`, which calls Python. What a rule raises becomes a rule_failure, Ctrl-C `interrupted`.
  template <class Work>
  void asked(const Work& work) const {
    try {
      work();
    } catch (nb::python_error& raised) {
      raised.restore();
      fail();
    }
  }

  const std::string& method() const { return method_; }

 private:
  // The request that a batch slot had when the rule was last asked.
  struct visit {
    std::int64_t id = -1, question = -1;  // of all its questions, the last
    std::int32_t prompt = -1;
  };
  [[noreturn]] void fail() const;

  std::string method_;
  std::unique_ptr<const held> session_;
  mutable std::vector<visit> last_;
};

}  // namespace unmask::python
