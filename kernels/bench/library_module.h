// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Modules that compute an operation by another library (kernels/libraries/README.md), as bench --kernels finds them.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/ways.h"
#include "kernels/libraries/way.h"

namespace unmask::bench {

class library_module {
 public:
  // The name of the library that computes attention or experts: "cuDNN", "CUTLASS".
  static const char* name_of(cuda::multiplied what);

  // Opens the module and checks it against the reference in small cases on this GPU.
  library_module(cuda::multiplied what, const backend& on);

  // Why it computes nothing: it, or its library, is absent, old or wrong. Empty: it may be timed.
  const std::string& why() const { return why_; }
  std::string version() const { return way_->version(); }

  // Calls of one shape. An environment error has the module's sentence.
  using plan = std::shared_ptr<void>;
  plan prepare(const libraries::attention_shape& shape) const;
  plan prepare(const libraries::experts_shape& shape) const;
  void call(const plan& p, const libraries::attention_operands& operands) const;
  void call(const plan& p, const libraries::experts_operands& operands) const;
  void wait() const;

 private:
  [[noreturn]] void fail() const;
  const libraries::library_way* way_ = nullptr;
  std::string file_, why_;
};

}  // namespace unmask::bench
