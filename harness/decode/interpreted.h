// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Methods with a rule that is not compiled: they are registered at run time, and again when the rule was
// edited. Their parameter `code` is the SHA-256 of the rule's source, so that every point's id has it.
#pragma once

#include <algorithm>

#include "harness/decode/registry.h"

namespace unmask {

inline constexpr const char* rule_code = "code";

inline bool is_interpreted(const method_info& method) {
  return std::ranges::find(method.parameters, rule_code, &parameter_spec::name) !=
         method.parameters.end();
}

}  // namespace unmask
