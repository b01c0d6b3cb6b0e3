// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Recipes of registered methods from the few settings that a test gives.
#pragma once

#include <string>

#include "harness/decode/registry.h"

namespace unmask::test {

inline parameters resolved(const std::string& method, const parameter_map& given = {},
                           const std::string& preset = "") {
  return parameters(method_registry::instance().find(method).resolve(preset, given));
}

inline recipe recipe_of(const std::string& method, const model_config& model,
                        const parameter_map& given = {}, const std::string& preset = "") {
  return method_registry::instance().make(method, model, resolved(method, given, preset));
}

}  // namespace unmask::test
