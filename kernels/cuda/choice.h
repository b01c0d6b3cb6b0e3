// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdlib>
#include <string>

#include "harness/base/error.h"

namespace unmask::cuda {

// Whether an environment variable holds `yes` rather than `no`; not set: `otherwise`. Any other word
// is an environment error.
inline bool chosen_by_environment(const char* variable, const char* yes, const char* no,
                                  bool otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  const std::string word = text;
  if (word == yes || word == no) return word == yes;
  throw environment_error(std::string(variable) + " is \"" + word + "\"; say " + yes + " or " + no);
}

}  // namespace unmask::cuda
