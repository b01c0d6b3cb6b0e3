// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdlib>
#include <map>
#include <string>

#include "harness/base/error.h"

namespace unmask::cuda {

// What a run of the program chose instead of environment variables, which are for tests and
// benchmarks of single kernels. Only between operations, and before the backend is first asked.
inline std::map<std::string, std::string>& run_choices() {
  static std::map<std::string, std::string> all;
  return all;
}
inline void choose(const char* variable, const std::string& word) {
  run_choices()[variable] = word;
}

// Whether a run chose, or an environment variable holds, `yes` rather than `no`; neither:
// `otherwise`. Any other word is an environment error.
inline bool chosen_by_environment(const char* variable, const char* yes, const char* no,
                                  bool otherwise) {
  const auto chosen = run_choices().find(variable);
  const char* text = chosen == run_choices().end() ? std::getenv(variable) : chosen->second.c_str();
  if (text == nullptr) return otherwise;
  const std::string word = text;
  if (word == yes || word == no) return word == yes;
  throw environment_error(std::string(variable) + " is \"" + word + "\"; say " + yes + " or " + no);
}

}  // namespace unmask::cuda
